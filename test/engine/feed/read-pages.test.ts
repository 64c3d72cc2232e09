import t from 'tap'
import { readPages } from '../../../src/engine/feed/read-pages.js'
import { keyFromText, type KeyValue } from '../../../src/engine/model/event.js'
import type { Revision } from '../../../src/engine/model/revision.js'
import { systemClock } from '../../../src/support/clock.js'
import {
  UpstreamError,
  type Page,
  type ReadOptions,
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
  const options = { upstream, prefix, revision: null, pageKeys: 1, pageTimeoutMs: 10_000, clock: systemClock }
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
