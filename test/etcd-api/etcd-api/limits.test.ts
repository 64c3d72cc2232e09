/** The limits of etcd's own API on one client, and the answers beyond them. */
import { connect } from 'node:http2'
import t from 'tap'
import { RpcError } from '../../../src/engine/upstream/etcd/rpc-status.js'
import { until } from '../../support/until.js'
import { encode, type Message, type RecordedStream, startEtcdApi } from '../support/harness.js'

const ALL = { 1: '/flags/', 2: '/flags0' }
const TOO_MANY = 'rpc error: code = ResourceExhausted desc = etcdserver: too many requests'

/** Sends more creates, and returns the reason of the last refusal; '' if there was none. */
async function send(stream: RecordedStream, count: number, fields: object): Promise<readonly string[]> {
  const answers = stream.messages.length + count
  for (let i = 0; i < count; i++) stream.send(encode({ 1: fields as { 1: string } }))
  await until(() => stream.messages.length >= answers, 'every request is answered')
  return stream.messages.slice(-1).map((message) => message.text(6))
}

void t.test('a stream has a limit of watches, and the others go on', async (t) => {
  const { ours, theirs } = await startEtcdApi(t)
  const stream = ours.stream('Watch/Watch')
  t.same(await send(stream, 9_999, { ...ALL, 3: 1_000_000_000 }), [''])
  t.same(await send(stream, 1, ALL), [''])
  t.same(await send(stream, 1, ALL), [TOO_MANY])
  await theirs.put('/flags/a', 'x')
  await until(() => stream.messages.some((message) => message.messages(11).length > 0), 'an event')
})

void t.test('watches on etcd have a limit', async (t) => {
  const { ours } = await startEtcdApi(t)
  const streams = Array.from({ length: 10 }, () => ours.stream('Watch/Watch'))
  for (const stream of streams) t.same(await send(stream, 100, { 1: '/other/x' }), [''])
  const late = ours.stream('Watch/Watch')
  t.same(await send(late, 1, { 1: '/other/x' }), [TOO_MANY])
  streams[0]?.cancel()
  await until(async () => {
    const again = ours.stream('Watch/Watch')
    return (await send(again, 1, { 1: '/other/x' }))[0] === ''
  }, 'a place is free again')
})

void t.test('forwarded requests wait for a slot, and are refused while none becomes free', async (t) => {
  const { ours, theirs, etcd } = await startEtcdApi(t)
  await ours.range({ 1: '/other/x' })
  await etcd.kill('SIGSTOP')
  const answers = Array.from({ length: 70 }, () => ours.range({ 1: '/other/x' }).catch((error: unknown) => error))
  const first = await Promise.race(answers)
  t.match(first, { details: 'etcdserver: too many requests' })
  await etcd.kill('SIGCONT')
  await Promise.all(answers)
  await until(async () => (await theirs.range({ 1: '/other/x' })).revision > 0, 'etcd answers')
  t.equal((await ours.range({ 1: '/other/x' })).number(4), 0)
})

void t.test('a request may have two megabytes, and one that is compressed is refused', async (t) => {
  const { ours } = await startEtcdApi(t)
  const refused = await ours.range({ 1: 'x'.repeat(3 * 1024 * 1024) }).catch((error: unknown) => error)
  t.match(refused, { details: 'etcdserver: request is too large' })
  t.ok(refused instanceof RpcError)
  t.equal((await ours.range({ 1: '/flags/x' })).number(4), 0, 'the connection is still good')
})

void t.test('only so many large requests are received at once, whoever sends them', async (t) => {
  const { ours, app } = await startEtcdApi(t)
  const session = connect(app.url)
  t.teardown(() => session.destroy())
  const head = Buffer.from([0, 0, 0x10, 0, 0])
  for (let i = 0; i < 32; i++) {
    const stream = session.request({
      ':method': 'POST',
      ':path': '/etcdserverpb.KV/Put',
      'content-type': 'application/grpc',
    })
    stream.on('error', () => {})
    // The rest never comes.
    stream.write(Buffer.concat([head, Buffer.alloc(20_000)]))
  }
  const large = { 1: 'x'.repeat(100_000) }
  const isFull = async (): Promise<boolean> => {
    const answer = await ours.range(large).catch((error: unknown) => error)
    return answer instanceof RpcError && answer.details === 'etcdserver: too many requests'
  }
  await until(isFull, 'there is no slot', 30_000)
  t.equal((await ours.range({ 1: '/flags/x' })).number(4), 0, 'small requests need none')
  const metrics = await (await fetch(`${app.url}/metrics`)).text()
  t.match(metrics, /distributary_http_rejected_total\{limit="etcd-requests"\} [1-9]/)
  session.destroy()
  await until(async () => (await ours.range(large).catch(() => null)) !== null, 'the slots are free again')
})

