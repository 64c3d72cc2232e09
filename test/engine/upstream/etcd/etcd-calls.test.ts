import t from 'tap'
import { paths } from '../../../../src/engine/upstream/etcd/control-messages.js'
import type { EndpointPool } from '../../../../src/engine/upstream/etcd/endpoint-pool.js'
import { EtcdCalls } from '../../../../src/engine/upstream/etcd/etcd-calls.js'
import { RpcError, RpcStatus } from '../../../../src/engine/upstream/etcd/rpc-status.js'

void t.test('without a token, a call asks each endpoint for one once, and then fails', async (t) => {
  const asked: string[] = []
  const endpoints = ['a', 'b', 'c'].map((url) => ({
    url,
    unary: (path: string): Promise<Buffer> => {
      asked.push(`${path} ${url}`)
      return Promise.reject(new RpcError(RpcStatus.DEADLINE_EXCEEDED, 'no answer'))
    },
  }))
  const suspects = new Set<string>()
  const pool = {
    endpoints,
    pick: () => Promise.resolve(endpoints.find(({ url }) => !suspects.has(url)) ?? endpoints[0]),
    suspect: ({ url }: { url: string }) => suspects.add(url),
  }
  const user = { name: 'ann', password: 'secret' }
  const calls = new EtcdCalls(pool as unknown as EndpointPool, { user, requestTimeoutMs: 1_000, metrics: undefined })
  await t.rejects(calls.call('/read', Buffer.alloc(0), { isRepeatable: true }), { code: 'unavailable' })
  t.same(
    asked,
    ['a', 'b', 'c'].map((url) => `${paths.authenticate} ${url}`),
  )
})
