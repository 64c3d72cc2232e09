/** Spans as a collector receives them, from a server process in front of a real etcd. */
import t from 'tap'
import { load } from '../../src/server/config/load.js'
import { until } from '../support/until.js'
import { startEtcd } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { startFaultProxy } from '../support/fault-proxy.js'
import { startServer } from '../support/server-process.js'
import { builtMain, runToEnd } from './support/server-process.js'
import { type CollectedSpan, startTraceCollector } from './support/trace-collector.js'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const CALLER = 'b7ad6b7169203331'
const UNSAMPLED_TRACE = '1af7651916cd43dd8448eb211c80319c'

/** From these versions on a cache can know etcd's progress, and a consistent read needs no list of etcd. */
const TRUSTS_PROGRESS = /^(3\.4\.(3[1-9]|[4-9]\d)|3\.5\.(1[3-9]|[2-9]\d)|3\.[6-9]|[4-9])/

const etcdVersion = async (url: string): Promise<string> =>
  ((await (await fetch(`${url}/version`)).json()) as { etcdserver: string }).etcdserver

const messages = (log: string): Record<string, number> => {
  const counts: Record<string, number> = {}
  for (const line of log.split('\n').filter((one) => one.startsWith('{'))) {
    const { msg } = JSON.parse(line) as { msg: string }
    counts[msg] = (counts[msg] ?? 0) + 1
  }
  return counts
}

