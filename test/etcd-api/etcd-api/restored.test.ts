/** An etcd that is restored from a backup under running clients, so that its revisions go back. */
import { join } from 'node:path'
import t from 'tap'
import { RpcError } from '../../../src/engine/upstream/etcd/rpc-status.js'
import { until } from '../../support/until.js'
import { encode, type EtcdClient, type Fields, type Message, startEtcdApi } from '../support/harness.js'

const ALL = { 1: '/flags/', 2: '/flags0' }
const create = (fields: Fields): Uint8Array => encode({ 1: fields })

/** The answer to a range; null while etcd is away. */
async function rangeOf(client: EtcdClient, fields: Fields): Promise<Message | null> {
  try {
    return await client.range(fields)
  } catch (error) {
    if (error instanceof RpcError) return null
    throw error
  }
}

void t.test('ranges show what was restored, and watches of what is gone are cancelled', async (t) => {
  const { ours, theirs, etcd } = await startEtcdApi(t)
  for (let i = 0; i < 5; i++) await theirs.put('/flags/a', String(i))
  const path = join(t.testdir(), 'snapshot')
  await etcd.saveSnapshot(path)
  for (let i = 5; i < 10; i++) await theirs.put('/flags/a', String(i))
  const { revision: lost } = await theirs.put('/flags/lost', 'x')
  const stream = ours.stream('Watch/Watch')
  const watches: readonly Fields[] = [ALL, { ...ALL, 3: 2 }, { 1: '/flags/a' }]
  for (const [i, fields] of watches.entries()) stream.send(create({ ...fields, 7: i + 1 }))
  const eventsOf = (id: number): readonly Message[] =>
    stream.messages.filter((message) => message.number(2) === id).flatMap((message) => message.messages(11))
  await until(
    () => eventsOf(2).at(-1)?.message(2).number(3) === lost,
    'the watch from the beginning has the last event',
  )

  await etcd.restoreSnapshot(path)
  for (const serializable of [false, true]) {
    // What is serializable comes from the cache, which may learn of the restore a moment later.
    const isGone = async (): Promise<boolean> => (await rangeOf(ours, { ...ALL, 7: serializable }))?.number(4) === 1
    await until(isGone, 'the lost key is gone', 60_000)
    const request = { ...ALL, 7: serializable }
    const [own, etcds] = [await rangeOf(ours, request), await rangeOf(theirs, request)]
    t.same(own?.comparable, etcds?.comparable, 'a range is as at etcd')
    t.ok(etcds!.revision < lost)
  }
  const cancelled = (): readonly Message[] => stream.messages.filter((message) => message.number(4) === 1)
  await until(() => cancelled().length === watches.length, 'all watches are cancelled', 60_000)
  t.equal(stream.ended, undefined, 'their stream is not')
  const compactRevision = cancelled()[0]!.number(5)
  t.ok(cancelled().every((message) => message.number(5) > 0 && message.number(5) < lost))
  const before = eventsOf(1).length

  // Clients list and watch again. Like etcd, the server lets a watch of a revision that is not reached wait.
  const again = ours.stream('Watch/Watch')
  again.send(create({ ...ALL, 3: compactRevision }))
  again.send(create({ ...ALL, 3: compactRevision + 2 }))
  await again.message(1)
  const first = await theirs.put('/flags/new', 'one')
  const second = await theirs.put('/flags/new', 'two')
  const revisions = (id: number): readonly number[] =>
    again.messages
      .filter((message) => message.number(2) === id)
      .flatMap((message) => message.messages(11))
      .map((event) => event.message(2).number(3))
  await until(() => revisions(0).at(-1) === second.revision, 'the new events')
  t.same(revisions(0), [compactRevision, first.revision, second.revision])
  await until(() => revisions(1).length > 0, 'the event that was in the future')
  t.same(revisions(1), [second.revision])
  t.equal(eventsOf(1).length, before, 'a cancelled watch has no event of the other history')
})
