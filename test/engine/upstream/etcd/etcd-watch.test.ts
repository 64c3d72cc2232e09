/** Tests one watch on a real etcd that answers with more than one slice of the event loop can process. */
import t, { type Test } from 'tap'
import { PartsInTurns, takeLong } from '../../../support/parts-in-turns.js'
import { type Batch, type Key, keyFromText } from '../../../../src/engine/model/event.js'
import { nextRevision, type Revision } from '../../../../src/engine/model/revision.js'
import { connectEtcd } from '../../../../src/engine/upstream/etcd/etcd-upstream.js'
import type { Upstream, WatchHandlers } from '../../../../src/engine/upstream/upstream.js'
import { startEtcd } from '../../../support/etcd-process.js'

const prefix = keyFromText('/behind/')
const REVISIONS = 200

/** etcd answers a watch from the first of these revisions with as many of them as it has at once. */
async function behind(t: Test): Promise<{ upstream: Upstream; start: Revision; last: Revision }> {
  const etcd = await startEtcd(t)
  const upstream = connectEtcd({ endpoints: [etcd.url] })
  t.teardown(() => upstream.close())
  const start = nextRevision(await upstream.currentRevision())
  let last = start
  for (let i = 0; i < REVISIONS; i++) {
    const names = i % 50 === 0 ? ['a', 'b', 'c'] : ['a']
    const operations = names.map((name) => ({
      type: 'put' as const,
      key: (prefix + keyFromText(name)) as Key,
      value: Buffer.alloc(20_000, `${i};`),
    }))
    last = (await upstream.write([], operations)).revision
  }
  return { upstream, start, last }
}

const quiet: WatchHandlers = { onOpen: () => {}, onBatches: () => {}, onProgress: () => {}, onEnd: () => {} }

void t.test(
  'a large answer is delivered in parts, in order and complete, and others get turns in between',
  async (t) => {
    const { upstream, start, last } = await behind(t)
    const batches: Batch[] = []
    const parts = new PartsInTurns()
    await new Promise<void>((resolve, reject) => {
      const watch = upstream.watch(
        { prefix, startRevision: start },
        {
          ...quiet,
          onBatches: (some) => {
            batches.push(...some)
            parts.part()
            if (some.at(-1)!.revision < last) return
            watch.close()
            resolve()
          },
          onEnd: () => reject(new Error('the watch ended')),
        },
      )
    })
    parts.done()
    t.same(
      batches.map(({ revision }) => revision),
      Array.from({ length: REVISIONS }, (_, i) => start + i),
    )
    t.same(
      batches.map(({ events }) => events.length),
      Array.from({ length: REVISIONS }, (_, i) => (i % 50 === 0 ? 3 : 1)),
      'no revision is shown in parts',
    )
    for (const [i, { events }] of batches.entries()) {
      const isRight = events.every((one) => one.type === 'put' && one.keyValue.value.toString().startsWith(`${i};`))
      if (!isRight) t.fail(`revision ${i} has another value`)
    }
    t.ok(parts.all > REVISIONS / 10, `${parts.all} parts`)
    t.equal(parts.mostInTurn, 1, 'one part that takes long is all of a turn')
  },
)

void t.test('what arrives during a large answer waits for it: later events, and the end', async (t) => {
  const { upstream, start, last } = await behind(t)
  const said: (Revision | 'end')[] = []
  let later = last
  await new Promise<void>((resolve) => {
    const watch = upstream.watch(
      { prefix, startRevision: start },
      {
        ...quiet,
        onBatches: (some) => {
          const isFirst = said.length === 0
          said.push(...some.map(({ revision }) => revision))
          takeLong()
          if (isFirst) {
            const put = { type: 'put', key: (prefix + keyFromText('later')) as Key, value: Buffer.from('x') } as const
            void upstream.write([], [put]).then(({ revision }) => (later = revision))
          }
          if (later > last && some.at(-1)!.revision === later) {
            watch.close()
            resolve()
          }
        },
      },
    )
  })
  t.same(
    said,
    Array.from({ length: REVISIONS + 1 }, (_, i) => start + i),
  )
})

void t.test('a watch that is closed during a large answer delivers no more events', async (t) => {
  const { upstream, start, last } = await behind(t)
  let parts = 0
  await new Promise<void>((resolve) => {
    const watch = upstream.watch(
      { prefix, startRevision: start },
      {
        ...quiet,
        onBatches: (some) => {
          parts++
          takeLong()
          if (parts < 3) return
          t.ok(some.at(-1)!.revision < last, 'the answer has more')
          watch.close()
          resolve()
        },
        onEnd: () => t.fail('it was closed, and did not end'),
      },
    )
  })
  for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve))
  t.equal(parts, 3)
  t.equal((await upstream.read({ prefix, limit: 1 })).count, 3, 'the connection serves others')
})
