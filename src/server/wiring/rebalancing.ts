/**
 * Moves connections to new replicas (`--rebalance`), as `served/rebalance.ts` decides. A connection that is to move takes
 * no further request, and then its watches end with a bookmark, so that their clients connect again and resume.
 *
 * Only connections with watches count and move; others end soon by themselves. A connection whose watches could not end
 * with a position is left alone, because its clients would list again. With workers, each process moves its own.
 */
import type { Cursor } from '../../engine/broadcast/cursor.js'
import { moveAway } from '../../engine/broadcast/endings.js'
import type { Timer } from '../../support/clock.js'
import { getOrMake } from '../../support/memo.js'
import { randomInteger } from '../../support/random.js'
import { beginWaiting, next, type RebalanceState } from '../served/rebalance.js'
import { followServiceEndpoints, isNodeLocal, type ServiceEndpointsOptions } from '../served/service-endpoints.js'
import type { HealthCheck } from '../transports/server/health.js'
import { leaveConnection } from '../transports/server/connection-drain.js'
import type { ResourceStage } from './open-resources.js'
import type { ServerDeps } from './server-deps.js'

const TICK_MS = 1_000
/** The time between GOAWAY and the end of the watches: a client that resumes at once must have read the GOAWAY. */
const LEAVING_MS = 100

type Connections = Map<object, Cursor[]>

export class Rebalancing {
  readonly #endpoints: ReturnType<typeof followServiceEndpoints>
  readonly #followed: ServiceEndpointsOptions
  readonly #self: string
  #state: RebalanceState | null = null
  /** Connections that are about to end, which no longer count. */
  readonly #leaving = new WeakSet<object>()
  readonly #timers = new Set<Timer>()
  /** Connections ended since the last report. */
  #closed = 0

  /** @param service `--rebalance`: namespace/name */
  constructor(
    private readonly deps: ServerDeps,
    private readonly stage: ResourceStage,
    private readonly service: string,
  ) {
    const { registry, resources, views } = stage
    const [namespace = '', name = ''] = service.split('/')
    // The configuration has both options or neither.
    this.#self = deps.config.podUid ?? ''
    this.#followed = {
      namespace,
      service: name,
      registry,
      find: (...path) => resources.findLive(...path),
      jsonOf: ({ served }, object) => views.json(served, object),
    }
    this.#endpoints = followServiceEndpoints(this.#followed)
  }

  readonly check: HealthCheck = {
    name: 'rebalance',
    problem: () => {
      const endpoints = this.#endpoints()
      if (endpoints === null) return 'endpointslices.discovery.k8s.io has not been read'
      if (isNodeLocal(this.#followed)) return `clients of ${this.service} stay on their node: it has a Local policy`
      return endpoints.some(({ uid }) => uid === this.#self) ? null : `this pod is not an endpoint of ${this.service}`
    },
    isInformational: true,
    informs: 'moves no connections',
  }

  start(): void {
    this.#after(TICK_MS, () => {
      this.#tick()
      this.start()
    })
  }

  stop(): void {
    for (const timer of this.#timers) timer.cancel()
  }

  #tick(): void {
    const endpoints = this.#endpoints()
    if (endpoints === null || isNodeLocal(this.#followed)) return
    let found: Connections | null = null
    const connections = (): Connections => (found ??= this.#connections())
    const nowMs = this.deps.clock.monotonic()
    const sight = { nowMs, endpoints, connections: () => connections().size }
    const { state, close, report } = next((this.#state ??= beginWaiting(sight, this.#self)), sight, this.#self)
    this.#state = state
    const { metrics, logger } = this.deps
    if (report !== null) {
      metrics.process.rebalanced(report.outcome)
      logger.info({ service: this.service, ...report, closed: this.#closed }, 'moved connections to new replicas')
      this.#closed = 0
    }
    if (close > 0) this.#move(connections(), close)
  }

  /** The connections with watches, and these watches. */
  #connections(): Connections {
    const found: Connections = new Map()
    for (const { dispatcher } of this.stage.resources.allPipelines()) {
      for (const cursor of dispatcher.cursors) {
        const { carrier } = cursor.output
        if (carrier !== undefined && !this.#leaving.has(carrier)) getOrMake(found, carrier, () => []).push(cursor)
      }
    }
    return found
  }

  /** Ends some connections within the coming second, one after the other. */
  #move(connections: Connections, count: number): void {
    const { random } = this.deps
    const movable = [...connections].filter(([, cursors]) => cursors.every(({ isResumable }) => isResumable))
    const chosen = Array.from({ length: Math.min(count, movable.length) }, () => {
      const [one] = movable.splice(randomInteger(random, 0, movable.length - 1), 1)
      return one!
    })
    for (const [i, [carrier, cursors]] of chosen.entries()) {
      this.#leaving.add(carrier)
      this.#after(((i + random.next()) / count) * TICK_MS, () => {
        leaveConnection(carrier)
        this.#after(LEAVING_MS, () => cursors.forEach(moveAway))
        this.deps.metrics.process.connectionMoved()
        this.#closed++
      })
    }
  }

  #after(ms: number, work: () => void): void {
    const timer = this.deps.clock.setTimer(ms, () => {
      this.#timers.delete(timer)
      work()
    })
    this.#timers.add(timer)
  }
}
