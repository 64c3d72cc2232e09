/** Seeded random histories of the embedded store against a reference that keeps a complete map for every revision. */
import t from 'tap'
import { type Batch, type Key, keyFromText } from '../../../../../src/engine/model/event.js'
import { type Revision, toRevision } from '../../../../../src/engine/model/revision.js'
import { type Random, randomInteger, seededRandom } from '../../../../../src/support/random.js'
import { createEmbeddedUpstream } from '../../../../support/faulty-store.js'
import { UpstreamError, type WriteOperation } from '../../../../../src/engine/upstream/upstream.js'
import { testSeeds } from '../../../../support/test-seeds.js'

interface Entry {
  readonly value: string
  readonly create: number
  readonly mod: number
  readonly version: number
}

type State = ReadonlyMap<string, Entry>

const names = ['/a/1', '/a/2', '/a/3', '/ab/1', '/ab/2', '/b', '/b/', '/c/x', '/c/y', '/d']
const prefixes = ['', '/', '/a', '/a/', '/ab/', '/b', '/c/', '/nothing/']

/** `states[r]` is everything at revision r; `changes[r]` what r did. */
class Reference {
  readonly states: State[] = [new Map(), new Map()]
  readonly changes: string[][] = [[], []]

  apply(operations: readonly WriteOperation[]): void {
    const revision = this.states.length
    const next = new Map(this.states.at(-1))
    const changes: string[] = []
    for (const operation of operations) {
      const old = next.get(operation.key)
      if (operation.type === 'delete') {
        if (next.delete(operation.key)) changes.push(`-${operation.key}`)
        continue
      }
      const value = operation.value.toString()
      next.set(operation.key, {
        value,
        create: old?.create ?? revision,
        mod: revision,
        version: (old?.version ?? 0) + 1,
      })
      changes.push(`${operation.key}=${value}`)
    }
    if (changes.length === 0) return
    this.states.push(next)
    this.changes.push(changes)
  }

  range(prefix: string, startKey: string, revision: number): string[] {
    return [...(this.states[revision] as State)]
      .filter(([name]) => name.startsWith(prefix) && name >= startKey)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, { value, create, mod, version }]) => `${name}=${value} ${create} ${mod} ${version}`)
  }

  /** Returns what a watch of the prefix receives for the revisions from `start` to `end` inclusive. */
  watched(prefix: string, start: number, end: number): string[] {
    const lines: string[] = []
    for (let revision = start; revision <= end; revision++) {
      const under = (this.changes[revision] ?? []).filter((change) => change.replace(/^-/, '').startsWith(prefix))
      if (under.length > 0) lines.push(`${revision}: ${under.join(' ')}`)
    }
    return lines
  }
}

function pick<T>(random: Random, from: readonly T[]): T {
  return from[randomInteger(random, 0, from.length - 1)] as T
}

function randomOperations(random: Random): WriteOperation[] {
  const keys = new Set<string>()
  for (let n = randomInteger(random, 1, 4); n > 0; n--) keys.add(pick(random, names))
  return [...keys].map((name) =>
    random.next() < 0.3
      ? { type: 'delete', key: keyFromText(name) }
      : { type: 'put', key: keyFromText(name), value: Buffer.from(String(randomInteger(random, 0, 999))) },
  )
}

function batchText({ revision, events }: Batch): string {
  const texts = events.map((event) =>
    event.type === 'put' ? `${event.keyValue.key}=${event.keyValue.value.toString()}` : `-${event.key}`,
  )
  return `${revision}: ${texts.join(' ')}`
}

