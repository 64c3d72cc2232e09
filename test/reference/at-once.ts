/**
 * Processes the items in order, some at a time. @param deadlineMs of `performance.now()`. Returns how many are left
 * then.
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
