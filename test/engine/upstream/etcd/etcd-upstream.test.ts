/** The contract of every upstream, on a real etcd. */
import t from 'tap'
import { connectEtcd } from '../../../../src/engine/upstream/etcd/etcd-upstream.js'
import { startEtcd } from '../../../support/etcd-process.js'
import { upstreamContract } from '../contract.js'

await upstreamContract(t, 'etcd', async (t) => {
  const etcd = await startEtcd(t)
  const upstream = connectEtcd({ endpoints: [etcd.url] })
  t.teardown(() => upstream.close())
  return { upstream, compact: (revision) => etcd.compact(revision) }
})
