/**
 * Decides whether this is still the etcd whose events were delivered. A restored backup has the same cluster id if it
 * was restored with the same flags. Its revision is behind ours at first, but may have overtaken ours by the time we
 * reconnect. So the facts that we know about our revision are read again from etcd at that revision. Comparing only
 * cluster ids and revisions was rejected because it would accept a history that has overtaken ours, and two histories
 * would be served as one.
 */
import { setMaxListeners } from 'node:events'
import type { Key, KeyValue } from '../model/event.js'
import { nextRevision, type Revision } from '../model/revision.js'
import type { Clock } from '../../support/clock.js'
import { type Page, UpstreamError, type UpstreamReader, type UpstreamStatus } from '../upstream/upstream.js'
import type { FeedPlace } from './feed-state.js'
import { readInTime, summariseKeys } from './read-pages.js'
import { type HistoryFingerprint, isSamePut, type KnownPut } from './history-fingerprint.js'

export type HistoryVerdict =
  | { readonly kind: 'same'; readonly now: Revision; readonly status: UpstreamStatus }
  | { readonly kind: 'other'; readonly why: string }
  /** etcd has compacted our revision, so the changes after it can no longer be read either. */
  | { readonly kind: 'compacted' }

export interface SameHistoryOptions {
  readonly upstream: UpstreamReader
  readonly prefix: Key
  /** The id of the cluster that was listed. */
  readonly clusterId: string
  readonly place: FeedPlace
  /** The start revision of the watch. Revisions that the watch replays need not be compared here. */
  readonly startRevision: Revision
  readonly fingerprint: HistoryFingerprint
  /** As in `UpstreamStatus`. */
  readonly isHistoryDear: boolean
  readonly clock: Clock
  readonly signal: AbortSignal
}

/** Node warns of a leak when a signal has more listeners than this. Each read adds one, and there are about 20 reads. */
const LISTENERS = 50

/**
 * The reads do not depend on each other, so they are made side by side.
 * @throws UpstreamError when no decision is possible now.
 */
export async function compareHistory(options: SameHistoryOptions): Promise<HistoryVerdict> {
  setMaxListeners(LISTENERS, options.signal)
  const comparing = compareContent(options)
  comparing.catch(noop) // thrown below, unless the cluster is another one
  const status = await inTime(options, (signal) => options.upstream.status(signal))
  if (status.clusterId !== options.clusterId) {
    return { kind: 'other', why: `cluster id ${status.clusterId} instead of ${options.clusterId}` }
  }
  const verdict = await comparing
  return verdict.kind === 'same' ? { ...verdict, status } : verdict
}

type ContentVerdict = Exclude<HistoryVerdict, { kind: 'same' }> | { readonly kind: 'same'; readonly now: Revision }

async function compareContent(options: SameHistoryOptions): Promise<ContentVerdict> {
  const { upstream, prefix, place, fingerprint, isHistoryDear } = options
  // A small prefix is compared as a whole, with a single request instead of one for each key.
  const whole = isHistoryDear ? null : await readWhole(options)
  const facts = readFacts(options, whole)
  facts.catch(noop) // thrown below, unless etcd is behind us
  const now = whole?.currentRevision ?? (await inTime(options, (signal) => upstream.currentRevision(signal)))
  if (now < place.position)
    return { kind: 'other', why: `etcd is at revision ${now}, behind this server's ${place.position}` }

  try {
    const { puts, found, wasDeleted, count } = await facts
    const differing = puts.findLastIndex((put, i) => !isSamePut(put, found[i]!))
    if (differing !== -1) {
      return { kind: 'other', why: differenceOf(puts[differing]!, found[differing]!, place.position) }
    }
    const { lastDelete, keyCount } = fingerprint
    if (!wasDeleted) {
      return { kind: 'other', why: `a key deleted at revision ${lastDelete?.revision} still exists, or never existed` }
    }
    const { position: revision } = place
    if (keyCount !== null && count !== null && count !== keyCount) {
      return { kind: 'other', why: `${count} keys at revision ${revision} instead of ${keyCount}` }
    }
    if (!isReplayed(options)) {
      const keys = await summariseKeys({ upstream, prefix, revision, clock: options.clock, signal: options.signal })
      if (keys.maxModRevision > place.settled) {
        return { kind: 'other', why: `a change at revision ${keys.maxModRevision} never arrived here` }
      }
    }
  } catch (error) {
    if (error instanceof UpstreamError && error.code === 'compacted') return { kind: 'compacted' }
    throw error
  }
  return { kind: 'same', now }
}

/** Whether the watch replays everything after our newest event. */
function isReplayed({ startRevision, place }: SameHistoryOptions): boolean {
  return startRevision <= nextRevision(place.settled)
}

