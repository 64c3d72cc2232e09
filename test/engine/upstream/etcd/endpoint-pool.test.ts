import t from 'tap'
import { EndpointPool } from '../../../../src/engine/upstream/etcd/endpoint-pool.js'
import { GrpcEndpoint } from '../../../../src/engine/upstream/etcd/grpc-endpoint.js'
import { startEtcd } from '../../../support/etcd-process.js'
import { VirtualClock } from '../../../support/virtual-clock.js'

void t.test('when all endpoints are suspects, a responsive one is used, the earliest suspect first', async (t) => {
  const { url } = await startEtcd(t)
  const clock = new VirtualClock()
  const endpoints = [0, 1, 2].map(
    () => new GrpcEndpoint({ url, keepAliveTimeMs: 6_000, keepAliveTimeoutMs: 3_000, maxReceivedBytes: 1_000 }),
  )
  const silent = new Set<GrpcEndpoint>()
  const pool = new EndpointPool(endpoints, 5_000, clock, (endpoint) => silent.has(endpoint))
  t.teardown(() => pool.close())
  await Promise.all(endpoints.map((endpoint) => endpoint.connect(30_000)))
  const picked = async (): Promise<number> => endpoints.indexOf(await pool.pick())

  t.equal(await picked(), 0)
  for (const at of [2, 1, 0]) {
    clock.advance(100)
    pool.suspect(endpoints[at]!)
  }
  t.equal(await picked(), 2)
  silent.add(endpoints[2]!)
  t.equal(await picked(), 1)
  for (const endpoint of endpoints) silent.add(endpoint)
  t.equal(await picked(), 2, 'all are silent')
  silent.clear()
  clock.advance(4_900)
  t.equal(await picked(), 2, 'it is no longer suspected')
})
