import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { type EtcdProcess, startEtcdCluster } from '../../../support/etcd-process.js'
import { feedOver } from '../etcd-harness.js'
import { until } from '../../../support/until.js'

void t.test(
  'a member without a leader: the cache stays, and every event arrives once the leader is back',
  async (t) => {
    const members = await startEtcdCluster(t)
    const [ours, ...others] = members as [EtcdProcess, EtcdProcess, EtcdProcess]
    const h = feedOver(t, ours, ours.url)
    h.feed.start()
    await h.put('a')
    await h.converged()
    for (const other of others) await other.kill('SIGSTOP')
    await until(() => h.feed.status.state !== 'watching', 'the loss to be noticed')
    t.ok(h.sink.reason)
    await delay(1_500)
    t.not(h.feed.status.state, 'watching', 'an open stream to a member without a leader does not count as connected')
    t.equal(h.sink.state.size, 1)
    for (const other of others) await other.kill('SIGCONT')
    await until(
      () =>
        h.put('b').then(
          () => true,
          () => false,
        ),
      'a leader',
    )
    await h.converged()
    t.equal(h.sink.of('replace').length, 1)
    t.equal(h.sink.state.size, 2)
  },
)
