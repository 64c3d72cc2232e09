/** A gap of very many bytes, over a real etcd. */
import t from 'tap'
import type { Key } from '../../../../src/engine/model/event.js'
import { startEtcd } from '../../../support/etcd-process.js'
import { base64, feedOver, until } from '../etcd-harness.js'

void t.test(
  'only the newer part of a large gap is watched: judged by a sample, or once etcd has sent its size',
  async (t) => {
    const etcd = await startEtcd(t)
    const rows: [what: string, name: string, sampled: number, maxReceivedBytes: number, relists: number][] = [
      ['values that look large', '0', 300_000, 160_000_000, 0],
      ['values that look small', 'z', 100, 40_000_000, 1],
    ]
    for (const [what, name, sampled, maxReceivedBytes, relists] of rows) {
      await etcd.call('kv/deleterange', { key: base64('/p/'), range_end: base64('/p0') })
      const h = feedOver(t, etcd, etcd.url, {}, undefined, { maxReceivedBytes })
      for (let i = 0; i < 20; i++) await h.put(`1${i}`, 'x'.repeat(sampled))
      for (let i = 0; i < 240; i++) await h.put(name, `${i}`.padEnd(300_000, 'x'))
      h.feed.start()
      await until(() => h.feed.status.state === 'watching', `${what}: to be ready`)
      await h.put('after', 'x')
      await until(() => h.sink.batches.at(-1)?.revision === h.revisions.at(-1), `${what}: the last write`)
      t.equal(h.sink.state.size, 22)
      t.ok(
        h.sink.state
          .get(`/p/${name}` as Key)
          ?.value.toString()
          .startsWith('239x'),
        what,
      )
      t.equal(h.metrics.of('relisted gap'), relists, what)
      t.ok(h.sink.batches.length >= 30 && h.sink.batches.length < 240, `${what}: ${h.sink.batches.length} were watched`)
      t.strictSame(
        h.sink.batches.map(({ revision }) => revision as number),
        h.revisions.slice(-h.sink.batches.length),
        'and without a hole',
      )
      await h.feed.stop()
    }
  },
)
