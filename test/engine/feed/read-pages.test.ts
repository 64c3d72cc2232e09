import { getEventListeners } from 'node:events'
import t from 'tap'
import { readPages, type PagesOptions } from '../../../src/engine/feed/read-pages.js'
import { keyFromText, type KeyValue } from '../../../src/engine/model/event.js'
import type { Revision } from '../../../src/engine/model/revision.js'
import { systemClock } from '../../../src/support/clock.js'
import { VirtualClock } from '../../support/virtual-clock.js'
import {
  UpstreamError,
  type Page,
  type ReadOptions,
  type StreamOptions,
  type StreamPart,
  type UpstreamReader,
} from '../../../src/engine/upstream/upstream.js'

const prefix = keyFromText('/p/')
const revision = 7 as Revision

/** Answers reads one key at a time, `count` in all; the read `failsAt` fails, and `waitsAt` is never answered. */
function source(count: number, { failsAt = -1, waitsAt = -1 } = {}) {
  const asked: ReadOptions[] = []
  const upstream = {
    read: (options: ReadOptions): Promise<Page> => {
      const at = asked.push(options) - 1
      if (at === waitsAt) return new Promise(() => {})
      if (at === failsAt) return Promise.reject(new UpstreamError('compacted', 'gone'))
      const key = keyFromText(`/p/${at}`)
      const keyValue = { key, value: Buffer.from('v'), modRevision: revision } as unknown as KeyValue
      const more = at + 1 < count
      return Promise.resolve({ revision, currentRevision: revision, keyValues: [keyValue], more, count: count - at })
    },
  } as unknown as UpstreamReader
  const options = { upstream, prefix, revision: null, clock: systemClock }
  return { asked, options }
}

void t.test('the next page is read while the caller works on one, and no further', async (t) => {
  const { asked, options } = source(4)
  const seen: string[] = []
  for await (const page of readPages(options)) {
    seen.push(page.keyValues[0]!.key)
    t.equal(asked.length, Math.min(4, seen.length + 1))
    await new Promise(setImmediate)
    t.equal(asked.length, Math.min(4, seen.length + 1))
  }
  t.same(seen, ['/p/0', '/p/1', '/p/2', '/p/3'])
  t.equal(asked[0]!.revision, undefined)
  t.same(
    asked.slice(1).map((read) => [read.startKey, read.revision]),
    [0, 1, 2].map((i) => [`/p/${i}\0`, revision]),
    'all others at the revision of the first',
  )
})

void t.test('an error in a page read ahead is thrown after the pages before it', async (t) => {
  const { options } = source(4, { failsAt: 2 })
  const seen: string[] = []
  const read = async (): Promise<void> => {
    for await (const page of readPages(options)) {
      await new Promise(setImmediate)
      seen.push(page.keyValues[0]!.key)
    }
  }
  await t.rejects(read(), { code: 'compacted' })
  t.same(seen, ['/p/0', '/p/1'])
})

void t.test('a caller that leaves cancels the page being read ahead', async (t) => {
  const { asked, options } = source(4, { waitsAt: 1 })
  for await (const _ of readPages(options)) break
  t.equal(asked.length, 2)
  t.equal(asked[1]!.signal?.aborted, true)
})

void t.test("the caller's signal ends it with its reason", async (t) => {
  const { asked, options } = source(4, { waitsAt: 1 })
  const controller = new AbortController()
  const read = async (): Promise<void> => {
    for await (const _ of readPages({ ...options, signal: controller.signal })) controller.abort(new Error('enough'))
  }
  await t.rejects(read(), { message: 'enough' })
  t.equal(asked[1]!.signal?.aborted, true)
})

void t.test('a signal that outlives many lists keeps no listeners of them', async (t) => {
  const { signal } = new AbortController()
  for (let i = 0; i < 10; i++) for await (const _ of readPages({ ...source(4).options, signal })) if (i % 2 === 0) break
  t.same(getEventListeners(signal, 'abort'), [])
  // Where `AbortSignal.any` notes the signals that depend on another.
  const dependent = Object.getOwnPropertySymbols(signal).find(({ description }) => description === 'kDependantSignals')
  const noted = dependent === undefined ? undefined : (signal as unknown as Record<symbol, Set<unknown>>)[dependent]
  t.equal(noted?.size ?? 0, 0)
})

