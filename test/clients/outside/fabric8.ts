/**
 * An informer of fabric8's Java client, unchanged, which lists in pages and watches over WebSocket. It resumes after
 * restarts of the server and of etcd, and lists again only when etcd no longer has the events that it missed.
 */
import t from 'tap'
import { provideJava } from '../support/java.js'
import { startClient } from '../support/program.js'
import { startStage } from '../support/stage.js'
import { compareWithList, forgetEvents, podLines, surviveDisruptions } from '../support/survive.js'

const java = provideJava('fabric8')

/** 300 pods, in pages of a hundred. */
const PAGES = 3

void t.test('an informer of fabric8 holds what a fresh list holds, and lists again only after a 410', async (t) => {
  const stage = await startStage(t)
  const client = await startClient(t, [...java, stage.url])
  const following = {
    userAgent: /^fabric8/,
    printed: () => client.errors(),
    held: async () => (await client.ask('what')) as readonly string[],
    listed: () => podLines(stage),
  }
  await surviveDisruptions(t, stage, following)
  const answered = (verb: string, code: number): number =>
    stage.answered().filter((one) => following.userAgent.test(one.userAgent) && one.verb === verb && one.code === code)
      .length
  t.equal(answered('list', 200), PAGES)
  await forgetEvents(stage, 'forgotten')
  await compareWithList(t, following, 'forgotten')
  t.ok(answered('list', 200) > PAGES, 'it has listed again')
  t.ok(answered('watch', 101) > 0, 'it watches over WebSocket')
  t.equal(await client.end(), 0)
})
