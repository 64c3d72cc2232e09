import http from 'node:http'
import t from 'tap'
import { type Key, keyFromText } from '../../src/engine/model/event.js'
import { toRevision } from '../../src/engine/model/revision.js'
import { ordered } from '../guarantees/ordered.js'
import { reliable } from '../guarantees/reliable.js'
import { unique } from '../guarantees/unique.js'
import { recordEtcdHistory } from './etcd-history.js'
import { type EtcdProcess, startEtcd } from './etcd-process.js'
import { EtcdWriter } from './etcd-writer.js'
import { LineSplitter } from './json-lines.js'
import { until } from './until.js'
import type { ReferenceHistory, Scope } from './history.js'

const scope: Scope = { prefix: keyFromText('/registry/pods/') }
const base64 = (text: string): string => Buffer.from(text).toString('base64')

async function put(etcd: EtcdProcess, name: string, value: number): Promise<number> {
  const body = { key: base64(`/registry/pods/${name}`), value: base64(JSON.stringify({ value })) }
  const { header } = (await etcd.call('kv/put', body)) as { header: { revision: string } }
  return Number(header.revision)
}

function lines(reference: ReferenceHistory, after = 0): string[] {
  return reference
    .expectedEvents(scope, toRevision(after), reference.revision)
    .map(({ type, id, revision }) => `${type} ${id}@${revision}`)
}

void t.test(
  'the history of a running etcd is recorded through compactions, restarts and many keys at once',
  async (t) => {
    const etcd = await startEtcd(t)
    const recorder = await recordEtcdHistory(t, etcd)
    const first = await put(etcd, 'a/x', 1)
    await put(etcd, 'a/x', 2)
    const names = Array.from({ length: 100 }, (_, i) => `b/${String(i).padStart(3, '0')}`)
    await etcd.call('kv/txn', {
      success: names.map((name) => ({ request_put: { key: base64(`/registry/pods/${name}`), value: base64('{}') } })),
    })
    await etcd.call('kv/deleterange', { key: base64('/registry/pods/a/x') })
    await put(etcd, 'c/z', 5)
    await until(() => recorder.revision >= first + 4, 'everything is received')
    await etcd.compact(first + 3)
    await etcd.kill()
    await etcd.restart()
    const last = await put(etcd, 'c/z', 6)
    const reference = await recorder.finish()
    t.same(lines(reference), [
      `ADDED a/x@${first}`,
      `MODIFIED a/x@${first + 1}`,
      ...names.map((name) => `ADDED ${name}@${first + 2}`),
      `DELETED a/x@${first + 3}`,
      `ADDED c/z@${first + 4}`,
      `MODIFIED c/z@${last}`,
    ])
    t.equal(reference.stateAt(scope, toRevision(last)).size, 101)

    const control = { watches: [recorder.control(scope.prefix)], lists: [], writes: [] }
    t.equal(control.watches[0]?.items.length, 105)
    t.same([...ordered(control, reference), ...unique(control)], [])

    const late = await recordEtcdHistory(t, etcd)
    const rest = await late.finish()
    t.same(lines(rest), [`ADDED c/z@${first + 4}`, `MODIFIED c/z@${last}`], 'begun late, it has what is left')
    t.same(
      [...rest.stateAt(scope, toRevision(last))],
      [...reference.stateAt(scope, toRevision(last))],
      'and the state that was there',
    )
    await t.rejects(recordEtcdHistory(t, etcd, toRevision(first)), { message: /compacted/ })
    t.equal(
      rest.batches.some(({ changes }) => changes.some(({ key }) => key === ('/registry/pods/a/x' as Key))),
      false,
    )
  },
)

void t.test('events that etcd’s own watch lost are known from the revisions that etcd committed', async (t) => {
  const etcd = await startEtcd(t)
  const lossy = http.createServer((request, response) => {
    const upstream = http.request(`${etcd.url}${request.url}`, { method: 'POST' }, (answer) => {
      response.writeHead(answer.statusCode ?? 500)
      const lines = new LineSplitter((line) => {
        if (!line.includes(base64('{"n":3}'))) response.write(`${line}\n`)
      })
      answer.on('data', (chunk: Buffer) => lines.push(chunk))
      answer.on('error', () => {})
    })
    upstream.on('error', () => {})
    response.on('close', () => upstream.destroy())
    request.pipe(upstream)
  })
  await new Promise<void>((resolve) => lossy.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    lossy.closeAllConnections()
    lossy.close()
  })
  const url = `http://127.0.0.1:${(lossy.address() as { port: number }).port}`
  const recorder = await recordEtcdHistory(t, { url, call: (path, body) => etcd.call(path, body) })
  const writer = new EtcdWriter([etcd])
  const revisions: number[] = []
  // One at a time, so that each gets its own line.
  for (let n = 0; n < 6; n++) {
    const revision = await writer.put(`/registry/pods/a/${n}`, { n })
    revisions.push(revision)
    for (let i = 0; i < 200 && n !== 3 && recorder.revision < revision; i++) {
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
  }
  await writer.commit({ '/registry/pods/a/none': null })
  const reference = await recorder.finish(writer.commits)
  t.same(
    lines(reference),
    revisions.map((revision, n) => `ADDED a/${n}@${revision}`),
  )
  const control = { watches: [recorder.control(scope.prefix)], lists: [], writes: [] }
  t.match(reliable(control, reference), [{ name: 'not reliable', missing: revisions[3] }])
})

void t.test('a recorder ends with its test', async (t) => {
  const etcd = await startEtcd(t)
  const watchers = async (): Promise<number> => (await etcd.metrics()).get('etcd_debugging_mvcc_watcher_total') ?? -1
  await t.test('that does not finish it', async (t) => {
    await recordEtcdHistory(t, etcd)
    t.equal(await watchers(), 1)
  })
  await until(async () => (await watchers()) === 0, 'etcd has no watcher left')
})
