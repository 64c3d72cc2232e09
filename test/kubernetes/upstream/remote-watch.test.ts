/**
 * Tests when a watch at another server counts as lost: silence alone proves nothing if the server sends no bookmarks.
 */
import http from 'node:http'
import type net from 'node:net'
import t, { type Test } from 'tap'
import { nodeTransport } from '../../../src/client/node/node-transport.js'
import { bytesCodec } from '../../../src/client/reflector/bytes-codec.js'
import { jsonWire } from '../../../src/client/reflector/event-stream.js'
import type { WatchEnd } from '../../../src/engine/upstream/upstream.js'
import { HttpKeyValues } from '../../../src/kubernetes/upstream/http-key-value.js'
import { RemoteWatch } from '../../../src/kubernetes/upstream/remote-watch.js'
import { systemClock } from '../../../src/support/clock.js'
import { systemRandom } from '../../../src/support/random.js'
import { PODS, rev } from '../../support/objects.js'
import { until } from '../../support/until.js'

/** Follows a server that answers each watch with `line`, and then with nothing. */
async function follow(t: Test, line: string): Promise<{ readonly asked: string[]; readonly ends: WatchEnd[] }> {
  const asked: string[] = []
  const server = http.createServer(({ url = '' }, response) => {
    asked.push(new URL(url, 'http://localhost').searchParams.get('resourceVersion') ?? '')
    response.writeHead(200, { 'content-type': 'application/json' }).write(line)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  t.teardown(() => server.closeAllConnections())
  const ends: WatchEnd[] = []
  const transport = nodeTransport({ server: `http://127.0.0.1:${(server.address() as net.AddressInfo).port}` })
  const watch = new RemoteWatch({
    transport,
    wire: jsonWire,
    codec: bytesCodec,
    marksRevisions: false,
    path: '/api/v1/pods',
    keyValues: new HttpKeyValues(PODS),
    clock: systemClock,
    random: systemRandom,
    afterRevision: rev(5),
    handlers: { onOpen() {}, onBatches() {}, onProgress() {}, onEnd: (end) => void ends.push(end) },
    silenceMs: 1_100,
    isSameCluster: () => Promise.resolve(true),
    proofSeconds: null,
  })
  t.teardown(() => watch.close())
  return { asked, ends }
}

void t.test('a quiet watch without bookmarks begins again where it was', async (t) => {
  const { asked, ends } = await follow(t, '\n')
  await until(() => asked.length >= 2, 'it is asked again')
  t.same([...new Set(asked)], ['5'])
  t.same(ends, [])
})

void t.test('once bookmarks have arrived, silence means that the server is lost', async (t) => {
  const bookmark = { type: 'BOOKMARK', object: { kind: 'Pod', apiVersion: 'v1', metadata: { resourceVersion: '7' } } }
  const { asked, ends } = await follow(t, `${JSON.stringify(bookmark)}\n`)
  await until(() => ends.length === 1, 'it ends')
  t.match(ends, [{ kind: 'failed', error: { message: /gone silent/ } }])
  t.same(asked, ['5'])
})

void t.test('a Status of any form ends the watch with a failure', async (t) => {
  const causes = [{ reason: 'ResourceVersionTooLarge' }, null]
  const statuses = [
    null,
    5,
    { kind: 'Status', code: 504, details: { causes } },
    { code: '410', reason: 7, message: ['no'], details: { causes: 5, retryAfterSeconds: {} } },
    { code: 500, reason: 'Timeout', message: {}, details: { causes: {} } },
  ]
  for (const object of statuses) {
    const { ends } = await follow(t, `${JSON.stringify({ type: 'ERROR', object })}\n`)
    await until(() => ends.length === 1, 'it ends')
    t.match(ends, [{ kind: 'failed', error: { name: 'UpstreamError' } }], JSON.stringify(object))
  }
})

void t.test('an object that is not JSON after its metadata ends the watch with a failure', async (t) => {
  const object = '{"metadata":{"name":"a","namespace":"x","resourceVersion":"7"} "spec":{}}'
  const { ends } = await follow(t, `{"type":"ADDED","object":${object}}\n`)
  await until(() => ends.length === 1, 'it ends')
  t.match(ends, [{ kind: 'failed', error: { code: 'protocol', message: /not JSON/ } }])
})
