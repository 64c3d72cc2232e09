/**
 * Opens many watches of one resource and measures their deliveries. Events and bytes are counted for every watcher. The
 * events themselves are parsed for only a sample of the watchers, because with more parsing the result would measure
 * this program instead of the server.
 */
import { Delays } from './delays.js'
import { createStreams, type Streams, type StreamsOptions } from './streams.js'

export interface LoadOptions extends StreamsOptions {
  readonly path: string
  readonly watchers: number
  /** The number of watches to open at once. */
  readonly burst: number
  /** The wall clock, which is compared with the write times in events. */
  readonly now: () => number
}

export interface LoadReport {
  readonly watchers: number
  readonly connections: number
  readonly openedMs: number
  readonly seconds: number
  readonly deliveries: number
  readonly deliveriesPerSecond: number
  readonly bytes: number
  /**
   * The smallest and the largest number of events that a watcher received. If they are far apart, some watchers are
   * behind.
   */
  readonly eventsPerWatcher: readonly [least: number, most: number]
  readonly failed: number
  /** Responses other than 200, and errors, with their counts. */
  readonly failures: Readonly<Record<string, number>>
  readonly endedEarly: number
  /**
   * For each event, the delays from its first arrival at an observed watcher to its arrival at each of the others; null
   * when there is nothing to compare.
   */
  readonly spreadMs: Quantiles | null
  /**
   * The delays from the time at which an event says it was written (`distributary.io/sent-at`) to its arrival at each
   * observed watcher.
   */
  readonly latencyMs: Quantiles | null
}

export interface Quantiles {
  readonly count: number
  readonly p50: number
  readonly p99: number
  readonly max: number
}

/** How many watchers are observed closely. */
const OBSERVED = 64
/**
 * How many resourceVersions are remembered with the time of their first arrival: watchers that are further behind are
 * measured only for latency.
 */
const REMEMBERED = 4_096

const RESOURCE_VERSION = '"resourceVersion":"'
/** Seconds since 1970, with a fraction. */
const SENT_AT = /"distributary\.io\/sent-at":"(\d+(?:\.\d+)?)"/

export class Load {
  readonly #options: LoadOptions
  readonly #streams: Streams
  readonly #events: Uint32Array
  readonly #firstSeen = new Map<string, number>()
  readonly #spread = new Delays()
  readonly #latency = new Delays()
  readonly #failures = new Map<string, number>()
  #accepted = 0
  #failed = 0
  #endedEarly = 0
  #deliveries = 0
  #bytes = 0
  #openedMs = 0
  #markedAt = 0
  #isMeasuring = false
  #isClosed = false
  #onSettled: (() => void) | null = null

  constructor(options: LoadOptions) {
    this.#options = options
    this.#streams = createStreams(options)
    this.#events = new Uint32Array(options.watchers)
  }

  get accepted(): number {
    return this.#accepted
  }

  get failed(): number {
    return this.#failed
  }

  get deliveries(): number {
    return this.#deliveries
  }

  /** Resolves when each watch has been answered or has failed, or when the signal aborts. */
  async open(signal: AbortSignal): Promise<void> {
    const { watchers, burst } = this.#options
    const startedAt = performance.now()
    const settled = (): number => this.#accepted + this.#failed
    const onAbort = (): void => this.#onSettled?.()
    signal.addEventListener('abort', onAbort, { once: true })
    for (let started = 0; settled() < watchers && !signal.aborted;) {
      while (started < watchers && started - settled() < burst) this.#openOne(started++)
      await new Promise<void>((resolve) => {
        this.#onSettled = resolve
      })
    }
    signal.removeEventListener('abort', onAbort)
    this.#openedMs = performance.now() - startedAt
  }

  /** Begins the measurement, and discards everything counted before. */
  mark(): void {
    this.#isMeasuring = true
    this.#markedAt = performance.now()
    this.#deliveries = 0
    this.#bytes = 0
    this.#events.fill(0)
  }

  close(): void {
    this.#isClosed = true
    this.#streams.close()
  }

  report(): LoadReport {
    const seconds = (performance.now() - this.#markedAt) / 1_000
    let least = Infinity
    let most = 0
    for (const count of this.#events) {
      if (count < least) least = count
      if (count > most) most = count
    }
    return {
      watchers: this.#accepted,
      connections: this.#streams.connections,
      openedMs: this.#openedMs,
      seconds,
      deliveries: this.#deliveries,
      deliveriesPerSecond: this.#deliveries / seconds,
      bytes: this.#bytes,
      eventsPerWatcher: [least === Infinity ? 0 : least, most],
      failed: this.#failed,
      failures: Object.fromEntries(this.#failures),
      endedEarly: this.#endedEarly,
      spreadMs: quantiles(this.#spread),
      latencyMs: quantiles(this.#latency),
    }
  }

  #openOne(index: number): void {
    const { path, watchers } = this.#options
    const isObserved = index % Math.max(1, Math.floor(watchers / OBSERVED)) === 0
    let hasResponse = false
    let tail = ''
    const settle = (): void => {
      this.#onSettled?.()
      this.#onSettled = null
    }
    this.#streams.open(path, {
      onResponse: (status) => {
        hasResponse = true
        if (status === 200) this.#accepted++
        else this.#fail(`status ${status}`)
        settle()
      },
      onData: (chunk) => {
        let lines = 0
        for (let at = chunk.indexOf(10); at !== -1; at = chunk.indexOf(10, at + 1)) lines++
        this.#events[index]! += lines
        this.#deliveries += lines
        this.#bytes += chunk.length
        if (!isObserved || !this.#isMeasuring) return
        const text = tail + chunk.toString('latin1')
        const end = text.lastIndexOf('\n') + 1
        for (const line of text.slice(0, end).split('\n')) if (line !== '') this.#observe(line)
        tail = text.slice(end)
      },
      onEnd: (error) => {
        if (this.#isClosed) return
        if (hasResponse) this.#endedEarly++
        else this.#fail(error === null ? 'no answer' : error.message)
        settle()
      },
    })
  }

  #fail(reason: string): void {
    this.#failed++
    // Reasons may contain addresses and ports, so only a few of them are kept.
    const known = this.#failures.size < 20 || this.#failures.has(reason) ? reason : 'other'
    this.#failures.set(known, (this.#failures.get(known) ?? 0) + 1)
  }

  #observe(line: string): void {
    const at = performance.now()
    const start = line.indexOf(RESOURCE_VERSION)
    if (start === -1 || line.startsWith('{"type":"BOOKMARK"')) return
    const from = start + RESOURCE_VERSION.length
    const resourceVersion = line.slice(from, line.indexOf('"', from))
    const first = this.#firstSeen.get(resourceVersion)
    if (first === undefined) {
      if (this.#firstSeen.size >= REMEMBERED) {
        const [oldest] = this.#firstSeen.keys()
        this.#firstSeen.delete(oldest!)
      }
      this.#firstSeen.set(resourceVersion, at)
    } else this.#spread.add(at - first)
    const sentAt = SENT_AT.exec(line)?.[1]
    if (sentAt !== undefined) this.#latency.add(Math.max(0, this.#options.now() - Number(sentAt) * 1_000))
  }
}

function quantiles(delays: Delays): Quantiles | null {
  if (delays.count === 0) return null
  return { count: delays.count, p50: delays.quantile(0.5), p99: delays.quantile(0.99), max: delays.max }
}
