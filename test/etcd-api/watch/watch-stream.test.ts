/** Watches in etcd's own API, compared with those of a real etcd, message by message. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { RpcError, RpcStatus } from '../../../src/engine/upstream/etcd/rpc-status.js'
import { until } from '../../support/until.js'
import {
  encode,
  type EtcdApiHarness,
  type EtcdClient,
  type Fields,
  type Message,
  type RecordedStream,
  startEtcdApi,
} from '../support/harness.js'

const WATCH = 'Watch/Watch'
const ALL = { 1: '/flags/', 2: '/flags0' }
const create = (fields: Fields): Uint8Array => encode({ 1: fields })
const cancel = (watchId: number): Uint8Array => Buffer.from([0x12, 2, 8, watchId])
const PROGRESS = Buffer.from([0x1a, 0])

/** The events of one watch, in order, as bytes. */
function eventsOf({ messages }: RecordedStream, watchId = 0): readonly Message[] {
  return messages.filter((message) => message.number(2) === watchId).flatMap((message) => message.messages(11))
}

function revisionOf(event: Message): number {
  return event.message(2).number(3)
}

async function both(
  { ours, theirs }: EtcdApiHarness,
  requests: readonly Uint8Array[],
  metadata = {},
): Promise<readonly [RecordedStream, RecordedStream]> {
  const streams = [ours.stream(WATCH, metadata), theirs.stream(WATCH, metadata)] as const
  for (const stream of streams) {
    for (const request of requests) stream.send(request)
    await stream.message(requests.length - 1)
  }
  return streams
}

async function write(etcd: EtcdClient): Promise<void> {
  await etcd.put('/flags/a', 'one')
  await etcd.put('/flags/b', '{ "spaced": 1 }')
  await etcd.put('/flags/a', 'two')
  await etcd.put('/other/x', 'elsewhere')
  await etcd.call('KV/Txn', encode({ 2: [{ 2: { 1: '/flags/c', 2: 'x' } }, { 3: { 1: '/flags/b' } }] }))
  await etcd.delete('/flags/a')
  await etcd.put('/flags/a', 'again')
  await etcd.put('/flags/zz/last', 'end')
}

const CREATES: readonly Fields[] = [
  ALL,
  { 1: '/flags/a' },
  { 1: '/flags/a', 2: '/flags/a\0' },
  { 1: '/flags/b', 2: '/flags/d' },
  { 1: '/flags/zz/', 2: '/flags/zz0' },
  { ...ALL, 6: true },
  { ...ALL, 5: 1 },
  { ...ALL, 5: Buffer.from([0]) },
  { ...ALL, 5: Buffer.from([0, 1]) },
  { 1: '/flags/', 2: '\0' },
  { 1: '/other/x' },
]

void t.test('every watch gets the events of etcd, byte for byte', async (t) => {
  const harness = await startEtcdApi(t)
  const creates = CREATES.map((fields, i) => create({ ...fields, 7: i + 100 }))
  const [own, etcds] = await both(harness, creates)
  await write(harness.theirs)
  for (const i of CREATES.keys()) {
    const isSilent = i === 8
    const last = async (stream: RecordedStream): Promise<void> => {
      if (isSilent) return
      const key = i === 1 || i === 2 ? '/flags/a' : i === 3 ? '/flags/b' : i === 10 ? '/other/x' : '/flags/zz/last'
      if (i === 7) return await until(() => eventsOf(stream, i + 100).length === 2, `watch ${i} has its deletes`)
      await until(
        () =>
          eventsOf(stream, i + 100)
            .at(-1)
            ?.message(2)
            .text(1) === key,
        `watch ${i} has ${key}`,
      )
      const events = i === 1 || i === 2 ? 4 : i === 3 ? 3 : 1
      await until(() => eventsOf(stream, i + 100).length >= events, `watch ${i} has all`)
    }
    await last(own)
    await last(etcds)
    const bytes = (stream: RecordedStream): readonly string[] =>
      eventsOf(stream, i + 100).map((event) => event.bytes.toString('latin1'))
    t.same(bytes(own), bytes(etcds), JSON.stringify(CREATES[i]))
  }
  for (const message of own.messages.filter((one) => one.messages(11).length > 0))
    t.ok(message.revision >= Math.max(...message.messages(11).map(revisionOf)), 'the header is not behind its events')
})

