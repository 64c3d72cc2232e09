/**
 * A seeded random life of one resource under many watchers, and a plain model of what each of them must receive:
 * exactly the events after its start, or a prefix of them and an explicit end. The ring and the logs are tiny, so that
 * cursors keep falling out of both.
 */
import { drain } from '../../../src/engine/broadcast/endings.js'
import type { Snapshot } from '../../../src/engine/cache/store.js'
import type { Batch, KeyEvent, KeyValue } from '../../../src/engine/model/event.js'
import { RevisionExpiredError } from '../../../src/engine/model/errors.js'
import { randomInteger, seededRandom } from '../../../src/support/random.js'
import { type ReadEvent, brief, del, podKeyValue, put, readLines, rev, specEncoder } from '../../support/objects.js'
import { nextTurn } from '../../support/virtual-clock.js'
import { type Watcher, createHarness } from './harness.js'

export type Harness = ReturnType<typeof createHarness>

interface Pod {
  readonly namespace: string
  readonly name: string
  readonly app: string
  readonly node: string
  readonly created: number
  readonly modified: number
}

interface Change {
  readonly before: Pod | null
  readonly after: Pod | null
}

/** A resume strictly inside is rejected, whatever the floor. */
interface Gap {
  readonly after: number
  readonly until: number
}

interface Told {
  readonly revision: number
  readonly changes: readonly Change[]
}

/** A selector, and a plain function equivalent to it. */
interface Choice {
  readonly labels?: string
  readonly fields?: string
  readonly matches: (pod: Pod) => boolean
}

interface Subject {
  readonly id: string
  readonly watcher: Watcher
  readonly namespace: string
  readonly choice: Choice
  readonly onlySpec: boolean
  readonly bookmarks: boolean
  /** Exclusive. */
  readonly after: number
  readonly initial: ReadonlyMap<string, Pod> | null
  /** Once full, it stays full. */
  readonly isDead: boolean
  /** The cache's revision at each write. */
  readonly heads: number[]
  /** The ring's floor when it ended. */
  floorAtEnd: number
}

const CHOICES: readonly Choice[] = [
  { matches: () => true },
  { labels: 'app=web', matches: ({ app }) => app === 'web' },
  { labels: 'app!=web', matches: ({ app }) => app !== 'web' },
  { labels: 'app in (web, db)', matches: ({ app }) => app === 'web' || app === 'db' },
  { labels: '!app', matches: ({ app }) => app === '' },
  { fields: 'spec.nodeName=n1', matches: ({ node }) => node === 'n1' },
  { fields: 'spec.nodeName!=n1', matches: ({ node }) => node !== 'n1' },
  { fields: 'metadata.name=p3', matches: ({ name }) => name === 'p3' },
  { fields: 'metadata.namespace=x', matches: ({ namespace }) => namespace === 'x' },
  { labels: 'app=db', fields: 'spec.nodeName=n2', matches: ({ app, node }) => app === 'db' && node === 'n2' },
]
const NAMESPACES = ['x', 'xy', 'y']
const APPS = ['web', 'db', '']
const NODES = ['n1', 'n2', '']
const RING_ITEMS = 12
const LOG_BYTES = 4 * 1024
const FIRST_REVISION = 50
const MAX_WATCHERS = 60

export interface HistoryOptions {
  readonly seed: number
  readonly steps?: number
  /** Introduces a defect into the build under test. */
  readonly spoil?: (harness: Harness) => void
}

export interface HistoryResult {
  readonly violations: readonly string[]
  readonly watchers: number
  readonly events: number
  readonly bookmarks: number
  readonly expired: number
  readonly stuck: number
  readonly completed: number
}

