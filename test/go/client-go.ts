/**
 * client-go's own reflector over the server and a real etcd, with its inconsistency detector on: after the initial events of
 * a WatchList it asks for an exact list and panics on any difference. So that the judge is not judged by itself, that
 * list is read from etcd here, past the server. Not part of `npm test`: it needs Go, and the modules that go.mod names.
 */
import { execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { keyFromText } from '../../src/model/event.js'
import { toRevision } from '../../src/model/revision.js'
import { silentLogger } from '../../src/support/log.js'
import { connectEtcd } from '../../src/upstream/etcd/etcd-upstream.js'
import type { Upstream } from '../../src/upstream/upstream.js'
import { pod, startApp, until } from '../support/app.js'
import { startEtcd } from '../support/etcd-process.js'

const KINDS: Readonly<Record<string, string>> = { pods: 'PodList', configmaps: 'ConfigMapList' }

interface StoredJson {
  readonly kind: string
  readonly apiVersion: string
  readonly metadata: Readonly<Record<string, unknown>>
}

/** Everything goes to the server, but for exact lists. */
async function startJudge(t: Test, server: string, etcd: Upstream) {
  const judge = { url: '', lists: 0 }
  const proxy = createServer((incoming, outgoing) => {
    const url = new URL(incoming.url ?? '/', server)
    if (url.searchParams.get('resourceVersionMatch') !== 'Exact') {
      const onward = request(url, { method: incoming.method, headers: incoming.headers }, (answer) => {
        outgoing.writeHead(answer.statusCode ?? 502, answer.headers)
        answer.pipe(outgoing)
      })
      onward.on('error', () => outgoing.destroy())
      outgoing.on('close', () => onward.destroy())
      onward.end()
      return
    }
    const plural = url.pathname.split('/').at(-1)!
    const revision = toRevision(Number(url.searchParams.get('resourceVersion')))
    void etcd.read({ prefix: keyFromText(`/registry/${plural}/`), revision }).then(({ keyValues }) => {
      judge.lists++
      const items = keyValues.map(({ value, modRevision }) => {
        // The items of a typed list go without kind and apiVersion, as the API server writes them.
        const { kind: _k, apiVersion: _v, ...object } = JSON.parse(value.toString()) as StoredJson
        return { ...object, metadata: { ...object.metadata, resourceVersion: String(modRevision) } }
      })
      outgoing.setHeader('content-type', 'application/json')
      outgoing.end(
        JSON.stringify({
          kind: KINDS[plural],
          apiVersion: 'v1',
          metadata: { resourceVersion: String(revision) },
          items,
        }),
      )
    })
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    proxy.closeAllConnections()
    proxy.close()
  })
  judge.url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`
  return judge
}

void t.test('a client-go reflector finds no inconsistency while thousands of writes go on', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'reflector-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const program = join(directory, 'reflector')
  const source = fileURLToPath(new URL('../../../test/go/', import.meta.url))
  execFileSync('go', ['build', '-o', program, '.'], { cwd: source, stdio: ['ignore', 'inherit', 'inherit'] })

  const etcd = await startEtcd(t)
  const writer = connectEtcd({ endpoints: [etcd.url], logger: silentLogger })
  t.teardown(() => writer.close())
  const put = (key: string, object: object | null) =>
    writer.write(
      [],
      [
        object === null
          ? { type: 'delete', key: keyFromText(`/registry/${key}`) }
          : { type: 'put', key: keyFromText(`/registry/${key}`), value: Buffer.from(JSON.stringify(object)) },
      ],
    )
  const turn = (name: string, label: string) => put(`pods/default/${name}`, pod(name, { labels: { turn: label } }))
  for (let i = 0; i < 200; i++) await turn(`p${i}`, 'first')
  await put('configmaps/default/c', {
    kind: 'ConfigMap',
    apiVersion: 'v1',
    metadata: { name: 'c', namespace: 'default', uid: 'c' },
    data: { a: 'b' },
  })
  const h = await startApp(t, { upstream: connectEtcd({ endpoints: [etcd.url], logger: silentLogger }) })
  const judge = await startJudge(t, h.url, writer)

  const reflectors = [1, 2, 3].map(() => {
    const child = spawn(program, [judge.url], {
      env: { ...process.env, KUBE_WATCHLIST_INCONSISTENCY_DETECTOR: 'true' },
      stdio: ['pipe', 'pipe', 'pipe'],
    })
    t.teardown(() => child.kill('SIGKILL'))
    const seen = { out: '', err: '', code: null as number | null }
    child.stdout.on('data', (text: Buffer) => (seen.out += text.toString()))
    child.stderr.on('data', (text: Buffer) => (seen.err += text.toString()))
    child.on('exit', (code) => (seen.code = code ?? -1))
    return { child, seen }
  })
  const allSay = (text: string) => (): boolean => {
    for (const { seen } of reflectors)
      if (seen.code !== null) throw new Error(`the reflector ended: ${seen.err.slice(0, 1_500)}`)
    return reflectors.every(({ seen }) => seen.out.includes(text))
  }
  // Writes begin before they have synced, so that the initial state is one of a moving store.
  for (let i = 0; i < 2_000; i++) await turn(`p${i % 300}`, String(i))
  await until(allSay('synced'), 'all have synced', 60_000)
  for (let i = 200; i < 300; i++) await put(`pods/default/p${i}`, null)
  for (let i = 0; i < 200; i++) await turn(`p${i}`, 'last')
  await until(allSay('pods=200 last=200'), 'all hold the last state', 60_000)
  t.ok(judge.lists >= 6, `${judge.lists} exact lists were compared`)
  for (const { child, seen } of reflectors) {
    t.notMatch(seen.err, /panic|inconsisten/i)
    child.stdin.end()
  }
  await until(() => reflectors.every(({ seen }) => seen.code === 0), 'they end well', 20_000)
})
