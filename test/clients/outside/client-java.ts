/**
 * Kubernetes' Java client, unchanged: a SharedInformer, and a generic watch, hold what a fresh list holds, through
 * restarts of the server and of etcd.
 */
import t from 'tap'
import { cluster } from '../support/cluster.js'
import { provideJava } from '../support/java.js'
import { startClient } from '../support/program.js'
import { startStage } from '../support/stage.js'
import { compareWithList, forgetEvents, podLines, surviveDisruptions } from '../support/survive.js'

const java = provideJava('client-java')

const modes = [
  // The informer lists again after a connection was cut, as it does after an expired revision.
  { mode: 'informer', relistsAfter: ['kill -9 of the server'] },
  { mode: 'watch', relistsAfter: [] },
]

for (const { mode, relistsAfter } of modes) {
  void t.test(`client-java holds what a fresh list holds: ${mode}`, async (t) => {
    const stage = await startStage(t, { world: cluster() })
    const client = await startClient(t, [...java, stage.url, mode])
    const following = {
      userAgent: /^Kubernetes Java Client/,
      relistsAfter,
      printed: () => client.errors(),
      held: async () => (await client.ask('what')) as readonly string[],
      listed: () => podLines(stage),
    }
    await surviveDisruptions(t, stage, following)
    await forgetEvents(stage, 'forgotten')
    await compareWithList(t, following, 'forgotten')
    t.equal(await client.end(), 0)
  })
}
