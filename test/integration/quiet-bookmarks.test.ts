/** A quiet resource's bookmarks survive a compaction and a restart: its informers can resume. */
import { once } from 'node:events'
import { type IncomingMessage, get } from 'node:http'
import t, { type Test } from 'tap'
import { createEmbeddedUpstream } from '../support/faulty-store.js'
import type { Revision } from '../../src/engine/model/revision.js'
import { keyFromText } from '../../src/engine/model/event.js'
import { startApp } from '../support/app.js'
import { pod } from '../support/pod.js'
import { EventReader } from '../support/event-reader.js'

async function watch(t: Test, url: string, resourceVersion: number, plural = 'configmaps'): Promise<EventReader> {
  const query = `watch=true&allowWatchBookmarks=true&resourceVersion=${resourceVersion}`
  const request = get(`${url}/api/v1/${plural}?${query}`)
  t.teardown(() => request.destroy())
  const [response] = (await once(request, 'response')) as [IncomingMessage]
  t.equal(response.statusCode, 200)
  return new EventReader(response)
}

void t.test(
  'after writes elsewhere and a compaction at the head, a fresh server continues at the last bookmark',
  async (t) => {
    // etcd reports progress every ten minutes unless it is configured otherwise.
    const etcd = createEmbeddedUpstream({ progressIntervalMs: 600_000 })
    const write = (i: number): void => {
      const key = keyFromText(`/registry/pods/default/p${i}`)
      etcd.commit([{ type: 'put', key, value: Buffer.from(JSON.stringify(pod(`p${i}`))) }])
    }
    const first = await startApp(t, { upstream: etcd, config: { bookmarkInterval: 1_000 } })
    const start = etcd.revision
    const before = await watch(t, first.url, start)
    for (let i = 0; i < 50; i++) write(i)
    const head = etcd.revision
    const last = (): number => Number(before.events.at(-1)?.object.metadata.resourceVersion ?? 0)
    for (let seen = 1; last() < head; seen++) await before.first(seen)
    t.same(new Set(before.events.map(({ type }) => type)), new Set(['BOOKMARK']))

    etcd.compact(head as Revision)
    const second = await startApp(t, { upstream: etcd })
    const resumed = await watch(t, second.url, last())
    const key = keyFromText('/registry/configmaps/default/new')
    const object = { kind: 'ConfigMap', apiVersion: 'v1', metadata: { name: 'new', namespace: 'default', uid: 'u' } }
    etcd.commit([{ type: 'put', key, value: Buffer.from(JSON.stringify(object)) }])
    const [event] = await resumed.first(1)
    t.equal(event!.type, 'ADDED')
  },
)

void t.test('the last bookmark of a draining server is current, unless etcd is out of reach', async (t) => {
  for (const isReachable of [true, false]) {
    const etcd = createEmbeddedUpstream({ progressIntervalMs: 600_000 })
    const flags = ['--watch-cache-sizes', 'nodes#0']
    const server = await startApp(t, { upstream: etcd, flags })
    const start = etcd.revision
    const cached = await watch(t, server.url, start)
    const uncached = await watch(t, server.url, start, 'nodes')
    // Its source has been opened once an event has come from it; until then it knows no position.
    const node = { kind: 'Node', apiVersion: 'v1', metadata: { name: 'n', uid: 'u' } }
    etcd.commit([{ type: 'put', key: keyFromText('/registry/minions/n'), value: Buffer.from(JSON.stringify(node)) }])
    const [added] = await uncached.first(1)
    t.equal(added!.type, 'ADDED')
    for (let i = 0; i < 50; i++) {
      const key = keyFromText(`/registry/pods/default/p${i}`)
      etcd.commit([{ type: 'put', key, value: Buffer.from(JSON.stringify(pod(`p${i}`))) }])
    }
    etcd.setUnavailable(!isReachable)
    await server.app.drain()
    // A watch that is not cached ends with the one on etcd.
    for (const reader of isReachable ? [cached, uncached] : [cached]) {
      const seen = (await reader.all())
        .filter(({ object }) => object.metadata.name !== 'n')
        .map(({ type, object }) => `${type} ${object.metadata.resourceVersion}`)
      t.same(seen, [`BOOKMARK ${isReachable ? etcd.revision : start}`])
    }
  }
})
