/**
 * Tests that each change of state is logged in exactly one line: each change is caused once, and the lines are counted.
 */
import t, { type Test } from 'tap'
import { load } from '../../src/server/config/load.js'
import { keyFromText } from '../../src/engine/model/event.js'
import type { Logger } from '../../src/support/log.js'
import { createEmbeddedUpstream } from '../support/faulty-store.js'
import { UpstreamError } from '../../src/engine/upstream/upstream.js'
import { startApp } from '../support/app.js'
import { pod } from '../support/pod.js'
import { VirtualClock } from '../support/virtual-clock.js'

class Lines implements Logger {
  readonly all: { readonly message: string; readonly fields: object }[] = []
  debug(): void {}
  info = (fields: object, message: string): void => void this.all.push({ fields, message })
  warn = this.info
  error = this.info

  /** How often each message was written since the last call. */
  take(): Record<string, number> {
    const counts: Record<string, number> = {}
    for (const { message } of this.all.splice(0)) counts[message] = (counts[message] ?? 0) + 1
    return counts
  }
}

const prefix = (plural: string) => keyFromText(`/registry/${plural}/`)

async function start(t: Test, prepare: (upstream: ReturnType<typeof createEmbeddedUpstream>) => void = () => {}) {
  const loaded = load([], {}, () => '')
  if (loaded.kind !== 'run') throw new Error('the defaults must run')
  const few = ['pods', 'configmaps', 'customresourcedefinitions']
  const resources = loaded.config.resources.filter(({ resource }) => few.includes(resource.plural))
  const clock = new VirtualClock()
  const upstream = createEmbeddedUpstream({ clock })
  const put = (key: string, value: string | object): void => {
    const text = typeof value === 'string' ? value : JSON.stringify(value)
    upstream.commit([{ type: 'put', key: keyFromText(`/registry/${key}`), value: Buffer.from(text) }])
  }
  put('pods/default/web-0', pod('web-0'))
  put('configmaps/default/a', { kind: 'ConfigMap', apiVersion: 'v1', metadata: { name: 'a', namespace: 'default' } })
  prepare(upstream)
  const logger = new Lines()
  const app = await startApp(t, { upstream, clock, logger, config: { resources }, ready: false })
  /** Advances the server's clock by minutes, in which it retries repeatedly. */
  const pass = async (): Promise<void> => await clock.advanceInTurns(120_000, 250)
  await pass()
  return { app, upstream, logger, put, pass }
}

void t.test('a starting server logs once that it is ready', async (t) => {
  const { logger } = await start(t)
  t.same(logger.take(), { ready: 1 })
})

void t.test(
  'an unreachable upstream is logged once, whatever the number of resources and attempts, and once when it is back',
  async (t) => {
    const { logger, upstream, pass } = await start(t)
    logger.take()
    upstream.setUnavailable(true)
    upstream.cutWatches()
    await pass()
    t.same(logger.take(), { 'upstream is unavailable; serving from the cache': 1 })
    upstream.setUnavailable(false)
    await pass()
    t.same(logger.take(), { 'upstream is back': 1 })
  },
)

void t.test('after a gap each resource logs once that it was relisted, and why', async (t) => {
  const { logger, upstream, put, pass } = await start(t)
  logger.take()
  upstream.setUnavailable(true)
  upstream.cutWatches()
  await pass()
  put('pods/default/web-0', pod('web-0', { status: { phase: 'Failed' } }))
  put('pods/default/web-1', pod('web-1'))
  upstream.compact(upstream.revision)
  upstream.setUnavailable(false)
  await pass()
  const relists = logger.all.filter(({ message }) => message === 'relisted')
  t.same(new Set(relists.map(({ fields }) => (fields as { reason: string }).reason)), new Set(['gap']))
  t.equal(new Set(relists.map(({ fields }) => (fields as { resource: string }).resource)).size, relists.length)
  t.ok(relists.some(({ fields }) => (fields as { resource: string }).resource === 'pods'))
  const { relisted: _, ...rest } = logger.take()
  t.same(rest, { 'upstream is unavailable; serving from the cache': 1, 'upstream is back': 1 })
})

void t.test('another history is logged once for each resource, and so is the new list', async (t) => {
  const { logger, upstream, put, pass } = await start(t)
  const backup = upstream.snapshot()
  put('pods/default/web-1', pod('web-1'))
  await pass()
  logger.take()
  upstream.restore(backup)
  await pass()
  const counts = logger.take()
  t.ok((counts['relisted'] ?? 0) <= 3, 'three resources')
  t.ok((counts['history changed'] ?? 0) <= 3)
  t.ok((counts['history changed'] ?? counts['relisted'] ?? 0) > 0)
  t.same(
    Object.keys(counts).filter((message) => !/relisted|history changed|upstream is/.test(message)),
    [],
  )
})

void t.test(
  'a resource that cannot be listed is logged once, however often that is retried, and once when it can be',
  async (t) => {
    const { logger, upstream, pass } = await start(t, (upstream) =>
      upstream.failReads(new UpstreamError('permission-denied', 'permission denied'), prefix('configmaps')),
    )
    t.same(logger.take(), { 'resource cannot be listed': 1, ready: 1 })
    await pass()
    t.same(logger.take(), {}, 'it is tried every half minute')
    upstream.failReads(null, prefix('configmaps'))
    await pass()
    t.same(logger.take(), { 'resource can be listed now': 1 })
  },
)

void t.test('an unexpected value is logged once for its key', async (t) => {
  const { logger, put, pass } = await start(t)
  logger.take()
  for (const value of ['text', 'other text']) put('configmaps/default/odd', value)
  for (const value of ['k8s\0\xff', 'k8s\0\xff\xff']) put('pods/default/broken', value)
  await pass()
  const counts = logger.take()
  const refusals = Object.entries(counts).filter(([message]) => message.startsWith('resource cannot be served'))
  t.equal(counts['value cannot be served'], 2)
  t.match(refusals, [
    [/neither a JSON object with metadata nor protobuf/, 1],
    [/cannot be read as protobuf/, 1],
  ])
  t.equal(Object.keys(counts).length, 1 + refusals.length)
})

void t.test('a resource with encrypted values is logged once, however many there are', async (t) => {
  const { logger, put, pass } = await start(t)
  logger.take()
  for (const name of ['a', 'b', 'a']) put(`configmaps/default/${name}`, `k8s:enc:aescbc:v1:${name}`)
  await pass()
  const counts = Object.entries(logger.take())
  t.equal(counts.length, 1)
  t.match(counts[0], [/encrypted at rest/, 1])
})

void t.test('watches, lists and rejected requests write no log line', async (t) => {
  const { app, logger, put } = await start(t)
  logger.take()
  for (const path of [
    '/api/v1/pods',
    '/api/v1/pods?resourceVersion=x',
    '/api/v1/nothing',
    '/api/v1/pods?watch=1&timeoutSeconds=1',
  ]) {
    const stop = new AbortController()
    const reply = await fetch(app.url + path, { signal: stop.signal })
    put('pods/default/web-1', pod('web-1', { status: { phase: String(reply.status) } }))
    stop.abort()
  }
  t.same(logger.take(), {})
})