interface Facts {
  /** The compared puts, and what etcd has in their place at our revision. */
  readonly puts: readonly KnownPut[]
  readonly found: readonly (KeyValue | null)[]
  readonly wasDeleted: boolean
  /** The number of keys at our revision; null if it is not compared. */
  readonly count: number | null
}

async function readFacts(options: SameHistoryOptions, whole: Page | null): Promise<Facts> {
  const { upstream, prefix, fingerprint, isHistoryDear } = options
  const { lastDelete } = fingerprint
  const { position: revision } = options.place
  // If reading history is expensive and the watch replays everything after our newest event, comparing that event is
  // enough. Another history contains it only if it has repeated the event byte for byte, and comparing the other puts
  // would rule out nothing else.
  const isBrief = isHistoryDear && isReplayed(options) && fingerprint.puts.length > 0
  const puts = isBrief ? fingerprint.puts.slice(-1) : fingerprint.puts
  const limits = { limit: 1, keysOnly: true }
  const [found, wasDeleted, page] = await Promise.all([
    readAtPosition(options, puts, whole),
    lastDelete === null || isDeleted(options, lastDelete.key, lastDelete.revision),
    isBrief ? null : (whole ?? inTime(options, (signal) => upstream.read({ prefix, revision, ...limits, signal }))),
  ])
  return { puts, found, wasDeleted, count: page?.count ?? null }
}

/**
 * Whether a list that bridges a gap (`coalesce`) can belong to the same history, judged by one key. The sink has all
 * keys and compares the others.
 */
export async function canBridge(
  options: Omit<SameHistoryOptions, 'startRevision'>,
  revision: Revision,
): Promise<boolean> {
  const { newest } = options.fingerprint
  const { position } = options.place
  if (newest === null) return true
  const found = await readFingerprint(options, newest.key, revision)
  if (found === null || found.createRevision > position) return true
  if (found.modRevision <= position) return isSamePut(newest, found)
  return found.createRevision === newest.createRevision && found.version > newest.version
}

/**
 * Reads the whole prefix at our revision. Returns null if the fingerprint does not contain all keys, or if the prefix
 * does not fit into one response or cannot be read at that revision.
 */
async function readWhole(options: SameHistoryOptions): Promise<Page | null> {
  const { upstream, prefix, place, fingerprint } = options
  const { puts, keyCount } = fingerprint
  if (keyCount !== puts.length) return null
  const limit = keyCount + 1
  try {
    const { position: revision } = place
    const page = await inTime(options, (signal) => upstream.read({ prefix, revision, limit, signal }))
    return page.more ? null : page
  } catch (error) {
    if (error instanceof UpstreamError && (error.code === 'future-revision' || error.code === 'compacted')) return null
    throw error
  }
}

/** Reads the keys of our newest puts at our revision, in order. */
async function readAtPosition(
  options: SameHistoryOptions,
  puts: readonly KnownPut[],
  whole: Page | null,
): Promise<readonly (KeyValue | null)[]> {
  if (whole !== null) return puts.map(({ key }) => whole.keyValues.find((found) => found.key === key) ?? null)
  return await Promise.all(puts.map(({ key }) => readFingerprint(options, key, options.place.position)))
}

/**
 * Whether the key is absent at our revision and existed just before its deletion. If the revision before the deletion
 * is compacted, absence is enough.
 */
async function isDeleted(options: SameHistoryOptions, key: Key, revision: Revision): Promise<boolean> {
  const existed = async (): Promise<boolean> => {
    try {
      return (await readFingerprint(options, key, (revision - 1) as Revision)) !== null
    } catch (error) {
      if (error instanceof UpstreamError && error.code === 'compacted') return true
      throw error
    }
  }
  const [found, didExist] = await Promise.all([readFingerprint(options, key, options.place.position), existed()])
  return found === null && didExist
}

function readFingerprint(
  options: Omit<SameHistoryOptions, 'startRevision'>,
  key: Key,
  revision: Revision,
): Promise<KeyValue | null> {
  return inTime(options, (signal) => options.upstream.readKey(key, { revision, signal }))
}

function inTime<T>(
  { clock, signal }: Pick<SameHistoryOptions, 'clock' | 'signal'>,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  return readInTime(clock, signal, work)
}

function differenceOf(ours: KnownPut, theirs: KeyValue | null, revision: Revision): string {
  if (theirs === null) return `a key written at revision ${ours.modRevision} does not exist at revision ${revision}`
  if (theirs.modRevision !== ours.modRevision) {
    return `at revision ${revision}, a key was last written at ${theirs.modRevision} instead of ${ours.modRevision}`
  }
  return `a key written at revision ${ours.modRevision} has a different value in etcd`
}

function noop(): void {}
