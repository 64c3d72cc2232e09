/**
 * Compares whole watch streams under random writes: the same watch on both servers from the same revision must give the
 * same events in the same order. A changed definition ends the streams of the API server; ours may continue, and its
 * further events are compared with a new watch on theirs.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { type Server, type Stream, watch } from './ask.js'
import { eachAtOnce } from './at-once.js'
import { compareBodies, isAge, isPassingBookmark, metadataOf, withColumnsOnce, withMetadataAlone } from './compare.js'
import { isArray, isObject, type LosslessJson } from './lossless.js'
import { query, root, type Shelf } from './questions.js'
import type { Report } from './report.js'
import { SHARD_WATCHES } from './shard-questions.js'

const TABLE = 'application/json;as=Table;v=v1;g=meta.k8s.io'
const METADATA = 'application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io'

const AT_ONCE = 32

interface Side {
  readonly server: Server
  stream: Stream | null
  isEnded: boolean
  events: LosslessJson[]
  /** The number of its events, without bookmarks. */
  count: number
}

interface Pair {
  readonly path: string
  readonly accept: string
  readonly theirs: Side
  readonly ours: Side
}

export class Streams {
  readonly #theirs: Server
  readonly #ours: Server
  readonly #report: Report
  #pairs: Pair[] = []

  constructor(theirs: Server, ours: Server, report: Report) {
    this.#theirs = theirs
    this.#ours = ours
    this.#report = report
  }

  get count(): number {
    return this.#pairs.length
  }

  /**
   * Opens watches of every resource, whole and selected, in three forms.
   *
   * @param revisionOf after which a resource's events are wanted.
   */
  async open(shelves: readonly Shelf[], revisionOf: (plural: string) => Promise<number>): Promise<void> {
    const pairs: Pair[] = []
    for (const shelf of shelves) {
      const everywhere = root(shelf, null)
      const revision = await revisionOf(shelf.plural)
      const field = shelf.fields[0]
      const selected: [name: string, value: string][][] = [
        [],
        [['labelSelector', 'app=web']],
        [['labelSelector', 'app!=web,tier']],
        [['fieldSelector', `metadata.name=${shelf.objects[0]?.name ?? 'nobody'}`]],
        ...SHARD_WATCHES,
        ...(field === undefined ? [] : ([[['fieldSelector', `${field}!=`]]] as [string, string][][])),
      ]
      const paths = [everywhere, ...(shelf.isNamespaced ? [root(shelf, 'team-a')] : [])]
      for (const path of paths) {
        for (const parameters of selected) {
          for (const accept of parameters.length === 0 ? ['application/json', TABLE, METADATA] : ['application/json']) {
            const all: [string, string][] = [
              ['watch', '1'],
              ['allowWatchBookmarks', 'true'],
              ['resourceVersion', String(revision)],
              ['timeoutSeconds', '600'],
              ...parameters,
            ]
            const side = (server: Server): Side => ({ server, stream: null, isEnded: false, events: [], count: 0 })
            pairs.push({ path: `${path}${query(all)}`, accept, theirs: side(this.#theirs), ours: side(this.#ours) })
          }
        }
      }
    }
    this.#pairs = pairs
    await eachAtOnce(pairs, AT_ONCE, async (pair) => {
      await Promise.all([start(pair, pair.theirs), start(pair, pair.ours)])
    })
  }

  /** Resumes the streams on ours, which has been restarted. */
  async resume(): Promise<void> {
    await eachAtOnce(this.#pairs, AT_ONCE, async ({ path, accept, ours, theirs }) => {
      const from = lastRevision(ours.events)
      const resumed = from === null ? path : path.replace(/resourceVersion=\d+/, `resourceVersion=${from}`)
      ours.isEnded = false
      await start({ path: resumed, accept, theirs, ours }, ours)
    })
  }

  /** Waits until no more events arrive, and compares. */
  async compare(): Promise<void> {
    const total = (): number => this.#pairs.reduce((sum, { theirs, ours }) => sum + theirs.count + ours.count, 0)
    const areEven = (): boolean => this.#pairs.every(({ theirs, ours }) => theirs.count === ours.count)
    // Equal in number and quiet; or quiet for long, which then shows as a difference.
    const deadline = Date.now() + 30_000
    for (let quietMs = 0, last = -1; quietMs < (areEven() ? 500 : 3_000) && Date.now() < deadline;) {
      await delay(100)
      quietMs = total() === last ? quietMs + 100 : 0
      last = total()
    }
    for (const { path, accept, theirs, ours } of this.#pairs) {
      this.#report.addEvents(theirs.count)
      const question = { method: 'GET', path, headers: { accept } }
      const told = ({ events }: Side): LosslessJson => {
        const lasting = events.filter((event) => !isPassingBookmark(event))
        return withoutAges(withColumnsOnce(lasting.map(withMetadataAlone), events))
      }
      const found = compareBodies(told(theirs), told(ours))
      const ends =
        theirs.isEnded === ours.isEnded ? [] : [{ where: 'stream', theirs: stateOf(theirs), ours: stateOf(ours) }]
      this.#report.add(question, [
        ...ends,
        ...found.map((difference) => ({ ...difference, where: `stream ${difference.where}` })),
      ])
    }
  }

  /** Closes all streams. */
  close(): void {
    for (const { theirs, ours } of this.#pairs) {
      theirs.stream?.close()
      ours.stream?.close()
    }
    this.#pairs = []
  }
}

function stateOf({ isEnded, count }: Side): string {
  return `${isEnded ? 'ended' : 'goes on'} after ${count} events`
}

/** The last revision received, where a client resumes. */
function lastRevision(events: readonly LosslessJson[]): string | null {
  const last = events.at(-1)
  const { resourceVersion } = metadataOf(isObject(last) ? last['object'] : undefined)
  return typeof resourceVersion === 'string' ? resourceVersion : null
}

async function start({ path, accept }: Pair, side: Side): Promise<void> {
  const stream = await watch(side.server, path, accept, (event) => {
    side.events.push(event)
    if (!isPassingBookmark(event)) side.count++
  })
  side.stream = stream
  void stream.ended.then(() => {
    // Unless it was resumed in the meantime.
    if (side.stream === stream) side.isEnded = true
  })
}

/** Ages in a Table differ because the two servers answer at different times. */
function withoutAges(events: readonly LosslessJson[]): LosslessJson {
  return events.map((event) => {
    if (!isObject(event) || !isObject(event['object']) || !isArray(event['object']['rows'])) return event
    const rows = event['object']['rows'].map((row) => {
      if (!isObject(row) || !isArray(row['cells'])) return row
      const cells = row['cells'].map((cell) => (isAge(cell) ? 'AGE' : cell))
      return { ...row, cells }
    })
    return { ...event, object: { ...event['object'], rows } }
  })
}
