/** An etcd that no longer lets this server watch a prefix. */
import t from 'tap'
import { until } from '../../support/until.js'
import { encode, type Fields, type Message, startEtcdApi } from '../support/harness.js'

const ALL = { 1: '/flags/', 2: '/flags0' }
const create = (fields: Fields): Uint8Array => encode({ 1: fields })

void t.test('watches are cancelled, and their stream stays open for those that follow', async (t) => {
  const { ours, theirs, app } = await startEtcdApi(t)
  const { revision } = await theirs.put('/flags/a', '1')
  const stream = ours.stream('Watch/Watch')
  stream.send(create({ ...ALL, 3: revision, 7: 1 }))
  const of = (id: number, field: number): readonly Message[] =>
    stream.messages.filter((message) => message.number(2) === id && (message.fields.get(field)?.length ?? 0) > 0)
  await until(() => of(1, 11).length > 0, 'it has its event')
  const cache = [...app.app.sources].find(({ resource }) => resource.plural === 'flags')!.cache
  cache.refused('permission denied', true)
  stream.send(create({ ...ALL, 3: revision, 7: 2 }))
  for (const id of [1, 2]) {
    await until(() => of(id, 4).length > 0, `watch ${id} is cancelled`)
    t.match(of(id, 4)[0]!.text(6), /etcdserver: permission denied$/)
  }
  t.equal(of(2, 11).length, 0)
  t.equal(stream.ended, undefined)

  // An event shows that etcd allows the watch again.
  const { revision: next } = await theirs.put('/flags/b', '2')
  await until(() => cache.revision >= next, 'it arrives')
  stream.send(create({ ...ALL, 3: revision + 1, 7: 3 }))
  await until(() => of(3, 11).length > 0, 'a watch begins where the first one ended')
  t.equal(of(3, 11)[0]!.messages(11)[0]!.message(2).number(3), next)
})