for (const seed of testSeeds(8)) {
  void t.test(`a random history reads and watches as the reference says (seed ${seed})`, async (t) => {
    const random = seededRandom(seed)
    const upstream = createEmbeddedUpstream({ random, historyRevisions: 60, pageKeys: 3 })
    t.teardown(() => upstream.close())
    const reference = new Reference()
    const watches: Watched[] = []

    for (let step = 0; step < 600; step++) {
      const choice = random.next()
      if (choice < 0.6) {
        const operations = randomOperations(random)
        reference.apply(operations)
        upstream.commit(operations)
        if (upstream.revision !== reference.states.length - 1) t.fail(`step ${step}: revision ${upstream.revision}`)
      } else if (choice < 0.75) {
        await checkRead(step)
      } else if (choice < 0.82) {
        watches.push(startWatch())
      } else if (choice < 0.85 && upstream.revision > upstream.compactRevision) {
        upstream.compact(toRevision(randomInteger(random, upstream.compactRevision + 1, upstream.revision)))
      } else if (choice < 0.9) {
        const prefix = keyFromText(pick(random, prefixes))
        if (random.next() < 0.5) upstream.holdDelivery(prefix)
        else upstream.releaseDelivery()
      } else if (choice < 0.91) {
        upstream.cutWatches()
      } else {
        for (const watched of watches) if (random.next() < 0.3) watched.requestProgress()
        await upstream.delivered()
        watches.forEach(checkWatch)
      }
    }
    upstream.releaseDelivery()
    await upstream.delivered()
    watches.forEach(checkWatch)
    for (const watched of watches) {
      if (watched.end === null && watched.handedTo < upstream.revision) {
        const missing = reference.watched(watched.prefix, watched.handedTo + 1, upstream.revision)
        if (missing.length > 0) t.fail(`a watch of ${watched.prefix} was not handed ${missing.join(', ')}`)
      }
    }
    t.ok(
      watches.some(({ lines }) => lines.length > 20),
      'watches saw history',
    )

    async function checkRead(step: number): Promise<void> {
      const prefix = pick(random, prefixes)
      const revision = randomInteger(random, Math.max(1, upstream.revision - 80), upstream.revision + 1)
      const got: string[] = []
      try {
        for (let startKey = prefix as Key; ;) {
          const page = await upstream.read({ prefix: prefix as Key, startKey, revision: toRevision(revision) })
          const expected = reference.range(prefix, startKey, revision)
          if (page.count !== expected.length) t.fail(`step ${step}: count ${page.count}, not ${expected.length}`)
          for (const { key, value, createRevision, modRevision, version } of page.keyValues) {
            got.push(`${key}=${value.toString()} ${createRevision} ${modRevision} ${version}`)
          }
          if (!page.more) break
          startKey = `${page.keyValues.at(-1)?.key}\0` as Key
        }
        t.strictSame(got, reference.range(prefix, prefix, revision), `step ${step}: ${prefix} at ${revision}`)
      } catch (error) {
        if (!(error instanceof UpstreamError)) throw error
        const { compactRevision } = upstream
        const code =
          revision < compactRevision ? 'compacted' : revision > upstream.revision ? 'future-revision' : 'none'
        t.equal(error.code, code, `step ${step}: ${prefix} at ${revision}, compacted ${compactRevision}`)
      }
    }

    function startWatch(): Watched {
      const prefix = pick(random, prefixes)
      const start = randomInteger(random, Math.max(1, upstream.revision - 70), upstream.revision + 10)
      return new Watched(upstream, prefix, toRevision(start))
    }

    function checkWatch(watched: Watched): void {
      const { prefix, start, handedTo, lines } = watched
      const expected = reference.watched(prefix, start, handedTo)
      if (lines.join('\n') !== expected.join('\n')) {
        t.strictSame(lines, expected, `watch of ${prefix} from ${start} to ${handedTo}`)
      }
    }
  })
}

class Watched {
  readonly lines: string[] = []
  handedTo: number
  end: string | null = null
  readonly requestProgress: () => void

  constructor(
    upstream: ReturnType<typeof createEmbeddedUpstream>,
    readonly prefix: string,
    readonly start: Revision,
  ) {
    this.handedTo = start - 1
    const handle = upstream.watch(
      { prefix: prefix as Key, startRevision: start },
      {
        onOpen: () => {},
        onBatches: (batches) => {
          this.lines.push(...batches.map(batchText))
          this.handedTo = batches.at(-1)?.revision ?? this.handedTo
        },
        onProgress: (revision) => {
          this.handedTo = Math.max(this.handedTo, revision)
        },
        onEnd: (end) => {
          this.end = end.kind
        },
      },
    )
    this.requestProgress = () => handle.requestProgress()
  }
}