void t.test(
  'a transaction has a limited number of operations, and needs a limited number of permissions',
  async (t) => {
    const { ours } = await startEtcdApi(t)
    const refused = async (request: Uint8Array): Promise<unknown> =>
      await ours.call('KV/Txn', request).catch((error: unknown) => error)
    const tooMany = { details: 'etcdserver: too many operations in txn request' }
    const same = Array.from({ length: 10_001 }, () => ({ 1: { 1: '/flags/a' } }))
    t.match(await refused(encode({ 2: same })), tooMany)
    const different = Array.from({ length: 1_001 }, (_, i) => ({ 1: { 1: `/flags/${i}` } }))
    t.match(await refused(encode({ 2: different })), tooMany)
  },
)

void t.test('a range with too much to sort is sorted by etcd', async (t) => {
  const keys = Array.from({ length: 10_050 }, (_, i) => ({ 2: { 1: `/flags/${String(i).padStart(5, '0')}`, 2: 'x' } }))
  const { ours, theirs, app } = await startEtcdApi(t, {
    prepare: async (etcd) => {
      for (let i = 0; i < keys.length; i += 100) await etcd.call('KV/Txn', encode({ 2: keys.slice(i, i + 100) }))
    },
  })
  const forwarded = async (): Promise<number> => {
    const text = await (await fetch(`${app.url}/metrics`)).text()
    return Number(/^distributary_etcd_api_forwarded_total\{method="range"\} (\d+)/m.exec(text)?.[1] ?? 0)
  }
  const [KEY, MOD, ASCENDING, DESCENDING] = [0, 3, 1, 2]
  const table = [
    { most: '/flags0', target: MOD, order: ASCENDING, isForwarded: true },
    { most: '/flags/10000', target: MOD, order: ASCENDING, isForwarded: false },
    { most: '/flags0', target: KEY, order: ASCENDING, isForwarded: false },
    { most: '/flags0', target: KEY, order: DESCENDING, isForwarded: false },
  ]
  for (const { most, target, order, isForwarded } of table) {
    // Serializable, so that the age of etcd does not matter.
    const request = { 1: '/flags/', 2: most, 3: 3, 5: order, 6: target, 7: true, 8: true }
    const before = await forwarded()
    const keysOf = (message: Message): readonly string[] => message.messages(2).map((kv) => kv.text(1))
    const own = await ours.range(request)
    t.equal(own.number(4), most === '/flags0' ? 10_050 : 10_000)
    // Keys of one revision may be in any order.
    if (target === KEY) t.same(keysOf(own), keysOf(await theirs.range(request)))
    t.equal((await forwarded()) - before, Number(isForwarded), JSON.stringify(request))
  }
})

void t.test('a burst of requests on one stream is answered in order, and read piece by piece', async (t) => {
  const { ours } = await startEtcdApi(t)
  const stream = ours.stream('Watch/Watch')
  t.same(await send(stream, 2_000, { ...ALL, 3: 1_000_000_000 }), [''])
  t.same(
    stream.messages.map((message) => message.number(2)),
    stream.messages.map((_, i) => i),
  )
})

void t.test('a known client has more streams on its connection than others', async (t) => {
  const { ours, theirs } = await startEtcdApi(t, { flags: ['--http2-max-streams-per-connection=10'] })
  await ours.range({ 1: '/flags/a' })
  const streams = Array.from({ length: 300 }, () => ours.stream('Watch/Watch'))
  for (const stream of streams) stream.send(encode({ 1: ALL }))
  for (const stream of streams) await stream.message(0)
  await theirs.put('/flags/a', 'x')
  for (const stream of streams) t.equal((await stream.message(1)).messages(11).length, 1)
})
