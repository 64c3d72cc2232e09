/** Finds the known name that is most similar to a mistyped one. */

/** Returns null if no name is close enough, because a far-fetched guess would mislead. */
export function nearestName(typed: string, names: Iterable<string>): string | null {
  const mostEdits = Math.min(4, Math.max(1, Math.floor(typed.length / 3)))
  let best: string | null = null
  let bestEdits = mostEdits + 1
  for (const name of names) {
    if (Math.abs(name.length - typed.length) >= bestEdits) continue
    const edits = editDistance(typed.toLowerCase(), name.toLowerCase())
    if (edits < bestEdits) {
      best = name
      bestEdits = edits
    }
  }
  return best
}

/** Counts insertions, deletions, replacements and swaps of neighbours (optimal string alignment). */
function editDistance(a: string, b: string): number {
  if (a.length > 64 || b.length > 64) return Number.POSITIVE_INFINITY
  let beforeLast: number[] = []
  let previous = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1]
      let cost = Math.min(at(previous, j) + 1, at(row, j - 1) + 1, at(previous, j - 1) + (same ? 0 : 1))
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        cost = Math.min(cost, at(beforeLast, j - 2) + 1)
      row.push(cost)
    }
    beforeLast = previous
    previous = row
  }
  return at(previous, b.length)
}

function at(row: readonly number[], index: number): number {
  return row[index] ?? Number.POSITIVE_INFINITY
}
