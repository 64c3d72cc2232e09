/**
 * A recorded watch, cut where the validators need it: the initial state, the revision it shows, and the events after
 * it.
 *
 *     ADDED ADDED ADDED  BOOKMARK(end mark, S)  MODIFIED@S+3  BOOKMARK …
 *     └──── initial ───┘          S             └──────── live ────────┘
 *
 * Without an end mark (resourceVersion 0, an old client) the border is not on the wire: it is taken to be where some
 * revision's state explains what comes before it, and where there is none, that is the violation.
 */
import { type Revision, toRevision } from '../../src/engine/model/revision.js'
import type { ListItem, ObjectItem, ReferenceHistory, Scope, WatchItem, WatchRecord } from '../support/history.js'

export interface Stream {
  readonly watch: WatchRecord
  /** Null when the watch requested none. */
  readonly initial: readonly ObjectItem[] | null
  /** The initial state is complete, so that the revision from which `live` continues is known. */
  readonly isInitialComplete: boolean
  /** Everything at or before it is in the initial state, or was received earlier. Null when it cannot be known. */
  readonly afterRevision: Revision | null
  /** The first of them is the end mark, which is a bookmark. */
  readonly live: readonly WatchItem[]
  /**
   * The revision from which completeness is no longer promised: the last one seen, if the stream was cut or still runs.
   */
  readonly isTailOpen: boolean
}

const known = new WeakMap<WatchRecord, { readonly reference: ReferenceHistory; readonly stream: Stream }>()

/** Computed once, since all validators need it. */
export function streamOf(watch: WatchRecord, reference: ReferenceHistory): Stream {
  const before = known.get(watch)
  if (before?.reference === reference) return before.stream
  const stream = cut(watch, reference)
  known.set(watch, { reference, stream })
  return stream
}

function cut(watch: WatchRecord, reference: ReferenceHistory): Stream {
  const isTailOpen = watch.end === 'cut' || watch.end === 'open'
  const base = { watch, isTailOpen }
  const { start, items } = watch
  if (start.kind === 'after') {
    return { ...base, initial: null, isInitialComplete: true, afterRevision: start.revision, live: items }
  }
  if (start.hasEndMark) {
    const mark = items.findIndex((item) => item.type === 'BOOKMARK' && item.isInitialEventsEnd)
    const initial = items.slice(0, mark === -1 ? items.length : mark).filter(isObject)
    return {
      ...base,
      initial,
      isInitialComplete: mark !== -1,
      afterRevision: items[mark]?.revision ?? null,
      live: mark === -1 ? [] : items.slice(mark),
    }
  }
  const border = findBorder(watch, reference)
  // If unexplained, it may be the beginning of a state that was cut off: then there is nothing but ADDED.
  const isCutOff = border === null && items.every(({ type }) => type === 'ADDED')
  const count = border?.count ?? (isCutOff ? items.length : 0)
  return {
    ...base,
    initial: items.slice(0, count).filter(isObject),
    isInitialComplete: border !== null,
    afterRevision: border?.revision ?? null,
    live: items.slice(count),
  }
}

/** The differences between a set of received objects and a state. Projections are compared only by revision. */
export function differences(received: readonly ListItem[], state: ReadonlyMap<string, ListItem>): string[] {
  const found: string[] = []
  const seen = new Set<string>()
  for (const { id, revision, fingerprint } of received) {
    const expected = state.get(id)
    if (seen.has(id)) found.push(`${id} is there twice`)
    seen.add(id)
    if (expected === undefined) found.push(`${id}@${revision} should not be there`)
    else if (expected.revision !== revision) found.push(`${id}@${revision} should be at ${expected.revision}`)
    else if (fingerprint !== null && fingerprint !== expected.fingerprint)
      found.push(`${id}@${revision} reads otherwise`)
  }
  for (const [id, { revision }] of state) if (!seen.has(id)) found.push(`${id}@${revision} is missing`)
  return found
}

/** One line for an event, equal for a received and an expected one that agree. */
export function describeItem(item: ObjectItem, withFingerprint: boolean): string {
  return `${item.type} ${item.id}@${item.revision}${withFingerprint ? ` ${item.fingerprint}` : ''}`
}

export function isObject(item: WatchItem): item is ObjectItem {
  return item.type !== 'BOOKMARK'
}

/** The longest prefix of ADDED items that is the state at some revision before the next item. */
function findBorder(
  { items, scope }: WatchRecord,
  reference: ReferenceHistory,
): { count: number; revision: Revision } | null {
  let leading = 0
  while (items[leading]?.type === 'ADDED') leading++
  for (let count = leading; count >= 0; count--) {
    const next = items[count]
    const initial = items.slice(0, count).filter(isObject)
    const newest = Math.max(reference.firstRevision, ...initial.map(({ revision }) => revision))
    // Nothing relevant happened between the state and the next item; otherwise it would have come before that.
    const revisions =
      next === undefined
        ? [newest, ...revisionsAfter(reference, scope, newest)]
        : [next.type === 'BOOKMARK' ? next.revision : next.revision - 1]
    for (const revision of revisions) {
      if (revision < newest) continue
      if (differences(initial, reference.stateAt(scope, toRevision(revision))).length > 0) continue
      return { count, revision: toRevision(revision) }
    }
  }
  return null
}

function revisionsAfter(reference: ReferenceHistory, scope: Scope, after: number): number[] {
  return reference.expectedEvents(scope, toRevision(after), reference.revision).map(({ revision }) => revision)
}