void t.test('a watch from an old revision begins with its first event', async (t) => {
  const harness = await startEtcdApi(t, { prepare: write })
  for (const start of [1, 2, 4, 7]) {
    const [own, etcds] = await both(harness, [create({ ...ALL, 3: start, 6: true })])
    await until(() => eventsOf(etcds).at(-1)?.message(2).text(1) === '/flags/zz/last', 'etcd has sent all')
    await until(() => eventsOf(own).length >= eventsOf(etcds).length, 'all events have arrived')
    t.same(
      eventsOf(own).map(({ bytes }) => bytes.toString('latin1')),
      eventsOf(etcds).map(({ bytes }) => bytes.toString('latin1')),
      `from ${start}`,
    )
  }
})

void t.test('ids, refusals and cancels are those of etcd', async (t) => {
  const harness = await startEtcdApi(t)
  const requests = [
    create(ALL),
    create({ ...ALL, 7: 7 }),
    create({ ...ALL, 7: 7 }),
    create({ 1: '/flags/b', 2: '/flags/a' }),
    create({ 1: '/flags/one' }),
    cancel(7),
    create({ 1: '/flags/two' }),
  ]
  const [own, etcds] = await both(harness, requests)
  await own.message(6)
  await etcds.message(6)
  const shown = ({ messages }: RecordedStream): readonly unknown[] =>
    messages.map((message) => [message.text(2), message.number(3), message.number(4), message.text(6)])
  t.same(shown(own), shown(etcds))
  for (const stream of [own, etcds]) {
    stream.send(cancel(0))
    stream.send(cancel(99))
    stream.send(create({ 1: '/flags/three' }))
    await stream.message(8)
  }
  await harness.theirs.put('/flags/one', 'x')
  await until(() => eventsOf(own, 1).length === 1, 'a watch beside the cancelled one goes on')
  t.equal(eventsOf(own, 0).length, 0)
  t.same(shown(own).length, shown(etcds).length)
})

void t.test('a watch from a negative revision is refused as by a newer etcd', async (t) => {
  const { ours } = await startEtcdApi(t)
  const stream = ours.stream(WATCH)
  for (const range of [ALL, { 1: '/other/x' }]) stream.send(create({ ...range, 3: -1 }))
  for (const at of [0, 1]) {
    const message = await stream.message(at)
    t.same([message.text(2), message.number(3), message.number(4)], ['-1', 1, 1])
    t.equal(message.text(6), 'etcdserver: mvcc: required revision has been compacted')
  }
})

void t.test('a new watch begins after the revision that its creation shows', async (t) => {
  const { ours, theirs } = await startEtcdApi(t)
  for (let i = 0; i < 20; i++) {
    const { revision } = await theirs.put('/flags/a', String(i))
    const stream = ours.stream(WATCH)
    stream.send(create(ALL))
    const created = await stream.message(0)
    t.ok(created.revision >= revision, 'it includes every write that has returned')
    const next = await theirs.put('/flags/a', 'next')
    await until(() => eventsOf(stream).length > 0, 'the next event')
    t.equal(revisionOf(eventsOf(stream)[0]!), next.revision)
    stream.cancel()
  }
})

void t.test('a watch of a future revision waits for it', async (t) => {
  const { ours, theirs } = await startEtcdApi(t)
  const { revision } = await theirs.put('/flags/a', 'now')
  const stream = ours.stream(WATCH)
  stream.send(create({ ...ALL, 3: revision + 3 }))
  await stream.message(0)
  for (let i = 1; i <= 4; i++) await theirs.put('/flags/a', String(i))
  await until(() => eventsOf(stream).length >= 2, 'its events')
  t.same(eventsOf(stream).map(revisionOf), [revision + 3, revision + 4])
})

void t.test('a watch from a compacted revision is cancelled as etcd cancels it', async (t) => {
  const harness = await startEtcdApi(t, {
    flags: ['--backfill-revisions=0'],
    prepare: async (etcd, process) => {
      await write(etcd)
      await process.compact(6)
    },
  })
  const [own, etcds] = await both(harness, [create({ ...ALL, 3: 3 })])
  const shown = async (stream: RecordedStream): Promise<unknown> => {
    const message = await stream.message(1)
    return [message.number(4), message.number(5), message.text(6), message.revision]
  }
  t.same(await shown(own), await shown(etcds))
})

