/**
 * A reflector of Rust's kube, unchanged, whose initial list is paged or streamed. It resumes after restarts of the
 * server and of etcd, and starts over only when etcd no longer has the events that it missed.
 */
import t from 'tap'
import { startClient } from '../support/program.js'
import { provideRust } from '../support/rust.js'
import { startStage } from '../support/stage.js'
import { compareWithList, forgetEvents, podLines, surviveDisruptions } from '../support/survive.js'

const program = provideRust()

for (const initial of ['paged', 'streaming']) {
  void t.test(`a reflector of kube with a ${initial} list holds what a fresh list holds`, async (t) => {
    const stage = await startStage(t)
    const client = await startClient(t, [program, stage.url, initial])
    const following = {
      // The client sends no User-Agent.
      userAgent: /^$/,
      streams: initial === 'streaming',
      printed: () => client.errors(),
      held: async () => (await client.ask('what')) as readonly string[],
      listed: () => podLines(stage),
    }
    await surviveDisruptions(t, stage, following)
    t.notMatch(client.errors(), 'code: 410')
    await forgetEvents(stage, 'forgotten')
    await compareWithList(t, following, 'forgotten')
    t.match(client.errors(), 'code: 410')
    t.equal(await client.end(), 0)
  })
}