export async function runHistory({ seed, steps = 150, spoil }: HistoryOptions): Promise<HistoryResult> {
  const random = seededRandom(seed)
  const chance = (p: number): boolean => random.next() < p
  const integer = (min: number, max: number): number => randomInteger(random, min, max)
  const oneOf = <T>(list: readonly T[]): T => list[integer(0, list.length - 1)]!

  // etcd's actual state, and what the cache has received so far.
  const etcd = new Map<string, Pod>()
  let etcdRevision = FIRST_REVISION
  let pending: Told[] = []
  const told: Told[] = []
  const gaps: Gap[] = []
  const statesAt = new Map<number, ReadonlyMap<string, Pod>>()
  const trustsProgress = chance(0.5)

  const harness = createHarness({
    ring: { maxItems: RING_ITEMS },
    logBytes: LOG_BYTES,
    allLogBytes: oneOf([LOG_BYTES, 64 * LOG_BYTES]),
    replayBytes: LOG_BYTES,
    bookmarkIntervalMs: 10_000,
    // In one of three runs there is never time, and everything comes from the ring.
    dispatchMs: seed % 3 === 0 ? 0 : 60_000,
    random,
    revision: FIRST_REVISION,
    freshness: {
      trustsProgress,
      readState: async () => ({ revision: rev(etcdRevision), keyValues: keyValuesOf(etcd) }),
    },
  })
  spoil?.(harness)
  const { cache, dispatcher, clock, settle, pump } = harness
  const subjects: Subject[] = []
  const open = (): Subject[] => subjects.filter(({ watcher }) => watcher.endReason === null)
  statesAt.set(FIRST_REVISION, new Map())

  const commit = (): void => {
    etcdRevision += integer(1, 2)
    const changes: Change[] = []
    const touched = new Set<string>()
    for (let i = integer(1, 4); i > 0; i--) {
      const namespace = oneOf(NAMESPACES)
      const name = `p${integer(1, 6)}`
      const key = `${namespace}/${name}`
      if (touched.has(key)) continue
      touched.add(key)
      const before = etcd.get(key) ?? null
      if (before !== null && chance(0.35)) {
        etcd.delete(key)
        changes.push({ before, after: null })
        continue
      }
      const created = before?.created ?? etcdRevision
      const after = { namespace, name, app: oneOf(APPS), node: oneOf(NODES), created, modified: etcdRevision }
      etcd.set(key, after)
      changes.push({ before, after })
    }
    pending.push({ revision: etcdRevision, changes })
    statesAt.set(etcdRevision, new Map(etcd))
  }

  const deliver = (count: number): void => {
    const now = pending.splice(0, count)
    if (now.length === 0) return
    told.push(...now)
    cache.apply(now.map(batchOf))
  }

  /** Pending events are lost; the cache gets the state instead. */
  const relist = (reason: 'gap' | 'coalesce'): void => {
    const older = statesAt.get(lastTold(cache.revision))!
    const after = cache.revision
    pending = []
    etcdRevision++
    statesAt.set(etcdRevision, new Map(etcd))
    if (reason === 'coalesce') {
      told.push(...difference(older, etcd, { after, until: etcdRevision }))
      gaps.push({ after, until: etcdRevision })
    }
    const state = cache.replace(rev(etcdRevision), reason)
    state.add(keyValuesOf(etcd))
    state.commit()
  }
  const lastTold = (revision: number): number => {
    let last = FIRST_REVISION
    for (const known of statesAt.keys()) if (known <= revision && known > last) last = known
    return last
  }

  const watch = async (): Promise<void> => {
    const namespace = chance(0.5) ? '' : oneOf(NAMESPACES)
    const choice = oneOf(CHOICES)
    const onlySpec = chance(0.2)
    const bookmarks = chance(0.7)
    const isInitial = chance(0.4)
    let initial: ReadonlyMap<string, Pod> | null = null
    let after = Math.max(1, cache.revision + integer(-20, 6))
    let snapshot: Snapshot | null = null
    if (isInitial) {
      // As fresh as etcd itself; with an etcd whose progress cannot be trusted, that is ahead of the cache.
      const isFresh = !trustsProgress && chance(0.5)
      snapshot = isFresh ? await cache.reads.consistentSnapshot() : cache.snapshot()
    }
    const heads: number[] = []
    try {
      const watcher = harness.watch({
        namespace,
        ...(choice.labels === undefined ? {} : { labels: choice.labels }),
        ...(choice.fields === undefined ? {} : { fields: choice.fields }),
        ...(onlySpec ? { encoder: specEncoder } : {}),
        bookmarks,
        timeoutMs: integer(1_000, 300_000),
        start:
          snapshot === null
            ? after
            : { kind: 'initial', snapshot, minRevision: chance(0.5) ? snapshot.revision : rev(0), marksEnd: true },
      })
      if (snapshot !== null) {
        after = watcher.cursor.initial!.revision
        initial = statesAt.get(lastTold(after))!
      }
      watcher.output.onWrite = () => heads.push(cache.revision)
      if (chance(0.2)) watcher.output.isFull = true
      const id = `#${subjects.length} ns=${namespace} ${choice.labels ?? ''} ${choice.fields ?? ''} after=${after}`
      const base = {
        id,
        watcher,
        namespace,
        choice,
        onlySpec,
        bookmarks,
        after,
        initial,
        isDead: chance(0.05),
        heads,
        floorAtEnd: -1,
      }
      subjects.push(base)
    } catch (error) {
      if (!(error instanceof RevisionExpiredError)) throw error
    }
  }

  const noteEnds = (): void => {
    for (const subject of subjects) {
      if (subject.watcher.endReason !== null && subject.floorAtEnd === -1)
        subject.floorAtEnd = cache.history.floorRevision
    }
  }

  for (let step = 0; step < steps; step++) {
    const what = random.next()
    if (what < 0.4) {
      commit()
      if (chance(0.6)) deliver(integer(1, pending.length))
    } else if (what < 0.48) {
      deliver(pending.length)
      etcdRevision += integer(0, 3)
      cache.progress(rev(etcdRevision))
    } else if (what < 0.72) {
      for (let i = integer(1, 4); i > 0 && open().length < MAX_WATCHERS; i--) await watch()
    } else if (what < 0.9) {
      for (const { watcher, isDead } of open()) {
        if (watcher.output.isFull ? !isDead && chance(0.3) : chance(0.1)) {
          if (watcher.output.isFull) watcher.drain()
          else watcher.output.isFull = true
        }
      }
    } else if (what < 0.94) {
      for (const { watcher } of open()) if (chance(0.05)) watcher.cursor.closed()
    } else if (what < 0.985) clock.advance(integer(100, 12_000))
    else relist(oneOf(['gap', 'coalesce'] as const))
    if (chance(0.5)) await nextTurn()
    if (chance(0.3)) await settle()
    noteEnds()
  }

  // Everybody receives what is available.
  deliver(pending.length)
  cache.progress(rev(etcdRevision))
  for (const { watcher } of open()) watcher.drain()
  await settle()
  noteEnds()

  const violations: string[] = []
  const counts = { events: 0, bookmarks: 0, expired: 0, stuck: 0, completed: 0 }
  for (const subject of subjects) {
    for (const problem of problemsOf(subject, told, gaps, counts)) violations.push(`${subject.id}: ${problem}`)
  }
  for (const subject of open()) {
    if (chance(0.5)) subject.watcher.cursor.closed()
    else drain(subject.watcher.cursor)
  }
  await settle()
  const left = {
    watchers: dispatcher.watchers,
    groups: [...dispatcher.groups].length,
    matchers: dispatcher.matchers,
    paths: dispatcher.facts.pathsInUse,
    scheduled: dispatcher.scheduled,
    pump: pump.depth,
  }
  for (const [what, count] of Object.entries(left)) if (count !== 0) violations.push(`${count} ${what} are left over`)
  dispatcher.close()
  return { violations, watchers: subjects.length, ...counts }
}

