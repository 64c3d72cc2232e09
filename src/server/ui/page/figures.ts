/** The types of the figures that the server sends over `/ui/events` and the page reads; declarations only. */

/** The state of one resource's feed; `part` is its role in a fleet. */
export interface FeedFigures {
  readonly resource: string
  readonly state: string
  readonly reason: string | null
  readonly part: 'publishes' | 'follows' | 'direct' | null
}

export interface ResourceFigures {
  readonly resource: string
  /** `/api/v1`, `/apis/apps/v1` */
  readonly path: string
  readonly plural: string
  readonly namespaced: boolean
  readonly revision: number
  readonly objects: number
  readonly watchers: number
  /** The share of the history's byte limit in use, 0 to 1. */
  readonly ringFill: number
  readonly ringBatches: number
  readonly ringAgeSeconds: number
  readonly stalenessSeconds: number
  /** null when ready. */
  readonly problem: string | null
}

/** Watchers that receive the same bytes. */
export interface GroupFigures {
  readonly resource: string
  readonly transport: string
  /** '' means everything; null if the selector is hidden from a reader who may not list the resource. */
  readonly selector: string | null
  readonly watchers: number
}

export interface ClientFigures {
  /** The user name, or the address of an unauthenticated caller. */
  readonly client: string
  readonly watchers: number
  /** Bytes written to its running watches since each began, before compression. */
  readonly sentBytes: number
}

export interface SlowWatcherFigures {
  readonly resource: string
  readonly transport: string
  readonly state: string
  /** The number of revisions by which the watcher is behind. */
  readonly behind: number
  readonly pendingBytes: number
}

/** Cumulative counts of delays from the cache to the socket, by upper bound in seconds. */
export type Delays = readonly (readonly [upTo: number, count: number])[]

export interface ProcessFigures {
  /** `server`, `worker 2` */
  readonly name: string
  readonly pid: number
  readonly uptimeSeconds: number
  readonly rssBytes: number
  readonly ready: boolean
  /** Events that entered the caches since the start; null in a process without caches, which serves no clients. */
  readonly takenEvents: number | null
  readonly sentEvents: number
  readonly watchers: number
}

export interface ServerAbout {
  readonly version: string
  /** Addresses, or a description. */
  readonly upstream: string
  readonly fleet: { readonly servers: string; readonly role: string; readonly cluster: string } | null
}

export interface ServerStatus extends ServerAbout {
  readonly ready: boolean
  readonly processes: readonly ProcessFigures[]
  readonly feeds: readonly FeedFigures[]
  readonly delays: Delays
  /** The number of watchers by transport and state. */
  readonly watchers: Readonly<Record<string, number>>
  readonly resources: readonly ResourceFigures[]
  readonly groups: readonly GroupFigures[]
  /** null if the clients are hidden from a reader who may not see them. */
  readonly clients: readonly ClientFigures[] | null
  readonly slow: readonly SlowWatcherFigures[]
  readonly slowCount: number
}

/** Sent instead of a status that is unavailable. */
export interface Trouble {
  readonly reason: string
}