void t.test('watches from below the history share a few watches on etcd, and miss nothing', async (t) => {
  const writes = 300
  const { ours, theirs, etcd } = await startEtcdApi(t, {
    flags: ['--backfill-revisions=0'],
    prepare: async (client) => {
      for (let i = 0; i < writes; i++) await client.put(`/flags/${i % 10}`, String(i))
    },
  })
  const watchers = async (): Promise<number> =>
    (await etcd.metrics()).get('etcd_debugging_mvcc_watch_stream_total') ?? 0
  const before = await watchers()
  const stream = ours.stream(WATCH)
  for (let i = 1; i <= 100; i++) stream.send(create({ ...ALL, 3: 2 + (i % 50), 7: i, 6: true }))
  await stream.message(99)
  t.ok((await watchers()) - before <= 8, 'etcd sees a few of them')
  await theirs.put('/flags/new', 'event')
  const isDone = (i: number): boolean => eventsOf(stream, i).at(-1)?.message(2).text(1) === '/flags/new'
  for (let i = 1; i <= 100; i++) await until(() => isDone(i), `watch ${i} has the new event`)
  for (let i = 1; i <= 100; i++) {
    const start = 2 + (i % 50)
    const revisions = eventsOf(stream, i).map(revisionOf)
    t.same(
      revisions,
      Array.from({ length: writes + 2 - start + 1 }, (_, at) => start + at),
    )
    t.ok(
      eventsOf(stream, i)
        .slice(60, 70)
        .every((event) => event.messages(3).length === 1),
      'with previous values',
    )
  }
  await theirs.put('/flags/new', 'again')
  await until(() => eventsOf(stream, 1).at(-1)?.message(2).text(5) === 'again', 'they go on from the cache')
})

void t.test('old events that exceed the size of a message from etcd arrive whole and in order', async (t) => {
  const { ours, theirs } = await startEtcdApi(t, {
    maxReceivedBytes: 4 * 1024 * 1024,
    flags: ['--backfill-revisions=0'],
    prepare: async (client) => {
      for (let i = 0; i < 18; i++) await client.put(`/flags/${i % 6}`, Buffer.alloc(300_000, i))
      await client.delete('/flags/1', '/flags/5')
      await client.put('/flags/small', 'x')
      // One revision is larger than a fragment.
      await client.delete('/flags/', '/flags0')
      for (let i = 0; i < 8; i++) await client.put(`/flags/${i}`, Buffer.alloc(300_000, i))
      await client.delete('/flags/', '/flags0')
      await client.put('/flags/end', 'x')
    },
  })
  for (const fields of [
    { ...ALL, 3: 2, 6: true },
    { ...ALL, 3: 20 },
  ]) {
    const streams = [ours.stream(WATCH), theirs.stream(WATCH)]
    for (const stream of streams) stream.send(create(fields))
    const isDone = ({ messages }: RecordedStream): boolean =>
      messages.at(-1)?.messages(11).at(-1)?.message(2).text(1) === '/flags/end'
    for (const stream of streams) await until(() => isDone(stream), 'the last event', 60_000)
    const [own, etcds] = streams.map((stream) => eventsOf(stream).map(({ bytes }) => bytes))
    t.equal(own!.length, etcds!.length)
    t.ok(own!.every((bytes, i) => bytes.equals(etcds![i]!)))
    const ends = streams[0]!.messages.map((one) => one.messages(11).map(revisionOf)).filter(({ length }) => length > 0)
    t.ok(
      ends.every((one, i) => i === 0 || one[0]! > ends[i - 1]!.at(-1)!),
      'no revision is split',
    )
  }
})

void t.test('a metric says what feeds each watch', async (t) => {
  const { ours, theirs, app } = await startEtcdApi(t, {
    flags: ['--backfill-revisions=0'],
    prepare: async (client) => {
      for (let i = 0; i < 3; i++) await client.put('/flags/a', String(i))
    },
  })
  const counts = async (): Promise<Readonly<Record<string, number>>> => {
    const text = await (await fetch(`${app.url}/metrics`)).text()
    const samples = text.matchAll(/^distributary_etcd_api_watches\{source="(\w+)"\} (\d+)$/gm)
    return Object.fromEntries([...samples].filter(([, , n]) => n !== '0').map(([, source, n]) => [source, Number(n)]))
  }
  const stream = ours.stream(WATCH)
  for (const fields of [ALL, { 1: '/flags/a' }, { ...ALL, 3: 1_000 }, { 1: '/other/x' }]) stream.send(create(fields))
  await stream.message(3)
  t.same(await counts(), { cache: 2, none: 1, etcd: 1 })
  stream.send(create({ ...ALL, 3: 2, 7: 9 }))
  await until(() => eventsOf(stream, 9).length === 3, 'the events before the history')
  await theirs.put('/flags/a', 'new')
  await until(() => eventsOf(stream, 9).length === 4, 'the next event')
  await until(async () => (await counts())['cache'] === 3, 'it goes on from the cache')
  stream.cancel()
  await until(async () => Object.keys(await counts()).length === 0, 'none is left')
})

