/**
 * What clients saw, and what etcd says happened: the two sides that the validators in `test/guarantees/` compare.
 *
 * A `RecordedHistory` is plain data, filled by `watch-recorder.ts` or by hand. A `ReferenceHistory` is the upstream's
 * own log, from which it derives what any watch or list should have seen, including selectors and transitions. It is as
 * simple as possible: no cache, no ring, no index, nothing shared with the code under test.
 */
import { createHash } from 'node:crypto'
import type { Batch, Key } from '../../src/engine/model/event.js'
import { type Revision, toRevision, ZERO_REVISION } from '../../src/engine/model/revision.js'

// ---- What clients saw

/** The objects of a watch or a list. */
export interface Scope {
  /** The etcd prefix of the resource, ending in '/'. */
  readonly prefix: Key
  readonly namespace?: string
  /** The label and field selectors together, as a predicate on the object. Default: everything. */
  readonly selects?: (object: unknown) => boolean
}

export type WatchStart =
  /** Exactly the events after the revision. */
  | { readonly kind: 'after'; readonly revision: Revision }
  /** The state first, then the events. For `notOlderThan`, `consistent` means no resourceVersion, and 0 means "any". */
  | { readonly kind: 'initial'; readonly notOlderThan: Revision | 'consistent'; readonly hasEndMark: boolean }

export interface ObjectItem {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'
  readonly revision: Revision
  /** `namespace/name`, or the name of a cluster-scoped object: the key after the prefix. */
  readonly id: string
  /** A fingerprint of everything but `metadata.resourceVersion`; null when the client asked for a projection. */
  readonly fingerprint: string | null
}

export interface BookmarkItem {
  readonly type: 'BOOKMARK'
  readonly revision: Revision
  readonly isInitialEventsEnd: boolean
}

export type WatchItem = ObjectItem | BookmarkItem

export type WatchEndKind =
  /** Still running when the history was taken. */
  | 'open'
  /** A complete response: the server ended it. */
  | 'eof'
  /** Ended with an ERROR event; `code` is its code. */
  | 'error'
  /** The connection broke, or we broke it: anything may be missing at the end. */
  | 'cut'

export interface WatchRecord {
  /** A name for messages: the watcher and the number of its stream. */
  readonly name: string
  readonly scope: Scope
  readonly start: WatchStart
  /** The items in order of arrival. */
  readonly items: readonly WatchItem[]
  readonly end: WatchEndKind
  readonly code?: number
  /** Set if the watch ended because etcd has never had the start revision. */
  readonly neverHad?: true
  /** Milliseconds, on the same clock as the writes. */
  readonly requestedAtMs: number
}

export interface ListItem {
  readonly id: string
  readonly revision: Revision
  readonly fingerprint: string | null
}

export interface ListRecord {
  readonly name: string
  readonly scope: Scope
  /** How fresh the response had to be: a quorum read, not older than a revision (0 for any), or exactly one. */
  readonly asked:
    | { readonly kind: 'consistent' }
    | { readonly kind: 'not-older-than'; readonly revision: Revision }
    | { readonly kind: 'exact'; readonly revision: Revision }
  readonly revision: Revision
  /** The items of all pages. */
  readonly items: readonly ListItem[]
  readonly requestedAtMs: number
  /** The age that the response states; 0 without one. */
  readonly statedAgeMs: number
}

/** A write that was acknowledged. */
export interface WriteRecord {
  readonly revision: Revision
  readonly returnedAtMs: number
}

export interface RecordedHistory {
  readonly watches: readonly WatchRecord[]
  readonly lists: readonly ListRecord[]
  readonly writes: readonly WriteRecord[]
}

// ---- What happened

/** A key that a revision changed; null where it does not exist. */
export interface Change {
  readonly key: Key
  readonly value: Buffer | null
  readonly previous: Buffer | null
  /** The previous value's mod revision; 0 without one. */
  readonly previousRevision: Revision
}

export interface ReferenceBatch {
  readonly revision: Revision
  readonly changes: readonly Change[]
}

export interface ReferenceObject {
  readonly object: unknown
  readonly fingerprint: string
}

/** How a value is served, or null when it cannot be. Default: as a JSON object. */
export type Describe = (key: Key, value: Buffer) => ReferenceObject | null

export class ReferenceHistory {
  readonly batches: readonly ReferenceBatch[]
  /** Watches may start here or later, and states are known from here on. */
  readonly firstRevision: Revision
  readonly #initial: ReadonlyMap<Key, { value: Buffer; revision: Revision }>
  readonly #describe: Describe
  readonly #described = new WeakMap<Buffer, ReferenceObject | { unservable: true }>()

