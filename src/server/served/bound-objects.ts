/**
 * Looks up the pods, nodes, service accounts and Secrets to which tokens are bound. It reports whether the object with
 * a given UID exists, and when such an object is deleted.
 *
 * A fresh cache confirms that an object exists. If the cache lacks an object, the object may just be newer than the
 * cache, so a consistent read decides.
 */
import type { BoundObject, BoundObjects, Standing } from '../auth/authn/service-account.js'
import type { CacheBatch } from '../../engine/cache/cache-batch.js'
import type { WatchCache } from '../../engine/cache/watch-cache.js'
import type { Key } from '../../engine/model/event.js'
import { keyOfName } from '../../kubernetes/model/api-resource.js'
import type { ObjectNotes, StoredObject } from '../../engine/model/stored-object.js'
import { readMetadata } from '../../kubernetes/codec/protobuf/metadata.js'
import type { LiveResource } from '../../kubernetes/dialect/served-live-resource.js'
import type { Clock } from '../../support/clock.js'
import { getOrMake } from '../../support/memo.js'
import { recentEntries } from '../../support/recent-entries.js'
import { MAX_BOUND_OBJECTS } from '../limits/fixed-limits.js'

export interface BoundObjectsOptions {
  /** Returns the resource with its cache; undefined while the resource is not served or not cached. */
  readonly find: (plural: BoundObject['plural']) => LiveResource | undefined
  /** Whether the server that reviews tokens is also the source, so that nobody else can judge them while it is away. */
  readonly isSourceJudge: boolean
  readonly clock: Clock
}

/** A cache that etcd has not confirmed for longer than this cannot prove that an object exists. */
const MAX_STALENESS_MS = 10_000
/** While nobody can judge a token, it counts for as long as a running watch. */
const MAX_OUTAGE_MS = 300_000
/**
 * As in the API server, an object that is being deleted still counts as present for this long after its grace period.
 */
const LEEWAY_MS = 60_000
const READ_MS = 5_000

type Facts = Readonly<ReturnType<typeof readFacts>>

export function followBoundObjects({ find, isSourceJudge, clock }: BoundObjectsOptions): BoundObjects {
  const listeners = new Set<(uid: string | null) => void>()
  /** The UIDs of objects that were found present. */
  const watched = recentEntries<Key, string>(MAX_BOUND_OBJECTS)
  const followed = new WeakSet<WatchCache>()
  const facts = new WeakMap<ObjectNotes, Facts>()

  const notify = (uid: string | null): void => {
    for (const listener of listeners) listener(uid)
  }
  const factsOf = (object: StoredObject): Facts => getOrMake(facts, object.notes, () => readFacts(object))
  const follow = (cache: WatchCache, plural: BoundObject['plural']): void => {
    if (followed.has(cache)) return
    followed.add(cache)
    cache.listen({
      onBatch({ events }: CacheBatch) {
        for (const { object, previous } of events) {
          if (previous === null || object?.createRevision === previous.createRevision) continue
          const uid = watched.get(previous.key)
          if (uid === undefined) continue
          watched.delete(previous.key)
          // A caller's identity does not name the Secret to which its token is bound, so all callers are checked again.
          notify(plural === 'secrets' ? null : uid)
        }
      },
      onReset: () => notify(null),
    })
  }
  const judge = (object: StoredObject | undefined, { uid }: BoundObject): Standing => {
    if (object === undefined) return 'absent'
    const found = factsOf(object)
    if (found.uid !== uid || uid === '') return 'absent'
    if (found.endsAtMs !== null && found.endsAtMs < clock.now() - LEEWAY_MS) return 'absent'
    watched.set(object.key, uid)
    return 'present'
  }
  const readAgain = async (cache: WatchCache, key: Key, wanted: BoundObject): Promise<Standing> => {
    try {
      return judge(await cache.reads.consistentObject(key, AbortSignal.timeout(READ_MS)), wanted)
    } catch {
      return 'unknown'
    }
  }

  return {
    standing(wanted) {
      const live = find(wanted.plural)
      if (live?.cache.readiness.kind !== 'ready') return 'unknown'
      const { cache, served } = live
      follow(cache, wanted.plural)
      const key = keyOfName(served.resource, wanted)
      const held = cache.snapshot().get(key)
      const { ageMs, disconnectedReason } = cache.source
      const maxMs = isSourceJudge && disconnectedReason !== null ? MAX_OUTAGE_MS : MAX_STALENESS_MS
      if (ageMs <= maxMs && judge(held, wanted) === 'present') return 'present'
      return readAgain(cache, key, wanted)
    },
    onGone(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
}

function readFacts({ encoding, bytes }: StoredObject) {
  const { uid, deletionTimestamp } = encoding === 'protobuf' ? protobufMetadata(bytes) : metadataOf(bytes)
  return { uid, endsAtMs: deletionTimestamp === null ? null : Date.parse(deletionTimestamp) }
}

function protobufMetadata(bytes: Buffer): ReturnType<typeof metadataOf> {
  try {
    return readMetadata(bytes)
  } catch {
    return { uid: '', deletionTimestamp: null }
  }
}

/** An object without the metadata that the API server writes cannot be the object to which a token is bound. */
function metadataOf(json: Buffer): { readonly uid: string; readonly deletionTimestamp: string | null } {
  const { metadata } = JSON.parse(json.toString('utf8')) as { readonly metadata?: Readonly<Record<string, unknown>> }
  const { uid, deletionTimestamp } = metadata ?? {}
  return {
    uid: typeof uid === 'string' ? uid : '',
    deletionTimestamp: typeof deletionTimestamp === 'string' ? deletionTimestamp : null,
  }
}
