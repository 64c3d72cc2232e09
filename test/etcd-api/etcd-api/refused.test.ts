/** An etcd that no longer lets this server watch a prefix. */
import t from 'tap'
import { until } from '../../support/until.js'
import type { EtcdProcess } from '../../support/etcd-process.js'
import { encode, type Fields, type Message, type RecordedStream, startEtcdApi } from '../support/harness.js'

const ALL = { 1: '/flags/', 2: '/flags0' }
const create = (fields: Fields): Uint8Array => encode({ 1: fields })
/** The watch id of a watch that was refused when it was created. */
const NO_WATCH = -1

/** The messages of a watch that have this field. */
const withField = ({ messages }: RecordedStream, id: number, field: number): readonly Message[] =>
  messages.filter((message) => message.number(2) === id && (message.fields.get(field)?.length ?? 0) > 0)

void t.test('watches are cancelled, and their stream stays open for those that follow', async (t) => {
  const { ours, theirs, app } = await startEtcdApi(t)
  const { revision } = await theirs.put('/flags/a', '1')
  const stream = ours.stream('Watch/Watch')
  stream.send(create({ ...ALL, 3: revision, 7: 1 }))
  const of = (id: number, field: number): readonly Message[] => withField(stream, id, field)
  await until(() => of(1, 11).length > 0, 'it has its event')
  const cache = [...app.app.sources].find(({ resource }) => resource.plural === 'flags')!.cache
  cache.refused('permission denied', true)
  stream.send(create({ ...ALL, 3: revision, 7: 2 }))
  for (const id of [1, NO_WATCH]) {
    await until(() => of(id, 4).length > 0, `watch ${id} is cancelled`)
    t.match(of(id, 4)[0]!.text(6), /etcdserver: permission denied$/)
  }
  t.equal(of(NO_WATCH, 3).length, 1, 'the second is created and cancelled in one message, as at etcd')
  t.equal(of(2, 11).length, 0)
  t.equal(stream.ended, undefined)

  // An event shows that etcd allows the watch again.
  const { revision: next } = await theirs.put('/flags/b', '2')
  await until(() => cache.revision >= next, 'it arrives')
  stream.send(create({ ...ALL, 3: revision + 1, 7: 3 }))
  await until(() => of(3, 11).length > 0, 'a watch begins where the first one ended')
  t.equal(of(3, 11)[0]!.messages(11)[0]!.message(2).number(3), next)
})

void t.test('every watch of the prefix gets the refusal, whatever it waits for', async (t) => {
  let oldest = 0
  const { ours, etcd, app } = await startEtcdApi(t, {
    user: READER,
    // Watches from before the start are watches on etcd.
    flags: ['--backfill-revisions=0'],
    prepare: async (theirs, etcd) => {
      oldest = (await theirs.put('/flags/a', '1')).revision
      await theirs.put('/flags/a', '2')
      await letRead(etcd)
    },
  })
  const { cache } = [...app.app.sources].find(({ resource }) => resource.plural === 'flags')!
  t.ok(cache.history.floorRevision > oldest)
  const running = { ...ALL, 3: cache.revision + 1, 7: 1 }
  const fromNow = { ...ALL, 7: 2 }
  const fromOldest = { ...ALL, 3: oldest, 7: 3 }
  const fromFuture = { ...ALL, 3: cache.revision + 1_000, 7: 4 }
  const stream = ours.stream('Watch/Watch')
  const refusals = (id: number): readonly string[] => withField(stream, id, 4).map((message) => message.text(6))
  const denied = /etcdserver: permission denied$/
  stream.send(create(running))
  await until(() => withField(stream, 1, 3).length > 0, 'a watch runs')

  await forbid(etcd)
  stream.send(create(fromNow))
  await until(() => refusals(NO_WATCH).length > 0 || stream.ended !== undefined, 'etcd does not tell where it begins')
  t.match(refusals(NO_WATCH)[0], denied)
  t.equal(stream.ended, undefined, 'the others go on')
  for (const fields of [fromOldest, fromFuture]) stream.send(create(fields))
  await until(() => [3, 4].every((id) => withField(stream, id, 3).length > 0), 'those begin to wait')

  // A watch on etcd continues without the right to it, until its connection is lost.
  await etcd.restart()
  await until(() => cache.source.disconnectedReason?.includes('permission') === true, 'etcd refuses the prefix')
  // As after ten seconds of that.
  cache.refused('permission denied', true)
  await until(() => [1, 3, 4].every((id) => refusals(id).length > 0), 'all are cancelled')
  for (const id of [1, 3, 4]) t.match(refusals(id)[0], denied)

  for (const fields of [fromNow, fromOldest, fromFuture]) stream.send(create(fields))
  await until(() => refusals(NO_WATCH).length > 3, 'and so are new ones')
  for (const reason of refusals(NO_WATCH)) t.match(reason, denied)
  t.equal(stream.ended, undefined)
})

const ROOT = { name: 'root', password: 'root' }
const READER = { name: 'reader', password: 'reader' }
const FLAGS = { key: base64('/flags/'), range_end: base64('/flags0') }

function base64(text: string): string {
  return Buffer.from(text).toString('base64')
}

async function letRead(etcd: EtcdProcess): Promise<void> {
  for (const { name, password } of [ROOT, READER]) {
    await etcd.call('auth/user/add', { name, password })
    await etcd.call('auth/role/add', { name })
    await etcd.call('auth/user/grant', { user: name, role: name })
  }
  await etcd.call('auth/role/grant', { name: READER.name, perm: { permType: 'READ', ...FLAGS } })
  await etcd.call('auth/enable', {})
}

async function forbid(etcd: EtcdProcess): Promise<void> {
  const { token } = await etcd.call('auth/authenticate', ROOT)
  await etcd.call('auth/role/revoke', { role: READER.name, ...FLAGS }, String(token))
}