  /**
   * @param batches the whole log after `firstRevision`, ascending.
   * @param initial the state at `firstRevision`. Default: empty, at revision 1, as in a new etcd.
   */
  constructor(
    batches: readonly Batch[],
    initial: { revision: Revision; state: ReadonlyMap<Key, { value: Buffer; revision: Revision }> } = {
      revision: toRevision(1),
      state: new Map(),
    },
    describe: Describe = describeJson,
  ) {
    this.firstRevision = initial.revision
    this.#initial = initial.state
    this.#describe = describe
    const state = new Map(initial.state)
    this.batches = batches
      .filter(({ revision }) => revision > initial.revision)
      .map(({ revision, events }) => ({
        revision,
        changes: events.map((event): Change => {
          const key = event.type === 'put' ? event.keyValue.key : event.key
          const before = state.get(key)
          const value = event.type === 'put' ? event.keyValue.value : null
          if (value === null) state.delete(key)
          else state.set(key, { value, revision })
          return { key, value, previous: before?.value ?? null, previousRevision: before?.revision ?? ZERO_REVISION }
        }),
      }))
  }

  get revision(): Revision {
    return this.batches.at(-1)?.revision ?? this.firstRevision
  }

  /** Returns what a watcher of the scope must receive for the revisions in (after, through], in etcd's order. */
  expectedEvents(scope: Scope, after: Revision, through: Revision): ObjectItem[] {
    const items: ObjectItem[] = []
    for (let i = this.#firstAfter(after); i < this.batches.length; i++) {
      const { revision, changes } = this.batches[i] as ReferenceBatch
      if (revision > through) break
      for (const change of changes) {
        const item = this.#expectedEvent(scope, change, revision)
        if (item !== null) items.push(item)
      }
    }
    return items
  }

  /** Returns what a list of the scope at a revision must contain, by id. */
  stateAt(scope: Scope, revision: Revision): Map<string, ListItem> {
    const state = new Map<string, ListItem>()
    const set = (key: Key, value: Buffer | null, modRevision: Revision): void => {
      const id = idInScope(scope, key)
      if (id === null) return
      const described = this.#selected(scope, key, value)
      if (described === null) state.delete(id)
      else state.set(id, { id, revision: modRevision, fingerprint: described.fingerprint })
    }
    for (const [key, { value, revision }] of this.#initial) set(key, value, revision)
    for (const batch of this.batches) {
      if (batch.revision > revision) break
      for (const { key, value } of batch.changes) set(key, value, batch.revision)
    }
    return state
  }

  /** The index of the first batch after a revision. */
  #firstAfter(revision: Revision): number {
    let low = 0
    let high = this.batches.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((this.batches[middle] as ReferenceBatch).revision <= revision) low = middle + 1
      else high = middle
    }
    return low
  }

  #expectedEvent(scope: Scope, { key, value, previous }: Change, revision: Revision): ObjectItem | null {
    const id = idInScope(scope, key)
    if (id === null) return null
    const before = this.#selected(scope, key, previous)
    const after = this.#selected(scope, key, value)
    if (after !== null) {
      return { type: before === null ? 'ADDED' : 'MODIFIED', revision, id, fingerprint: after.fingerprint }
    }
    return before === null ? null : { type: 'DELETED', revision, id, fingerprint: before.fingerprint }
  }

  #selected(scope: Scope, key: Key, value: Buffer | null): ReferenceObject | null {
    if (value === null) return null
    let described = this.#described.get(value)
    if (described === undefined) {
      described = this.#describe(key, value) ?? { unservable: true }
      this.#described.set(value, described)
    }
    if ('unservable' in described) return null
    return scope.selects === undefined || scope.selects(described.object) ? described : null
  }
}

/** The id of a key in the scope, or null outside it. */
function idInScope({ prefix, namespace }: Scope, key: Key): string | null {
  if (!key.startsWith(prefix)) return null
  const id = Buffer.from(key.slice(prefix.length), 'latin1').toString('utf8')
  return namespace === undefined || id.startsWith(`${namespace}/`) ? id : null
}

/** Serves JSON objects, and nothing else. */
export function describeJson(_key: Key, value: Buffer): ReferenceObject | null {
  try {
    const object: unknown = JSON.parse(value.toString('utf8'))
    if (typeof object !== 'object' || object === null || Array.isArray(object)) return null
    return { object, fingerprint: fingerprintOf(object) }
  } catch {
    return null
  }
}

/** Returns a fingerprint of everything but `metadata.resourceVersion`, whatever the order of the members. */
export function fingerprintOf(object: unknown): string {
  const text = JSON.stringify(object, (key, value: unknown) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
    const members = Object.entries(value).filter(([name]) => key !== 'metadata' || name !== 'resourceVersion')
    return Object.fromEntries(members.sort(([a], [b]) => (a < b ? -1 : 1)))
  })
  return createHash('sha256').update(text).digest('base64url').slice(0, 16)
}
