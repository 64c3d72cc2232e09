/** Logs one line when an upstream goes down and one line when it is back, however many resources it feeds. */
import type { Ambient } from '../../support/ambient.js'
import type { Resource } from '../../engine/model/resource.js'
import { type OtherEtcd, otherOf } from '../../kubernetes/dialect/other-etcds.js'
import type { Timer } from '../../support/clock.js'

export interface OutageSource {
  readonly resource: Resource
  /** null while the resource is connected to its upstream. */
  readonly disconnectedReason: string | null
  /** Whether there is a state to serve meanwhile. */
  readonly isLoaded: boolean
}

export interface OutageLogOptions extends Pick<Ambient, 'clock' | 'logger'> {
  readonly sources: () => Iterable<OutageSource>
  /** The other etcds, each of which goes down and comes back independently. */
  readonly others: readonly OtherEtcd[]
}

const LOOK_MS = 500

export class OutageLog {
  /** When each upstream became unavailable; the key undefined stands for the main upstream. */
  readonly #sinceMs = new Map<OtherEtcd | undefined, number>()
  #timer: Timer | null = null

  constructor(private readonly options: OutageLogOptions) {}

  start(): void {
    this.#timer = this.options.clock.setTimer(LOOK_MS, () => {
      this.#look()
      this.start()
    })
  }

  stop(): void {
    this.#timer?.cancel()
  }

  #look(): void {
    const { clock, logger, sources, others } = this.options
    const outages = new Map<OtherEtcd | undefined, { resources: number; readonly reason: string }>()
    const loaded = new Set<OtherEtcd | undefined>()
    for (const { resource, disconnectedReason: reason, isLoaded } of sources()) {
      if (reason === null) continue
      const upstream = otherOf(others, resource)
      if (isLoaded) loaded.add(upstream)
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
        const meanwhile = loaded.has(upstream) ? 'serving from the cache' : 'nothing has been read from it yet'
        logger.warn({ ...fields, ...outage }, `upstream is unavailable; ${meanwhile}`)
      } else if (outage === undefined && sinceMs !== undefined) {
        this.#sinceMs.delete(upstream)
        logger.info({ ...fields, seconds: (clock.monotonic() - sinceMs) / 1000 }, 'upstream is back')
      }
    }
  }
}
