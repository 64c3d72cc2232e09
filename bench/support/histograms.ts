/** Quantiles of Prometheus histograms between two readings. */

/** Cumulative counts by upper bound, in ascending order, over all counted series. */
export type Buckets = ReadonlyMap<number, number>

/** @param isCounted whether a series with these labels counts. */
export function bucketsOf(text: string, name: string, isCounted: (labels: string) => boolean = () => true): Buckets {
  const sums = new Map<number, number>()
  for (const [, labels = '', le = '', count = ''] of text.matchAll(
    new RegExp(`^${name}_bucket\\{(.*?)le="([^"]+)"[^}]*\\} (\\S+)$`, 'gm'),
  )) {
    if (!isCounted(labels)) continue
    const bound = le === '+Inf' ? Infinity : Number(le)
    sums.set(bound, (sums.get(bound) ?? 0) + Number(count))
  }
  return new Map([...sums].toSorted(([a], [b]) => a - b))
}

/**
 * Returns a quantile, interpolated within its bucket as in PromQL; null when nothing was observed between the readings.
 */
export function quantileBetween(before: Buckets, after: Buckets, quantile: number): number | null {
  const counts = [...after].map(([bound, count]) => ({ bound, count: count - (before.get(bound) ?? 0) }))
  const total = counts.at(-1)?.count ?? 0
  if (total === 0) return null
  const rank = quantile * total
  const at = counts.findIndex(({ count }) => count >= rank)
  const [lower, upper] = [counts[at - 1] ?? { bound: 0, count: 0 }, counts[at]!]
  if (upper.bound === Infinity) return lower.bound
  return lower.bound + ((upper.bound - lower.bound) * (rank - lower.count)) / (upper.count - lower.count)
}

/** Returns the sum over the counted series of a counter. */
export function sumOf(text: string, name: string, isCounted: (labels: string) => boolean = () => true): number {
  let sum = 0
  for (const [, labels = '', value = ''] of text.matchAll(new RegExp(`^${name}(?:\\{(.*)\\})? (\\S+)$`, 'gm'))) {
    if (isCounted(labels)) sum += Number(value)
  }
  return sum
}
