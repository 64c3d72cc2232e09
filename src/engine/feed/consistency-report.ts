/**
 * Compares everything that a process watches with etcd, on request, and reports the outcome for each resource to the
 * operator. Only one check runs at a time. Requests that arrive during a check get its report, so that many requests do
 * not make etcd read more.
 *
 * The report contains no keys, because callers who may request a check may not be allowed to read the stored objects.
 * The keys are in the log.
 */
import type { Resource } from '../model/resource.js'
import type { Revision } from '../model/revision.js'
import { Semaphore } from '../../support/semaphore.js'
import type { CheckOutcome } from './consistency-check.js'
import type { ResourceFeed } from './resource-feed.js'

export interface CheckedResource {
  readonly resource: Resource
  readonly feed: ResourceFeed
}

export interface ConsistencyRow {
  readonly group: string
  /** The plural name. */
  readonly resource: string
  readonly outcome: CheckOutcome['kind']
  /** The revision that was compared; null when nothing was compared. */
  readonly revision: Revision | null
  /** The number of objects in etcd. */
  readonly objects: number
  readonly differences: number
  /** The number of values compared byte by byte. */
  readonly sampled: number
  /** Whether the cache relists the resource, which ends its watchers with 410. */
  readonly rebuilt: boolean
  /** Why the resource was skipped; null if it was compared. */
  readonly reason: string | null
}

export interface ConsistencyReport {
  /** `incomplete`: no difference was found, but not everything could be compared. */
  readonly outcome: 'equal' | 'different' | 'incomplete'
  readonly resources: readonly ConsistencyRow[]
}

/** The number of resources checked at the same time. It is small because each check reads all keys of its resource. */
const AT_ONCE = 4
const NOT_OURS = 'this process does not watch it in etcd: check it on the replica that publishes it'

export class ConsistencyOnRequest {
  readonly #resources: () => Iterable<CheckedResource>
  #running: Promise<ConsistencyReport> | null = null

  constructor(resources: () => Iterable<CheckedResource>) {
    this.#resources = resources
  }

  /** A failure of etcd does not reject the promise. The report then says why a resource could not be compared. */
  run(): Promise<ConsistencyReport> {
    this.#running ??= this.#check().finally(() => {
      this.#running = null
    })
    return this.#running
  }

  async #check(): Promise<ConsistencyReport> {
    const slots = new Semaphore(AT_ONCE)
    const rows = [...this.#resources()].map(async ({ resource, feed }) => {
      const release = await slots.acquire()
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
