/**
 * Processes the items in order, several at a time.
 * @param deadlineMs when to stop, by `performance.now()`.
 * @returns the number of items that are left then.
 */
export async function eachAtOnce<T>(
  items: readonly T[],
  atOnce: number,
  use: (item: T) => Promise<void>,
  deadlineMs = Infinity,
): Promise<number> {
  const left = items.toReversed()
  const goOn = async (): Promise<void> => {
    while (left.length > 0 && performance.now() < deadlineMs) await use(left.pop()!)
  }
  await Promise.all(Array.from({ length: atOnce }, goOn))
  return left.length
}