void t.test('a progress request is answered once, and never ahead of events', async (t) => {
  const { ours, theirs } = await startEtcdApi(t)
  const stream = ours.stream(WATCH)
  stream.send(create({ ...ALL, 7: 1 }))
  stream.send(create({ 1: '/flags/quiet', 7: 2 }))
  await stream.message(1)
  for (let round = 0; round < 10; round++) {
    const { revision } = await theirs.put('/flags/a', String(round))
    const from = stream.messages.length
    stream.send(PROGRESS)
    const answers = (): readonly Message[] => stream.messages.slice(from).filter((one) => one.text(2) === '-1')
    await until(() => answers().length > 0, 'an answer')
    const [answer] = answers()
    t.ok(answer!.revision >= revision, 'it is not older than the request')
    const before = stream.messages.slice(0, stream.messages.indexOf(answer!))
    const seen = before.flatMap((one) => one.messages(11)).map(revisionOf)
    t.ok(seen.includes(revision), 'the events before it have arrived')
    t.equal(answers().length, 1)
  }
})

void t.test('a watch that asks for it is notified of progress', async (t) => {
  const { ours, theirs } = await startEtcdApi(t, { config: { bookmarkInterval: 300 } })
  const stream = ours.stream(WATCH)
  stream.send(create({ ...ALL, 4: true }))
  stream.send(create({ 1: '/flags/quiet' }))
  await stream.message(1)
  const { revision } = await theirs.put('/flags/a', 'x')
  const isNotice = (one: Message): boolean => one.number(3) === 0 && one.messages(11).length === 0
  await until(() => stream.messages.some((one) => isNotice(one) && one.revision >= revision), 'a notice')
  t.notOk(stream.messages.some((one) => isNotice(one) && one.text(2) === '1'))
})

void t.test('watchers of one range share their bytes, whatever their streams and ids', async (t) => {
  const warnings: string[] = []
  const onWarning = ({ name }: Error): void => void warnings.push(name)
  process.on('warning', onWarning)
  t.teardown(() => process.off('warning', onWarning))
  const { ours, theirs, app } = await startEtcdApi(t)
  const streams = Array.from({ length: 5 }, () => ours.stream(WATCH))
  for (const stream of streams) {
    for (let i = 1; i <= 20; i++) stream.send(create({ ...ALL, 7: i }))
    await stream.message(19)
  }
  const [source] = [...app.app.sources].filter(({ resource }) => resource.plural === 'flags')
  t.equal([...source!.dispatcher.groups].length, 1)
  t.equal(source!.dispatcher.watchers, 100)
  await theirs.put('/flags/a', 'x')
  for (const stream of streams)
    for (let i = 1; i <= 20; i++) await until(() => eventsOf(stream, i).length === 1, `watch ${i} has the event`)
  for (const stream of streams) stream.cancel()
  await until(() => source!.dispatcher.watchers === 0, 'closed streams leave no watchers')
  t.same(warnings, [], 'no listener is added with each watch')
})

void t.test('a reader that stops for a while gets every event, in order, and holds up nobody', async (t) => {
  const { ours, theirs } = await startEtcdApi(t)
  const slow = ours.stream(WATCH)
  for (let i = 1; i <= 5; i++) slow.send(create({ ...ALL, 7: i }))
  await slow.message(4)
  slow.pause()
  const value = 'x'.repeat(50_000)
  for (let i = 0; i < 120; i++) await theirs.put('/flags/a', `${i} ${value}`)
  const quick = ours.stream(WATCH)
  quick.send(create(ALL))
  await quick.message(0)
  await theirs.put('/flags/a', 'last')
  await until(() => eventsOf(quick).length === 1, 'the other stream')
  slow.resume()
  for (let i = 1; i <= 5; i++) await until(() => eventsOf(slow, i).length === 121, `watch ${i} has everything`)
  const revisions = eventsOf(slow, 3).map(revisionOf)
  t.same(
    revisions,
    [...revisions].sort((a, b) => a - b),
  )
})

