/** Parses the Prometheus text format into samples. Histograms remain `_bucket` samples. */
export interface Sample {
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

export class Scrape {
  readonly #samples: ReadonlyMap<string, readonly Sample[]>
  /** When the scrape began, in milliseconds of a monotonic clock. */
  readonly at: number

  private constructor(samples: ReadonlyMap<string, readonly Sample[]>, at: number) {
    this.#samples = samples
    this.at = at
  }

  static parse(text: string, at: number): Scrape {
    const samples = new Map<string, Sample[]>()
    for (const line of text.split('\n')) {
      const [, name, labelText = '', valueText] = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line) ?? []
      if (name === undefined) continue
      const labels: Record<string, string> = {}
      for (const [, label, text] of labelText.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
        labels[label!] = text!.replace(/\\(.)/g, (_all, escaped: string) => (escaped === 'n' ? '\n' : escaped))
      }
      const sample = { labels, value: valueText === '+Inf' ? Infinity : Number(valueText) }
      const list = samples.get(name)
      if (list === undefined) samples.set(name, [sample])
      else list.push(sample)
    }
    return new Scrape(samples, at)
  }

  samples(name: string): readonly Sample[] {
    return this.#samples.get(name) ?? []
  }

  /** Returns the sum over all labels, or over those that match `which`. */
  sum(name: string, which: Readonly<Record<string, string>> = {}): number {
    let sum = 0
    for (const { labels, value } of this.samples(name)) {
      if (Object.entries(which).every(([label, text]) => labels[label] === text)) sum += value
    }
    return sum
  }
}

/**
 * Returns a quantile of the values counted between two scrapes, as the upper bound of its bucket; null if no value was
 * counted. The buckets of all labels are added up.
 */
export function quantileBetween(
  before: Scrape,
  after: Scrape,
  name: string,
  segment: string,
  share: number,
): number | null {
  const counts = new Map<number, number>()
  for (const [scrape, sign] of [
    [after, 1],
    [before, -1],
  ] as const) {
    for (const { labels, value } of scrape.samples(`${name}_bucket`)) {
      if (labels['segment'] !== segment) continue
      const bound = labels['le'] === '+Inf' ? Infinity : Number(labels['le'])
      counts.set(bound, (counts.get(bound) ?? 0) + sign * value)
    }
  }
  const total = counts.get(Infinity) ?? 0
  if (total <= 0) return null
  for (const [bound, count] of [...counts].sort(([a], [b]) => a - b)) if (count >= total * share) return bound
  return Infinity
}
