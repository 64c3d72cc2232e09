import { setTimeout as passes } from 'node:timers/promises'
import t from 'tap'
import { keyFromText } from '../../../../src/engine/model/event.js'
import type { WatchCache } from '../../../../src/engine/cache/watch-cache.js'
import { FairSemaphore } from '../../../../src/server/limits/fair-semaphore.js'
import { readObject, untilLoaded } from '../../../../src/server/transports/api/read-state.js'
import type { Request } from '../../../../src/server/transports/api/request.js'
import { startApp } from '../../../support/app.js'
import { createEmbeddedUpstream } from '../../../support/faulty-store.js'
import { pod } from '../../../support/pod.js'
import { VirtualClock } from '../../../support/virtual-clock.js'

const PODS = '/api/v1/namespaces/default/pods'
const POD = { type: 'put', key: keyFromText('/registry/pods/default/a') } as const

void t.test('a read of a resource that is being loaded waits for it', async (t) => {
  const upstream = createEmbeddedUpstream()
  upstream.commit([{ ...POD, value: Buffer.from(JSON.stringify(pod('a'))) }])
  upstream.setStalled(true)
  const h = await startApp(t, { upstream, ready: false })
  const paths = [`${PODS}/a`, PODS, `${PODS}?resourceVersion=0`, `${PODS}?watch=1`]
  const reads = paths.map((path) => fetch(h.url + path))
  const gone = new AbortController()
  const left = fetch(h.url + PODS, { signal: gone.signal })
  // Lets the reads arrive: on a slow machine some arrive later, and have nothing to wait for.
  await passes(200)
  gone.abort()
  await t.rejects(left, { name: 'AbortError' })
  upstream.setStalled(false)
  for (const [i, answer] of (await Promise.all(reads)).entries()) {
    t.equal(answer.status, 200, paths[i]!)
    await answer.body!.cancel()
  }
})

void t.test(
  'a read for which there is no room is answered at once, and one that has waited is checked again',
  async (t) => {
    const loadingReads = new FairSemaphore({
      slots: 2,
      maxSlotsPerIdentity: 1,
      maxWaiting: 0,
      maxWaitingPerIdentity: 0,
      maxWaitMs: 0,
      clock: new VirtualClock(),
      onRejected: () => {},
    })
    const loads: (() => void)[] = []
    const readiness = { load: () => new Promise<void>((resolve) => loads.push(resolve)) }
    const cache = { readiness } as unknown as WatchCache
    const checked: string[] = []
    const read = async (identity: string): Promise<void> => {
      const caller = { identity, confirm: async () => void checked.push(identity) }
      const { signal } = new AbortController()
      await untilLoaded({ loadingReads }, cache, { caller, exchange: { signal } } as unknown as Request)
    }
    const waiting = [read('ann'), read('bob')]
    await read('ann')
    await read('eve')
    t.equal(loads.length, 2)
    t.same(checked, [])
    for (const load of loads) load()
    await Promise.all(waiting)
    t.same(checked.toSorted(), ['ann', 'bob'])
    t.equal(loadingReads.running, 0)
  },
)

void t.test('gets that wait for one answer of etcd go on in fair turns', async (t) => {
  const answered = new Promise<undefined>((resolve) => void setImmediate(() => resolve(undefined)))
  const cache = { reads: { consistentObject: () => answered } } as unknown as WatchCache
  const { signal } = new AbortController()
  let iterations = 0
  let isDone = false
  const count = (): void => {
    iterations++
    if (!isDone) setImmediate(count)
  }
  const order: string[] = []
  const get = async (identity: string): Promise<void> => {
    const request = { caller: { identity }, exchange: { signal } }
    await readObject(cache, POD.key, { kind: 'consistent' }, request)
    for (const end = performance.now() + 0.1; performance.now() < end;);
    order.push(identity)
  }
  const all = [...Array.from({ length: 300 }, () => get('burst')), get('other')]
  count()
  await Promise.all(all)
  isDone = true
  t.equal(order.length, 301)
  t.ok(order.indexOf('other') < 100, `at place ${order.indexOf('other')}`)
  t.ok(iterations > 3, `in ${iterations} iterations of the event loop`)
})
