/** Long lists of etcd from 3.7 on come as one stream; older ones have pages only, and both read the same. */
import { spawn } from 'node:child_process'
import t, { type Test } from 'tap'
import { readPages } from '../../src/engine/feed/read-pages.js'
import { keyFromText, type Key, type KeyValue } from '../../src/engine/model/event.js'
import type { Revision } from '../../src/engine/model/revision.js'
import { connectEtcd, type EtcdUpstreamOptions } from '../../src/engine/upstream/etcd/etcd-upstream.js'
import { hasRangeStream } from '../../src/engine/upstream/etcd/member-versions.js'
import type { Page, Upstream, UpstreamReader } from '../../src/engine/upstream/upstream.js'
import { systemClock } from '../../src/support/clock.js'
import { type EtcdProcess, etcdBinary, startEtcd } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { freePorts } from '../support/free-port.js'
import { smallPages } from '../support/small-pages.js'
import { until } from '../support/until.js'

const prefix = keyFromText('/p/')
/** 30 MB: far more than what waits in buffers between etcd and a reader that has stopped. */
const KEYS = 15_000
const VALUE = 'v'.repeat(2_000)
/** Much smaller than the list, so that there would be many pages. */
const PAGE_KEYS = 500

const base64 = (text: string): string => Buffer.from(text).toString('base64')
const keyOf = (i: number): string => `/p/k${String(i).padStart(5, '0')}`
const written = (): Map<string, string> => new Map(Array.from({ length: KEYS }, (_, i) => [keyOf(i), `${i} ${VALUE}`]))

interface Subject {
  readonly etcd: EtcdProcess
  readonly writer: EtcdWriter
  readonly upstream: Upstream
  /** Operations that etcd answered, in order. */
  readonly asked: string[]
  readonly hasStream: boolean
}

async function start(t: Test): Promise<Subject> {
  const etcd = await startEtcd(t)
  const writer = new EtcdWriter([etcd])
  await writer.fill(written())
  return { etcd, writer, ...(await connect(t, { endpoints: [etcd.url] })) }
}

async function connect(
  t: Test,
  options: EtcdUpstreamOptions,
): Promise<Pick<Subject, 'upstream' | 'asked' | 'hasStream'>> {
  const asked: string[] = []
  const metrics = { etcdRequestEnded: (operation: string): void => void asked.push(operation) }
  const upstream = connectEtcd({ ...options, metrics })
  t.teardown(() => upstream.close())
  let versions: readonly string[] = []
  await until(async () => (versions = (await upstream.status()).serverVersions).length > 0, 'etcd answers')
  return { upstream, asked, hasStream: versions.every(hasRangeStream) }
}

const pages = (upstream: UpstreamReader): AsyncGenerator<Page> =>
  readPages({ upstream: smallPages(upstream, PAGE_KEYS), prefix, revision: null, clock: systemClock })

/** @param between called after each page but the last. */
async function list(upstream: UpstreamReader, between?: (page: number) => Promise<void>): Promise<KeyValue[]> {
  const keyValues: KeyValue[] = []
  let count = 0
  for await (const page of pages(upstream)) {
    keyValues.push(...page.keyValues)
    if (page.more) await between?.(++count)
  }
  return keyValues
}

function checkAll(t: Test, keyValues: readonly KeyValue[]): void {
  t.equal(keyValues.length, KEYS)
  const wrong = keyValues.filter(
    ({ key, value }, i) => key !== keyFromText(keyOf(i)) || value.toString() !== `${i} ${VALUE}`,
  )
  t.same(wrong, [], 'every key in its place, with its value')
}

void t.test('a long list is one stream at one revision, whatever is written in the meantime', async (t) => {
  const { upstream, writer, asked, hasStream } = await start(t)
  const keyValues = await list(upstream, async (page) => {
    if (page > 3) return
    await writer.commit({ [keyOf(7_000 + page)]: 'changed', [keyOf(14_000 + page)]: null, [`/p/new${page}`]: 'new' })
  })
  checkAll(t, keyValues)
  if (hasStream) t.same(asked, ['range', 'range-stream'])
  else t.ok(asked.length > 10 && !asked.includes('range-stream'), 'pages')
  const now = await list(upstream)
  t.equal(now.length, KEYS)
  t.equal(now.filter(({ value }) => value.toString() === 'changed').length, 3)
})