function problemsOf(
  { watcher, namespace, choice, onlySpec, after, initial, heads, floorAtEnd }: Subject,
  told: readonly Told[],
  gaps: readonly Gap[],
  counts: { events: number; bookmarks: number; expired: number; stuck: number; completed: number },
): string[] {
  const { output, endReason } = watcher
  const isIn = (pod: Pod | null): pod is Pod =>
    pod !== null && (namespace === '' || pod.namespace === namespace) && choice.matches(pod)
  const problems: string[] = []
  const events = output.events
  let at = 0
  let position = after

  if (initial !== null) {
    const left = new Map([...initial].filter(([, pod]) => isIn(pod)))
    position = -1
    for (; at < events.length; at++) {
      const event = events[at]!
      if (event.type !== 'ADDED' || event.resumeAfter !== null) break
      const key = `${event.object.metadata.namespace}/${event.object.metadata.name}`
      const pod = left.get(key)
      if (pod === undefined) problems.push(`initial: ${key} is too much`)
      else if (textOf('ADDED', pod, pod.modified) !== textOfSeen(event)) problems.push(`initial: ${key} is another`)
      left.delete(key)
    }
    const end = events[at]
    if (end !== undefined && brief(end) === `INITIAL-END @${after}`) {
      at++
      position = after
      if (left.size > 0) problems.push(`initial: without ${[...left.keys()].join(', ')}`)
    } else if (endReason === null) problems.push('initial: never complete')
    else if (end !== undefined && end.type !== 'ERROR') problems.push(`initial: goes on with ${brief(end)}`)
  }

  const expected = told
    .filter(({ revision }) => revision > after)
    .map(({ revision, changes }) => ({ revision, lines: linesOf(changes, revision, isIn, onlySpec) }))
    .filter(({ lines }) => lines.length > 0)
  let next = 0
  let line = 0
  let lastBookmark = -1
  for (; at < events.length; at++) {
    const event = events[at]!
    if (event.type === 'ERROR') {
      if (at !== events.length - 1) problems.push('something follows an ERROR')
      break
    }
    if (event.type === 'BOOKMARK') {
      counts.bookmarks++
      const revision = Number(event.object.metadata.resourceVersion)
      if (event.resumeAfter !== revision) problems.push(`bookmark ${revision} resumes at ${event.resumeAfter}`)
      if (revision < lastBookmark || revision < position) problems.push(`bookmark ${revision} goes back`)
      if (line > 0) problems.push(`bookmark ${revision} inside a revision`)
      const due = expected[next]
      if (due !== undefined && due.revision <= revision) problems.push(`bookmark ${revision} before ${due.revision}`)
      lastBookmark = revision
      position = revision
      continue
    }
    counts.events++
    const due = expected[next]
    if (due === undefined) {
      problems.push(`${brief(event)} is too much`)
      break
    }
    if (due.lines[line] !== textOfSeen(event)) {
      problems.push(`expected ${due.lines[line]}, got ${textOfSeen(event)}`)
      break
    }
    line++
    const isLast = line === due.lines.length
    if (event.resumeAfter !== (isLast ? due.revision : null)) {
      problems.push(`${brief(event)} (${line} of ${due.lines.length}) resumes at ${event.resumeAfter}`)
    }
    if (isLast) {
      position = due.revision
      next++
      line = 0
    }
  }
  if (line > 0) problems.push('ends inside a revision')
  for (const [i, bytes] of output.writes.entries()) {
    const last = readLines(bytes.toString()).at(-1)!
    const isInitial = last.type === 'ADDED' && initial !== null && last.resumeAfter === null
    if (last.resumeAfter === null && last.type !== 'ERROR' && !isInitial)
      problems.push(`write ${i} ends inside a revision`)
    // An initial state may be ahead of the cache. Then its own revision is the watcher's position.
    const known = Math.max(heads[i] ?? Number.POSITIVE_INFINITY, initial === null ? 0 : after)
    if (last.type === 'BOOKMARK' && Number(last.resumeAfter) > known) {
      if (last.object.metadata.annotations === undefined) problems.push(`bookmark ${last.resumeAfter} of the future`)
    }
  }

  const error = events.at(-1)?.type === 'ERROR' ? events.at(-1)!.object.code : null
  if (endReason === null) {
    counts.completed++
    if (next < expected.length)
      problems.push(`without ${expected.length - next} revisions from ${expected[next]!.revision}`)
  } else if (endReason === 'expired') {
    counts.expired++
    if (error !== 410) problems.push(`expired with ${error}`)
    if (position >= floorAtEnd && !gaps.some(({ after: from, until }) => position > from && position < until)) {
      problems.push(`expired at ${position}, but the floor is ${floorAtEnd}`)
    }
  } else if (endReason === 'stuck') {
    counts.stuck++
    if (!output.isDestroyed || !output.isFull) problems.push('stuck, but it took everything')
  } else if (error !== null && position !== -1) problems.push(`${endReason} with ${error}`)
  return problems
}

