/** Failures of distributary's own process: killed, stopped under load, out of file descriptors. */
import { execFileSync, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { assertGuarantees } from '../guarantees/validate.js'
import { pod } from '../support/pod.js'
import { pause, until } from '../support/until.js'
import { endsWithUs } from '../support/ends-with-us.js'
import { recordEtcdHistory } from '../support/etcd-history.js'
import { startEtcd } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { startFaultProxy } from '../support/fault-proxy.js'
import { freePort } from '../support/free-port.js'
import { LightWatcher } from '../support/light-watcher.js'
import { only } from '../support/only.js'
import { programFile, serverRuntime } from '../support/program.js'
import { startServer, total } from '../support/server-process.js'
import { WatchRecorder } from '../support/watch-recorder.js'
import { pods } from './scenario.js'

const WATCHERS = 1_000

void t.test(
  `after kill -9 under load, ${WATCHERS} watchers reconnect and resume where they were, and none relists`,
  async (t) => {
    const etcd = await startEtcd(t)
    const control = await recordEtcdHistory(t, etcd)
    const writer = new EtcdWriter([etcd])
    const start = await writer.put('/registry/pods/a/first', pod('first', { namespace: 'a' }))
    const flags = [...only('pods'), '--etcd-servers', etcd.url, '--port', String(await freePort())]
    const first = await startServer(t, { flags })
    const watch = (url: string, revision: number): LightWatcher =>
      new LightWatcher(`${url}/api/v1/pods?watch=1&resourceVersion=${revision}`)
    const before = Array.from({ length: WATCHERS }, () => watch(first.url, start))
    t.teardown(() => before.forEach((watcher) => watcher.destroy()))
    await Promise.all(before.map((watcher) => watcher.until(({ status }) => status === 200)))
    const writing = { isOn: true }
    // A failed test must not keep writing until its file times out.
    t.teardown(() => {
      writing.isOn = false
    })
    const load = (async () => {
      for (let i = 0; writing.isOn; i++, await pause(10)) {
        await writer.put(`/registry/pods/a/p${i % 50}`, pod(`p${i % 50}`, { namespace: 'a' }))
      }
    })()
    await Promise.all(before.map((watcher) => watcher.until(({ revisions }) => revisions.length > 30)))
    await first.kill('SIGKILL')
    await until(() => before.every(({ end }) => end !== 'open'), 'all connections are broken')

    const second = await startServer(t, { flags })
    const after = before.map(({ revisions }) => watch(second.url, revisions.at(-1)!))
    t.teardown(() => after.forEach((watcher) => watcher.destroy()))
    const recorder = new WatchRecorder({ url: second.url })
    t.teardown(() => recorder.close())
    // Resumes from an earlier watcher's position, and returns what it would have recorded.
    for (const { revisions } of before.slice(0, 10)) {
      recorder.watch({ target: pods, resourceVersion: String(revisions.at(-1)) })
    }
    await Promise.all(after.map((watcher) => watcher.until(({ revisions }) => revisions.length > 30)))
    writing.isOn = false
    await load
    const last = await writer.put('/registry/pods/a/last', pod('last', { namespace: 'a' }))
    await Promise.all(after.map((watcher) => watcher.until(({ revisions }) => revisions.at(-1) === last)))
    await Promise.all(recorder.watches.map((watch) => watch.untilRevision(last)))

    const reference = await control.finish()
    const expected = reference.batches.map(({ revision }) => revision).filter((r) => r > start && r <= last)
    const wrong = before.filter(({ revisions }, i) => [...revisions, ...after[i]!.revisions].join() !== expected.join())
    t.equal(wrong.length, 0, 'before and after together: every event once, in order')
    t.notOk(
      after.some(({ error }) => error !== ''),
      'relists: 0',
    )
    t.equal(total(await second.metrics(), 'distributary_list_bytes_count'), 0, 'the server answered no list')
    assertGuarantees(t, recorder.history(writer.writes), reference, { settledRevision: last })
  },
)

void t.test('SIGTERM under load ends every stream at the end of an event, with everything sent complete', async (t) => {
  const etcd = await startEtcd(t)
  const control = await recordEtcdHistory(t, etcd)
  const writer = new EtcdWriter([etcd])
  const start = await writer.put('/registry/pods/a/first', pod('first', { namespace: 'a' }))
  const server = await startServer(t, {
    flags: [...only('pods'), '--etcd-servers', etcd.url, '--shutdown-watch-termination-grace-period', '500ms'],
  })
  const recorder = new WatchRecorder({ url: server.url })
  t.teardown(() => recorder.close())
  for (let i = 0; i < 50; i++) {
    recorder.watch(
      i % 2 === 0 ? { target: pods, resourceVersion: String(start) } : { target: pods, sendInitialEvents: true },
    )
  }
  const writing = { isOn: true }
  // A failed test must not keep writing until its file times out.
  t.teardown(() => {
    writing.isOn = false
  })
  const load = (async () => {
    for (let i = 0; writing.isOn; i++) {
      await writer.commit({
        [`/registry/pods/a/p${i % 9}`]: pod(`p${i % 9}`, { namespace: 'a', labels: { i: String(i) } }),
        [`/registry/pods/b/p${i % 7}`]:
          i % 5 === 0 ? null : pod(`p${i % 7}`, { namespace: 'b', labels: { i: String(i) } }),
      })
    }
  })()
  await Promise.all(recorder.watches.map((watch) => watch.until(({ items }) => items.length > 40)))
  const code = await server.kill('SIGTERM')
  writing.isOn = false
  await load
  t.equal(code, 0)
  await Promise.all(recorder.watches.map((watch) => watch.ended))
  t.same([...new Set(recorder.watches.map(({ end }) => end))], ['eof'])
  assertGuarantees(t, recorder.history(writer.writes), await control.finish())
})

void t.test(
  'a crowd that would take every file descriptor is refused visibly; watchers continue, and etcd is reached again',
  async (t) => {
    const etcd = await startEtcd(t)
    const control = await recordEtcdHistory(t, etcd)
    const writer = new EtcdWriter([etcd])
    const start = await writer.put('/registry/pods/a/first', pod('first', { namespace: 'a' }))
    const proxy = await startFaultProxy({ targetPort: Number(new URL(etcd.url).port) })
    t.teardown(() => proxy.close())
    const server = await startServer(t, {
      flags: [...only('pods'), '--etcd-servers', `http://127.0.0.1:${proxy.port}`],
      // Node needs fewer descriptors than this to load all modules at once.
      limits: 'ulimit -n 500',
    })
    const recorder = new WatchRecorder({ url: server.url })
    t.teardown(() => recorder.close())
    for (let i = 0; i < 10; i++) recorder.watch({ target: pods, resourceVersion: String(start) })
    const second = await writer.put('/registry/pods/a/second', pod('second', { namespace: 'a' }))
    await Promise.all(recorder.watches.map((watch) => watch.untilRevision(second)))

    const crowd: Socket[] = []
    t.teardown(() => crowd.forEach((socket) => socket.destroy()))
    for (let i = 0; i < 800; i++) {
      const socket = connect(server.port, '127.0.0.1')
      socket.on('error', () => {})
      socket.write('GET /api/v1/pods?watch=1&resourceVersion=1 HTTP/1.1\r\nHost: localhost\r\n\r\n')
      crowd.push(socket)
    }
    const refused = (): number => crowd.filter(({ closed }) => closed).length
    await until(
      () => refused() > 300,
      () => `${refused()} of ${crowd.length} were refused`,
    )
    const third = await writer.put('/registry/pods/a/third', pod('third', { namespace: 'a' }))
    await Promise.all(recorder.watches.map((watch) => watch.untilRevision(third)))
    // The connection to etcd breaks while clients take every descriptor that is not reserved.
    proxy.cut()
    const next = await writer.put('/registry/pods/a/next', pod('next', { namespace: 'a' }))
    await Promise.all(recorder.watches.map((watch) => watch.untilRevision(next)))
    for (const socket of crowd) socket.destroy()
    await until(async () => {
      const metrics = await server.metrics().catch(() => new Map<string, number>())
      return (metrics.get('distributary_http_rejected_total{limit="descriptors"}') ?? 0) > 300
    }, 'the refused connections are counted')
    t.equal(server.log().match(/connections are refused, because too few file descriptors/g)?.length, 1)
    const last = await writer.put('/registry/pods/a/last', pod('last', { namespace: 'a' }))
    await Promise.all(recorder.watches.map((watch) => watch.untilRevision(last)))
    const late = recorder.watch({ target: pods, sendInitialEvents: true })
    await late.until(({ items }) => items.some(({ type }) => type === 'BOOKMARK'))
    t.same([...new Set(recorder.watches.map(({ end }) => end))], ['open'])
    assertGuarantees(t, recorder.history(writer.writes), await control.finish(), { settledRevision: last })
  },
)

void t.test('a disk that fills in the middle of a line of the audit log glues no other line to it', async (t) => {
  const file = join(t.testdir(), 'audit.jsonl')
  // The limit on the size of files stands in for the disk. It tears a line, too.
  const server = await startServer(t, {
    flags: [`--audit-log-path=${file}`],
    limits: "trap '' XFSZ; ulimit -S -f 3",
  })
  const logged = (message: string) =>
    server
      .log()
      .split('\n')
      .find((line) => line.includes(message))
  const ask = async (): Promise<void> => void (await (await fetch(`${server.url}/api/v1/pods?limit=1`)).arrayBuffer())
  await until(async () => {
    await ask()
    return logged('the audit log cannot be written') !== undefined
  }, 'the disk is full')
  for (let i = 0; i < 3; i++) await ask()
  const before = readFileSync(file, 'utf8')
  execFileSync('prlimit', ['--pid', String(server.pid), '--fsize=unlimited:'])
  await until(async () => {
    await ask()
    return logged('the audit log can be written again') !== undefined
  }, 'there is room again')
  const { dropped } = JSON.parse(logged('the audit log can be written again')!) as { dropped: number }
  t.ok(dropped >= 4, `${dropped} dropped`)
  const after = readFileSync(file, 'utf8')
  t.ok(after.startsWith(before))
  const rest = after.slice(before.length)
  // The limit may also be at the end of a line.
  t.ok(before.endsWith('\n') || rest.startsWith('\n'), 'the torn line is ended')
  const lines = rest.trim().split('\n')
  t.match(JSON.parse(lines[0]!), { dropped }, 'the number is in the file too')
  for (const line of [...before.split('\n').slice(0, -1), ...lines]) t.doesNotThrow(() => void JSON.parse(line), line)
})

for (const format of ['json', 'text']) {
  void t.test(`a full disk under its output costs log lines, and does not end it (${format})`, async (t) => {
    const port = await freePort()
    const flags = [`--port=${port}`, '--audit-log-path=-', `--log-format=${format}`, '--log-level=debug']
    const line = ['-c', 'exec "$@" >/dev/full 2>/dev/full', 'sh', serverRuntime(), programFile('main'), ...flags]
    const child = spawn('/bin/sh', line, { stdio: 'ignore', env: { ...process.env, NODE_OPTIONS: '' } })
    endsWithUs(child)
    t.teardown(() => child.kill('SIGKILL'))
    const pods = async (): Promise<number> => (await fetch(`http://127.0.0.1:${port}/api/v1/pods`)).status
    await until(async () => child.exitCode !== null || (await pods()) === 200, 'it serves')
    for (let i = 0; i < 20; i++) t.equal(await pods().catch(String), 200)
    t.equal(child.exitCode, null, 'it runs')
  })
}