void t.test('a large revision comes in fragments to a watch that asks for them', async (t) => {
  const { ours, theirs } = await startEtcdApi(t)
  for (let i = 0; i < 6; i++) await theirs.put(`/flags/${i}`, 'x'.repeat(700_000))
  const stream = ours.stream(WATCH)
  stream.send(create({ ...ALL, 6: true, 8: true, 7: 1 }))
  stream.send(create({ ...ALL, 6: true, 7: 2 }))
  await stream.message(1)
  await theirs.delete('/flags/', '/flags0')
  for (const id of [1, 2]) await until(() => eventsOf(stream, id).length === 6, `the deletes of watch ${id}`)
  const parts = stream.messages.filter((one) => one.number(2) === 1 && one.messages(11).length > 0)
  t.ok(parts.length > 1)
  t.ok(parts.every(({ bytes }) => bytes.length < 2.1 * 1024 * 1024))
  t.same(
    parts.map((one) => one.number(7)),
    parts.map((_, i) => (i < parts.length - 1 ? 1 : 0)),
  )
  t.equal(stream.messages.filter((one) => one.number(2) === 2 && one.messages(11).length > 0).length, 1)
})

void t.test('a client that requires a leader loses its stream when etcd is gone', async (t) => {
  const { ours, etcd } = await startEtcdApi(t)
  const strict = ours.stream(WATCH, { hasleader: 'true' })
  const patient = ours.stream(WATCH)
  for (const stream of [strict, patient]) {
    stream.send(create(ALL))
    await stream.message(0)
  }
  await etcd.kill()
  await until(() => strict.ended !== undefined, 'the stream ends', 20_000)
  t.match(strict.ended, { code: RpcStatus.UNAVAILABLE, details: 'etcdserver: no leader' })
  t.equal(patient.ended, undefined)
})

void t.test('when the server stops, streams end as unavailable', async (t) => {
  const { ours, app } = await startEtcdApi(t)
  const [cached, forwarded] = [ours.stream(WATCH), ours.stream(WATCH)]
  cached.send(create(ALL))
  forwarded.send(create({ 1: '/other/x' }))
  await cached.message(0)
  await forwarded.message(0)
  await app.app.drain()
  for (const stream of [cached, forwarded]) {
    await until(() => stream.ended !== undefined, 'the stream ends')
    t.match(stream.ended, { code: RpcStatus.UNAVAILABLE })
  }
})

void t.test('a watch needs permission for its whole range, and ends when the permission is gone', async (t) => {
  const folder = t.testdir()
  const [tokens, policy] = [join(folder, 'tokens.csv'), join(folder, 'policy.yaml')]
  const rules = (names: string): string =>
    `rules: [{users: [u], verbs: [watch], apiGroups: [etcd.distributary.io], resources: [flags], names: ["${names}"]}]`
  writeFileSync(tokens, 'token,u,u\n', { mode: 0o600 })
  writeFileSync(policy, rules('mine/*'))
  const { ours, theirs } = await startEtcdApi(t, {
    flags: [`--token-auth-file=${tokens}`, '--authorization-mode=Policy', `--authorization-policy-file=${policy}`],
  })
  const stream = ours.stream(WATCH, { authorization: 'Bearer token' })
  const foreign: readonly Fields[] = [ALL, { 1: '/flags/other' }, { 1: '/flags/mine/', 2: '/flags0' }, { 1: '/x' }]
  for (const fields of foreign) stream.send(create(fields))
  stream.send(create({ 1: '/flags/mine/', 2: '/flags/mine0' }))
  await stream.message(4)
  for (const message of stream.messages.slice(0, 4)) {
    t.equal(message.text(2), '-1')
    t.equal(message.text(6), 'rpc error: code = PermissionDenied desc = etcdserver: permission denied')
  }
  await theirs.put('/flags/mine/a', 'x')
  await until(() => eventsOf(stream).length === 1, 'an event of the allowed watch')
  writeFileSync(policy, rules('yours/*'))
  await until(() => stream.messages.at(-1)?.number(4) === 1, 'the watch is cancelled', 20_000)
  t.match(stream.messages.at(-1)?.text(6), /permission denied/)
  t.equal(stream.ended, undefined)
  t.ok(await ours.call('KV/Range', encode(ALL)).catch((error: unknown) => error instanceof RpcError))
})