function linesOf(
  changes: readonly Change[],
  revision: number,
  isIn: (pod: Pod | null) => pod is Pod,
  onlySpec: boolean,
): string[] {
  const lines: string[] = []
  for (const { before, after } of changes) {
    if (isIn(after)) {
      if (isIn(before) && onlySpec && before.node === after.node) continue
      lines.push(textOf(isIn(before) ? 'MODIFIED' : 'ADDED', after, revision))
    } else if (isIn(before)) lines.push(textOf('DELETED', before, revision))
  }
  return lines
}

function textOf(type: string, { namespace, name, app, node }: Pod, revision: number): string {
  return `${type} ${namespace}/${name}@${revision} app=${app} node=${node}`
}

function textOfSeen({ type, object: { metadata, spec } }: ReadEvent): string {
  const { namespace, name, resourceVersion, labels } = metadata
  return `${type} ${namespace}/${name}@${resourceVersion} app=${labels?.['app'] ?? ''} node=${spec?.nodeName}`
}

function fieldsOf({ app, node }: Pod): { labels: Record<string, string>; nodeName: string } {
  return { labels: app === '' ? {} : { app }, nodeName: node }
}

function batchOf({ revision, changes }: Told): Batch {
  const events = changes.map(({ before, after }): KeyEvent => {
    if (after === null) return del(before!.namespace, before!.name)
    return put(after.namespace, after.name, revision, fieldsOf(after), after.created)
  })
  return { revision: rev(revision), events }
}