/** A source of ten keys, two in each page or part; stream number i ends as `ends[i]` says, after its second part. */
function streaming(ends: readonly ('breaks' | 'is cut off' | 'hangs' | 'goes on')[]) {
  const asked: string[] = []
  const keys = Array.from({ length: 10 }, (_, i) => keyFromText(`/p/${i}`))
  const from = (start: string): { keyValues: KeyValue[]; more: boolean; count: number } => {
    const rest = keys.filter((key) => key >= start)
    const keyValues = rest.slice(0, 2).map((key) => ({ key, modRevision: revision }) as unknown as KeyValue)
    return { keyValues, more: rest.length > 2, count: rest.length }
  }
  const upstream = {
    read: ({ startKey = prefix }: ReadOptions): Promise<Page> => {
      asked.push(`page from ${startKey.replace('\0', '+')}`)
      return Promise.resolve({ revision, currentRevision: revision, ...from(startKey) })
    },
    stream: async function* ({ startKey, signal }: StreamOptions): AsyncGenerator<StreamPart> {
      asked.push(`stream from ${startKey.replace('\0', '+')}`)
      const end = ends[asked.filter((each) => each.startsWith('stream')).length - 1] ?? 'goes on'
      let start: string = startKey
      for (let i = 0; ; i++) {
        if (i === 2 && end === 'is cut off') return
        if (i === 2 && end === 'breaks') throw new UpstreamError('unavailable', 'the connection was lost')
        if (i === 2 && end === 'hangs') {
          await new Promise((resolve) => signal.addEventListener('abort', resolve))
          asked.push('abandoned')
          signal.throwIfAborted()
        }
        const part = from(start)
        yield part
        if (!part.more) return
        start = `${part.keyValues.at(-1)!.key}\0`
      }
    },
  } as unknown as UpstreamReader
  const clock = new VirtualClock()
  const options = { upstream, prefix, revision: null, clock }
  return { asked, options, keys, clock }
}

async function keysOf(options: PagesOptions): Promise<string[]> {
  const seen: string[] = []
  for await (const { keyValues } of readPages(options)) seen.push(...keyValues.map(({ key }) => key))
  return seen
}

void t.test('after the first page everything else is one stream', async (t) => {
  const { asked, options, keys } = streaming([])
  t.same(await keysOf(options), keys)
  t.same(asked, ['page from /p/', 'stream from /p/1+'])
})

for (const end of ['breaks', 'is cut off', 'hangs'] as const) {
  void t.test(`a stream that ${end} is continued after its last key, by a page and another stream`, async (t) => {
    const { asked, options, keys, clock } = streaming([end])
    const listed = keysOf(options)
    await clock.advanceInTurns(40_000, 1_000)
    t.same(await listed, keys)
    t.same(
      asked.filter((each) => each !== 'abandoned'),
      ['page from /p/', 'stream from /p/1+', 'page from /p/5+', 'stream from /p/7+'],
    )
    t.equal(asked.includes('abandoned'), end === 'hangs')
  })
}

void t.test(
  'a source that cannot be reached after a broken stream is asked again, for the time of a page',
  async (t) => {
    for (const failures of [2, Number.POSITIVE_INFINITY]) {
      const { options, keys, clock } = streaming(['breaks'])
      let left = failures
      const upstream = {
        ...options.upstream,
        read: (asked: ReadOptions): Promise<Page> =>
          asked.startKey !== undefined && left-- > 0
            ? Promise.reject(new UpstreamError('unavailable', 'connect ECONNREFUSED'))
            : options.upstream.read(asked),
      } as UpstreamReader
      const listed = keysOf({ ...options, upstream })
      const checked =
        failures === 2 ? listed.then((seen) => t.same(seen, keys)) : t.rejects(listed, { code: 'unavailable' })
      await clock.advanceInTurns(20_000, 100)
      await checked
    }
  },
)

void t.test('after three streams that broke, the rest of the list is pages', async (t) => {
  const { asked, options, keys } = streaming([])
  const reasons: string[] = []
  const upstream = {
    ...options.upstream,
    // eslint-disable-next-line require-yield
    stream: async function* (): AsyncGenerator<StreamPart> {
      reasons.push('asked')
      throw new UpstreamError('protocol', 'unknown method RangeStream')
    },
  }
  t.same(await keysOf({ ...options, upstream }), keys)
  t.equal(reasons.length, 3)
  t.equal(asked.length, 5)
})

void t.test('a caller that leaves ends the stream', async (t) => {
  const { asked, options } = streaming(['hangs'])
  let pages = 0
  for await (const _ of readPages(options)) {
    if (++pages === 3) break
  }
  await new Promise(setImmediate)
  t.equal(asked.at(-1), 'abandoned')
})