void t.test('a reader that stops makes etcd wait, and one that leaves ends the stream', async (t) => {
  const { upstream, etcd, hasStream } = await start(t)
  if (!hasStream) return
  const sent = async (): Promise<number> => (await etcd.metrics()).get('etcd_network_client_grpc_sent_bytes_total') ?? 0
  const before = await sent()
  const reading = pages(upstream)
  for (let i = 0; i < 2; i++) await reading.next()
  let last = -1
  await until(async () => {
    const now = await sent()
    const isStill = now === last
    last = now
    return isStill
  }, 'etcd sends no more')
  t.ok(last - before < 16_000_000, `${last - before} bytes of 30 MB sent`)
  await reading.return(undefined)
  const counted = async (name: string): Promise<number> => {
    const samples = [...(await etcd.metrics())].filter(([key]) => key.startsWith(`grpc_server_${name}_total{`))
    return samples.reduce((sum, [key, value]) => sum + (key.includes('"RangeStream"') ? value : 0), 0)
  }
  t.equal(await counted('started'), 1)
  await until(async () => (await counted('handled')) === 1, 'the stream has ended in etcd')
})

void t.test(
  'etcd killed in the middle of a list: the list continues where it was, and has everything once',
  async (t) => {
    const { upstream, etcd, asked, hasStream } = await start(t)
    // A page that breaks ends the list, which its caller repeats.
    if (!hasStream) return
    const keyValues = await list(upstream, async (page) => {
      if (page === 3) await etcd.restart()
    })
    checkAll(t, keyValues)
    t.equal(asked.filter((operation) => operation === 'range-stream').length, 2, 'continued by another')
  },
)

void t.test('a revision compacted in the middle of a list ends it as compacted', async (t) => {
  const { upstream, etcd, writer } = await start(t)
  const listed = list(upstream, async (page) => {
    if (page !== 2) return
    const revision = await writer.put('/other', 'x')
    await etcd.compact(revision)
  })
  await t.rejects(listed, { code: 'compacted' })
})

void t.test("a user's token counts for streams as well", async (t) => {
  const { etcd } = await start(t)
  await etcd.call('auth/user/add', { name: 'root', password: 'r' })
  await etcd.call('auth/role/add', { name: 'root' })
  await etcd.call('auth/user/grant', { user: 'root', role: 'root' })
  await etcd.call('auth/role/add', { name: 'reader' })
  const perm = { permType: 'READ', key: base64('/p/'), range_end: base64('/p0') }
  await etcd.call('auth/role/grant', { name: 'reader', perm })
  for (const name of ['reader', 'stranger']) await etcd.call('auth/user/add', { name, password: name })
  await etcd.call('auth/user/grant', { user: 'reader', role: 'reader' })
  await etcd.call('auth/enable', {})
  const { token } = await etcd.call('auth/authenticate', { name: 'root', password: 'r' })
  const as = (name: string) => connect(t, { endpoints: [etcd.url], user: { name, password: name } })
  const parts = (upstream: Upstream) =>
    upstream.stream!({ prefix, startKey: prefix, revision: 2 as Revision, signal: AbortSignal.timeout(10_000) })!
  const reader = await as('reader')
  checkAll(t, await list(reader.upstream))
  if (!reader.hasStream) return
  await t.rejects(parts((await as('stranger')).upstream).next(), { code: 'permission-denied' })

  // Setting a password, even the same one, invalidates the tokens issued for the old one.
  await etcd.call('auth/user/changepw', { name: 'reader', password: 'reader' }, String(token))
  t.ok(await parts(reader.upstream).next(), 'a token that etcd no longer accepts is replaced')
})

void t.test("etcd's proxy has no streams, whatever its members have: pages do", async (t) => {
  const { etcd } = await start(t)
  const [port] = await freePorts(1)
  const endpoint = etcd.url.replace('http://', '')
  const flags = ['grpc-proxy', 'start', `--endpoints=${endpoint}`, `--listen-addr=127.0.0.1:${port}`]
  const proxy = spawn(etcdBinary, flags, { stdio: 'ignore' })
  t.teardown(() => proxy.kill('SIGKILL'))
  const { upstream, asked } = await connect(t, { endpoints: [`http://127.0.0.1:${port}`] })
  checkAll(t, await list(upstream))
  t.ok(asked.filter((operation) => operation === 'range-stream').length <= 3)
  t.ok(asked.filter((operation) => operation === 'range').length > 10)
})

void t.test('a list without values is streamed as well', async (t) => {
  const { upstream, hasStream } = await start(t)
  if (!hasStream) return
  const first = await upstream.read({ prefix, limit: 1 })
  const keys: Key[] = []
  const options = { prefix, startKey: prefix, revision: first.revision, keysOnly: true }
  for await (const part of upstream.stream!({ ...options, signal: AbortSignal.timeout(10_000) })!) {
    for (const { key, value } of part.keyValues) {
      if (value.length > 0) t.fail(`${key} has a value`)
      keys.push(key)
    }
  }
  t.equal(keys.length, KEYS)
})