function keyValuesOf(pods: ReadonlyMap<string, Pod>): KeyValue[] {
  return [...pods.values()]
    .map((pod) => podKeyValue(pod.namespace, pod.name, pod.modified, fieldsOf(pod), pod.created))
    .sort((a, b) => (a.key < b.key ? -1 : 1))
}

/** Returns the events that a gap must produce by the rules: puts at their revisions, deletes at the relist's. */
function difference(
  older: ReadonlyMap<string, Pod>,
  newer: ReadonlyMap<string, Pod>,
  { after: from, until }: Gap,
): Told[] {
  const byRevision = new Map<number, Change[]>()
  const add = (revision: number, change: Change): void => {
    byRevision.set(revision, [...(byRevision.get(revision) ?? []), change])
  }
  const byKey = ([a]: [string, Pod], [b]: [string, Pod]): number => (a < b ? -1 : 1)
  for (const [key, after] of [...newer].sort(byKey)) {
    const before = older.get(key) ?? null
    if (before?.modified === after.modified) continue
    if (before !== null && before.created !== after.created) {
      add(Math.max(after.modified - 1, from + 1), { before, after: null })
      add(after.modified, { before: null, after })
    } else add(after.modified, { before, after })
  }
  for (const [key, before] of [...older].sort(byKey)) if (!newer.has(key)) add(until, { before, after: null })
  return [...byRevision].sort(([a], [b]) => a - b).map(([revision, changes]) => ({ revision, changes }))
}
