/**
 * An audit of everything a process watches, on request: what came of it, resource by resource, as an operator wants to read
 * it. One at a time: who asks while one runs is answered with that one, so that no number of requests makes etcd read more.
 *
 * No key is in the report: whoever may ask for an audit need not be allowed to read what is stored. Keys are in the log.
 */
import type { Resource } from '../model/resource.js'
import type { Revision } from '../model/revision.js'
import { Limiter } from '../support/limiter.js'
import type { CheckOutcome } from './consistency-check.js'
import type { ResourceFeed } from './resource-feed.js'

export interface CheckedResource {
  readonly resource: Resource
  readonly feed: ResourceFeed
}

export interface ConsistencyRow {
  readonly group: string
  /** Plural. */
  readonly resource: string
  readonly outcome: CheckOutcome['kind']
  /** Compared at it; null where nothing was. */
  readonly revision: Revision | null
  /** In etcd. */
  readonly objects: number
  readonly differences: number
  /** Values compared byte by byte. */
  readonly sampled: number
  /** What is cached of it is being listed anew, and its watchers end with 410. */
  readonly rebuilt: boolean
  /** Why it was skipped. */
  readonly reason: string | null
}

export interface ConsistencyReport {
  readonly kind: 'AuditReport'
  readonly apiVersion: 'distributary.io/v1'
  /** `incomplete`: no difference was found, and not everything could be compared. */
  readonly outcome: 'equal' | 'different' | 'incomplete'
  readonly resources: readonly ConsistencyRow[]
}

/** Each reads all keys of its resource. */
const AT_ONCE = 4
const NOT_OURS = 'this process does not watch it in etcd: ask the replica that publishes it'

export class ConsistencyOnRequest {
  readonly #resources: () => Iterable<CheckedResource>
  #running: Promise<ConsistencyReport> | null = null

  constructor(resources: () => Iterable<CheckedResource>) {
    this.#resources = resources
  }

  /** Never rejects on etcd's account: what could not be compared says why. */
  run(): Promise<ConsistencyReport> {
    this.#running ??= this.#check().finally(() => {
      this.#running = null
    })
    return this.#running
  }

  async #check(): Promise<ConsistencyReport> {
    const turns = new Limiter(AT_ONCE)
    const rows = [...this.#resources()].map(async ({ resource, feed }) => {
      const release = await turns.acquire()
      try {
        const outcome: CheckOutcome = (await feed.checkConsistency?.()) ?? { kind: 'skipped', reason: NOT_OURS }
        return rowOf(resource, outcome)
      } finally {
        release()
      }
    })
    const resources = await Promise.all(rows)
    const any = (kind: CheckOutcome['kind']): boolean => resources.some(({ outcome }) => outcome === kind)
    return {
      kind: 'AuditReport',
      apiVersion: 'distributary.io/v1',
      outcome: any('different') ? 'different' : any('skipped') ? 'incomplete' : 'equal',
      resources,
    }
  }
}

function rowOf({ group, plural }: Resource, outcome: CheckOutcome): ConsistencyRow {
  const isCompared = outcome.kind !== 'skipped'
  return {
    group,
    resource: plural,
    outcome: outcome.kind,
    revision: isCompared ? outcome.revision : null,
    objects: isCompared ? outcome.keys : 0,
    differences: outcome.kind === 'different' ? outcome.differences : 0,
    sampled: isCompared ? outcome.values : 0,
    rebuilt: outcome.kind === 'different',
    reason: isCompared ? null : outcome.reason,
  }
}
