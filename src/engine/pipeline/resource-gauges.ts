/** The values of one resource that are read at scrape time instead of being counted as they happen. */
import type { Resource } from '../model/resource.js'

export interface ResourceGauges {
  readonly resource: Resource
  readonly objects: number
  readonly unservable: number
  /** By the name of their key. */
  readonly encrypted: ReadonlyMap<string, number>
  readonly revision: number
  readonly ringBatches: number
  readonly ringBytes: number
  readonly ringAgeSeconds: number
  readonly waiting: number
  readonly stalenessSeconds: number
  readonly ready: boolean
  readonly groups: number
  readonly logBytes: number
  /** Counted since the start. */
  readonly sentEvents: number
  readonly sentBytes: number
  readonly blockedBytes: number
  /** The number of watchers by transport and state. */
  readonly watchers: ReadonlyMap<string, number>
}
