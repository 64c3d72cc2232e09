/** Logs one line when an upstream goes down and one line when it is back, however many resources it feeds. */
import type { Resource } from '../../engine/model/resource.js'
import { type OtherEtcd, otherOf } from '../../kubernetes/dialect/other-etcds.js'
import type { Clock, Timer } from '../../support/clock.js'
import type { Logger } from '../../support/log.js'

export interface OutageSource {
  readonly resource: Resource
  /** null while the resource is connected to its upstream. */
  readonly disconnectedReason: string | null
}

export interface OutageLogOptions {
  readonly sources: () => Iterable<OutageSource>
  /** The other etcds, each of which goes down and comes back independently. */
  readonly others: readonly OtherEtcd[]
  readonly clock: Clock
  readonly logger: Logger
}

const LOOK_MS = 500

export class OutageLog {
  readonly #options: OutageLogOptions
  /** When each upstream became unavailable; the key undefined stands for the main upstream. */
  readonly #sinceMs = new Map<OtherEtcd | undefined, number>()
  #timer: Timer | null = null

  constructor(options: OutageLogOptions) {
    this.#options = options
  }

  start(): void {
    this.#timer = this.#options.clock.setTimer(LOOK_MS, () => {
      this.#look()
      this.start()
    })
  }

  stop(): void {
    this.#timer?.cancel()
  }

  #look(): void {
    const { clock, logger, sources, others } = this.#options
    const outages = new Map<OtherEtcd | undefined, { resources: number; readonly reason: string }>()
    for (const { resource, disconnectedReason: reason } of sources()) {
      if (reason === null) continue
      const upstream = otherOf(others, resource)
      const outage = outages.get(upstream)
      if (outage === undefined) outages.set(upstream, { resources: 1, reason })
      else outage.resources++
    }
    for (const upstream of [undefined, ...others]) {
      const fields = upstream === undefined ? {} : { etcd: upstream.servers.join() }
      const outage = outages.get(upstream)
      const sinceMs = this.#sinceMs.get(upstream)
      if (outage !== undefined && sinceMs === undefined) {
        this.#sinceMs.set(upstream, clock.monotonic())
        logger.warn({ ...fields, ...outage }, 'upstream is unavailable; serving from the cache')
      } else if (outage === undefined && sinceMs !== undefined) {
        this.#sinceMs.delete(upstream)
        logger.info({ ...fields, seconds: (clock.monotonic() - sinceMs) / 1000 }, 'upstream is back')
      }
    }
  }
}
