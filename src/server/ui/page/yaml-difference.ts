/**
 * Finds the lines of a text that are new compared with an earlier text. They are the lines outside a longest common
 * subsequence. Objects have a few hundred lines, so the simple table is fast enough. Beyond MOST_LINES, no line is
 * marked.
 */
const MOST_LINES = 1_500

export function changedLines(before: string, after: string): boolean[] {
  const a = before.split('\n')
  const b = after.split('\n')
  if (a.length > MOST_LINES || b.length > MOST_LINES) return b.map(() => false)
  const width = b.length + 1
  // common[i * width + j] is the length of the longest common subsequence of a[i…] and b[j…].
  const common = new Uint16Array((a.length + 1) * width)
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      common[i * width + j] =
        a[i] === b[j]
          ? common[(i + 1) * width + j + 1]! + 1
          : Math.max(common[(i + 1) * width + j]!, common[i * width + j + 1]!)
    }
  }
  const changed: boolean[] = []
  let i = 0
  for (let j = 0; j < b.length;) {
    if (i < a.length && a[i] === b[j]) {
      changed.push(false)
      i++
      j++
    } else if (i < a.length && common[(i + 1) * width + j]! >= common[i * width + j + 1]!) i++
    else {
      changed.push(true)
      j++
    }
  }
  return changed
}
