import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { nodeTransport } from '../../../src/client/node/node-transport.js'
import { systemClock } from '../../../src/support/clock.js'
import { discover } from '../../../src/kubernetes/upstream/discover.js'
import { RemoteApiServer } from '../../../src/kubernetes/upstream/remote-api-server.js'

const DOCUMENTS: Readonly<Record<string, object>> = {
  '/apis': {
    kind: 'APIGroupList',
    groups: [
      {
        name: 'edge.example.com',
        versions: [{ version: 'v1' }],
        preferredVersion: { version: 'v1' },
      },
    ],
  },
  '/apis/edge.example.com/v1': {
    kind: 'APIResourceList',
    resources: [
      { name: 'caches', singularName: 'cache', kind: 'Cache', namespaced: true, verbs: ['get', 'list', 'watch'] },
    ],
  },
}

/** A server with one group, which answers `code` for the core group. */
async function start(t: Test, code: number): Promise<{ readonly url: string; readonly server: RemoteApiServer }> {
  const server = createServer(({ url = '' }, response) => {
    const body = DOCUMENTS[url] ?? { kind: 'Status', code, reason: code === 404 ? 'NotFound' : 'InternalError' }
    response.writeHead(DOCUMENTS[url] === undefined ? code : 200, { 'content-type': 'application/json' })
    response.end(JSON.stringify(body))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { url, server: new RemoteApiServer({ transport: nodeTransport({ server: url }), url, clock: systemClock }) }
}

void t.test('a server without a core group has none, and its other groups are found', async (t) => {
  const { server } = await start(t, 404)
  const { resources, incomplete } = await discover(server)
  t.match(resources, [{ group: 'edge.example.com', version: 'v1', plural: 'caches', kind: 'Cache', namespaced: true }])
  t.equal(incomplete.size, 0)
})

void t.test('a server whose core group cannot be read does not count as one without', async (t) => {
  const { server } = await start(t, 500)
  await t.rejects(discover(server), { name: 'UpstreamError' })
})
