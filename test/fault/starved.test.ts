/**
 * Tests a starved watch and a cancelled one: the known faults of etcd and its proxies (PROTOCOL, section 8), each under
 * its own name.
 */
import t from 'tap'
import { UpstreamError, type Upstream, type WatchHandlers } from '../../src/engine/upstream/upstream.js'
import { pod } from '../support/pod.js'
import { until } from '../support/until.js'
import { withWatch } from '../support/with-watch.js'
import { ends, pods, scopes, startScenario } from './scenario.js'

for (const compacts of [false, true]) {
  const what = compacts ? ', and etcd compacts events that it has not received' : ''
  void t.test(`events for a starved watch are not lost (etcd #17529)${what}`, async (t) => {
    const s = await startScenario(t, { hasControlBesideUs: true })
    const watches = await s.watchAll()
    const first = await s.write()
    await s.reached(first)
    // etcd's responses are not read: they fill the sockets, then etcd's own buffers, and the watch lags in etcd.
    s.proxy.stall('to-client')
    const filler = 'x'.repeat(60_000)
    let last = first
    for (let i = 0; i < 120; i++) {
      const object = pod(`starve${i % 9}`, { namespace: 'a', spec: { filler, i } })
      last = await s.writer.commit({ [`/registry/pods/a/starve${i % 9}`]: object }, 20_000)
      if (compacts && i % 30 === 29) await s.etcd.compact(last)
    }
    t.ok(s.cacheRevision < last, 'it has not received the last event')
    s.proxy.release()
    await s.reached(last)
    const settled = await s.settle()
    const { ours, throughUs, besideUs, straight } = await s.verdict(settled)
    t.same(ours.map(String), [])
    for (const violation of [...throughUs, ...besideUs, ...straight].slice(0, 5)) t.comment(`etcd: ${violation}`)
    const told = ends(watches)
    t.ok(
      told.every((end) => /^(open|error 410) /.test(end)),
      `every event, or 410: ${told.join()}`,
    )
    if (!compacts) t.same(told, [`open ×${watches.length}`])
    const list = await s.recorder.list({ target: pods, resourceVersion: '0' })
    t.equal(list.items.filter(({ id }) => id.startsWith('a/starve')).length, 9)
  })
}

/** Ends the watch of the pods on demand, as etcd does when it revokes a permission or has compacted. */
class Cancelling {
  readonly #open = new Set<WatchHandlers>()
  /** While true, each new watch is cancelled as well. */
  isCancelling = false

  wrap(upstream: Upstream): Upstream {
    return withWatch(upstream, (options, handlers) => {
      if (options.prefix !== pods.prefix) return upstream.watch(options, handlers)
      const watch = upstream.watch(options, {
        ...handlers,
        onOpen: () => {
          handlers.onOpen()
          if (this.isCancelling) end()
        },
      })
      const end = (): void => {
        if (!this.#open.delete(ending)) return
        watch.close()
        handlers.onEnd({ kind: 'failed', error: new UpstreamError('unavailable', 'etcd cancelled the watch') })
      }
      const ending: WatchHandlers = { ...handlers, onEnd: end }
      this.#open.add(ending)
      return watch
    })
  }

  cancel(): void {
    for (const handlers of this.#open) handlers.onEnd({ kind: 'failed', error: new UpstreamError('unavailable', '') })
  }
}

void t.test(
  'no watcher is left on a dead broadcast when etcd cancels its watch (etcd #21813, #18231), neither connected ones nor those that arrive in the meantime',
  async (t) => {
    const cancelling = new Cancelling()
    const s = await startScenario(t, { wrap: (upstream) => cancelling.wrap(upstream) })
    const before = await s.watchAll()
    await s.reached(await s.write())
    cancelling.isCancelling = true
    cancelling.cancel()
    await until(() => s.podSource.cache.source.disconnectedReason !== null, 'the feed knows')
    const missed = await s.write()
    // These watchers arrive while nothing feeds the broadcast: from the head, from before it, from a revision that etcd
    // has and the cache has not, with the state first.
    const meanwhile = scopes.flatMap((scope) => [
      s.recorder.watch({ ...scope, resourceVersion: String(s.cacheRevision) }),
      s.recorder.watch({ ...scope, resourceVersion: '1' }),
      s.recorder.watch({ ...scope, resourceVersion: String(missed) }),
      s.recorder.watch({ ...scope, resourceVersion: '0' }),
    ])
    const all = before.length + meanwhile.length
    await until(
      () => s.h.watchers === all,
      () => `all ${all} are taken, not ${s.h.watchers}: ${ends([...before, ...meanwhile]).join()}`,
    )
    for (let i = 0; i < 10; i++) await s.write()
    cancelling.isCancelling = false
    const last = await s.settle()
    t.same(ends([...before, ...meanwhile]), [`open ×${all}`])
    t.equal(await s.relists(), 0)
    await s.judge(t, last)
  },
)
