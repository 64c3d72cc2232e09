/** A sort that can pause, because sorting a hundred thousand names takes a tenth of a second. */

/** How many items are sorted in one step, and how many comparisons are made between two yields. */
const RUN = 128

/** Yields after every few comparisons. @returns the sorted items; equal items keep their order. */
export function* sortSteps<T>(items: readonly T[], compare: (a: T, b: T) => number): Generator<void, T[], void> {
  let runs: T[][] = []
  for (let at = 0; at < items.length; at += RUN) {
    if (at > 0) yield
    runs.push(items.slice(at, at + RUN).sort(compare))
  }
  while (runs.length > 1) {
    const merged: T[][] = []
    for (let at = 0; at < runs.length; at += 2) merged.push(yield* mergeSteps(runs[at]!, runs[at + 1] ?? [], compare))
    runs = merged
  }
  return runs[0] ?? []
}

function* mergeSteps<T>(a: readonly T[], b: readonly T[], compare: (a: T, b: T) => number): Generator<void, T[], void> {
  const merged: T[] = []
  for (let i = 0, j = 0; i < a.length || j < b.length;) {
    if (merged.length % RUN === RUN - 1) yield
    const takesA = j === b.length || (i < a.length && compare(a[i]!, b[j]!) <= 0)
    merged.push(takesA ? a[i++]! : b[j++]!)
  }
  return merged
}