void t.test('lists, upstream lists and relists are traced within the trace of their caller', async (t) => {
  const [etcd, collector] = await Promise.all([startEtcd(t), startTraceCollector(t)])
  const writer = new EtcdWriter([etcd])
  const proxy = await startFaultProxy({ targetPort: Number(new URL(etcd.url).port) })
  t.teardown(() => proxy.close())
  const server = await startServer(t, {
    flags: [
      `--etcd-servers=http://127.0.0.1:${proxy.port}`,
      `--tracing-otlp-endpoint=${collector.url}`,
      '--resource=flags=/config/flags/',
    ],
    environment: { OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment=test' },
  })
  const flags = `${server.url}/apis/distributary.io/v1/flags`
  const named = (name: string): CollectedSpan[] => collector.spans.filter((span) => span.name === name)
  const within = (trace: string): CollectedSpan[] => collector.spans.filter(({ traceId }) => traceId === trace)
  let last = await writer.put('/config/flags/a', 'on')

  await t.test('the first list of each resource is a separate trace', async (t) => {
    const ofFlags = () =>
      named('first list').find(({ attributes }) => attributes['distributary.resource'] === 'flags.distributary.io')
    await until(() => ofFlags() !== undefined, 'its span')
    const span = ofFlags()!
    t.notOk(span.parentSpanId)
    t.match(span.attributes, { 'distributary.reason': 'initial' })
    t.match(span.resource, { 'service.name': 'distributary', 'deployment.environment': 'test' })
    const [read] = named('upstream list').filter(({ parentSpanId }) => parentSpanId === span.spanId)
    t.match(read, { kind: 3, attributes: { 'distributary.prefix': '/config/flags/' } })
  })

  await t.test('a list is a span in its caller’s trace, and the read of etcd is a span of the list', async (t) => {
    const headers = { traceparent: `00-${TRACE}-${CALLER}-01` }
    const reply = await fetch(`${flags}?resourceVersion=${last}&resourceVersionMatch=Exact`, { headers })
    t.equal(reply.status, 200)
    const size = (await reply.arrayBuffer()).byteLength
    await until(() => within(TRACE).some(({ name }) => name === 'list flags'), 'the list')
    const list = within(TRACE).find(({ name }) => name === 'list flags')!
    t.match(list, { parentSpanId: CALLER, kind: 2, failed: false })
    t.match(list.attributes, {
      'http.request.method': 'GET',
      'url.path': '/apis/distributary.io/v1/flags',
      'http.response.status_code': 200,
      'http.response.body.size': size,
      'distributary.read': 'exact',
      'distributary.resource_version': last,
    })
    // A consistent read: with this etcd it is answered by etcd itself, with a newer one by the cache.
    await fetch(flags, { headers: { traceparent: `00-${TRACE}-aaaaaaaaaaaaaaaa-01` } })
    await until(() => within(TRACE).filter(({ name }) => name === 'list flags').length === 2, 'the second')
    const consistent = within(TRACE).find(({ attributes }) => attributes['distributary.read'] === 'consistent')!
    const reads = within(TRACE).filter(({ name }) => name === 'upstream list')
    t.equal(reads.length, TRUSTS_PROGRESS.test(await etcdVersion(etcd.url)) ? 0 : 1)
    for (const read of reads) t.equal(read.parentSpanId, consistent.spanId)
  })

  await t.test('a caller that opted out is not traced, and a failed list is a failed span', async (t) => {
    await fetch(flags, { headers: { traceparent: `00-${UNSAMPLED_TRACE}-${CALLER}-00` } })
    const failed = await fetch(`${flags}?limit=x`)
    t.equal(failed.status, 400)
    const bad = () => named('list flags').find(({ attributes }) => attributes['http.response.status_code'] === 400)
    await until(() => bad() !== undefined, 'the failure')
    t.equal(bad()!.failed, true)
    t.same(within(UNSAMPLED_TRACE), [])
  })

  await t.test('a relist after a gap is a separate trace', async (t) => {
    await proxy.refuse()
    proxy.cut()
    for (const value of ['off', 'on', 'off']) last = await writer.put('/config/flags/a', value)
    await etcd.compact(last)
    await proxy.accept()
    const ofFlags = () =>
      named('relist').find(({ attributes }) => attributes['distributary.resource'] === 'flags.distributary.io')
    await until(() => ofFlags() !== undefined, 'its span', 30_000)
    t.notOk(ofFlags()!.parentSpanId)
    t.match(ofFlags()!.attributes, { 'distributary.reason': 'gap' })
  })

  await t.test('an unreachable collector is logged once, and once when it is back', async (t) => {
    collector.status = 400
    const before = collector.requests
    await fetch(flags)
    await until(() => collector.requests > before, 'a refused batch')
    await fetch(flags)
    await until(() => collector.requests > before + 1, 'and another')
    collector.status = 200
    await until(async () => {
      await fetch(flags)
      return messages(server.log())['traces are exported again'] !== undefined
    }, 'it is noticed')
    t.match(messages(server.log()), { 'traces cannot be exported': 1, 'traces are exported again': 1 })
  })

  await t.test('queued spans are sent before the process ends, and each change of state was logged once', async (t) => {
    const trace = '2af7651916cd43dd8448eb211c80319c'
    await fetch(flags, { headers: { traceparent: `00-${trace}-${CALLER}-01` } })
    t.equal(await server.kill('SIGTERM'), 0)
    t.ok(within(trace).some(({ name }) => name === 'list flags'))
    t.match(messages(server.log()), { serving: 1, ready: 1, draining: 1, stopped: 1 })
  })
})

void t.test('an endpoint that is not a URL is rejected', async (t) => {
  const start = (endpoint: string) => load([`--tracing-otlp-endpoint=${endpoint}`], {}, () => '')
  for (const endpoint of ['127.0.0.1:4318', 'http://a?b', 'http://user@a', 'ftp://a', 'http://a/']) {
    t.throws(() => start(endpoint), /base address of a collector/, endpoint)
  }
  for (const endpoint of ['http://a:4318', 'https://a/otlp']) t.equal(start(endpoint).kind, 'run', endpoint)
})

void t.test('without the optional packages the server says what to install', async (t) => {
  const hook = `export function resolve(name, context, next) {
    if (name === '@opentelemetry/sdk-trace') throw new Error('not installed')
    return next(name, context)
  }`
  const register = `import { register } from 'node:module'
    register(${JSON.stringify(`data:text/javascript,${encodeURIComponent(hook)}`)})`
  const { code, output } = await runToEnd(
    [process.execPath, builtMain, '--port=0', '--tracing-otlp-endpoint=http://127.0.0.1:4318'],
    { environment: { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(register)}` } },
  )
  t.equal(code, 2, output)
  t.match(output, /npm install @opentelemetry\/sdk-trace/)
})
