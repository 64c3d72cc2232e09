/**
 * Objects that the API server has encrypted in etcd (`npm run judge -- encryption --record`), served in every
 * arrangement of processes: each of them opens what it serves, and what lies between them (NATS) has values as they are
 * stored.
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { keyFromText } from '../../src/engine/model/event.js'
import { parseEncryptionConfiguration } from '../../src/kubernetes/encryption/configuration.js'
import { EncryptionAtRest } from '../../src/kubernetes/encryption/encryption-at-rest.js'
import { systemClock } from '../../src/support/clock.js'
import { recordedKeys } from '../kubernetes/encryption/support/recorded-keys.js'
import { startKmsPlugin } from '../kubernetes/encryption/support/kms-plugin.js'
import { configuration, identity, phases, provider } from '../reference/encryption/configurations.js'
import { type EtcdProcess, startEtcd } from '../support/etcd-process.js'
import { startNats } from '../support/nats-process.js'
import { type ServerProcess, startServer } from '../support/server-process.js'
import { firstFigures } from '../support/status-page.js'
import { until } from '../support/until.js'

const data = new URL('../../../test/data/kube-apiserver-1.37/encrypted.json', import.meta.url)
const recorded = JSON.parse(readFileSync(data, 'utf8')) as {
  readonly values: readonly { readonly key: string; readonly value: string }[]
  readonly lists: Readonly<Record<string, List>>
}
const MARKER = 'plaintext-that-must-not-leak'
const SECRETS = '/api/v1/secrets'

/** A text that is only in encrypted Secrets. */
const HIDDEN = 'only-for-those-who-may-read-this-secret'

interface List {
  readonly items: readonly { readonly metadata: { readonly name: string; readonly resourceVersion: string } }[]
}

interface Stage {
  readonly etcd: EtcdProcess
  readonly file: string
  readonly put: (key: string, value: Buffer) => Promise<void>
}

async function setUp(t: Test, text: (socket: string) => string): Promise<Stage & { readonly folder: string }> {
  const folder = mkdtempSync(join(tmpdir(), 'encryption-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const socket = join(folder, 'kms.sock')
  await startKmsPlugin(t, socket)
  const file = join(folder, 'encryption.yaml')
  writeFileSync(file, text(socket))
  const etcd = await startEtcd(t)
  const put = async (key: string, value: Buffer): Promise<void> =>
    void (await etcd.call('kv/put', { key: Buffer.from(key).toString('base64'), value: value.toString('base64') }))
  return { etcd, file, put, folder }
}

async function get(
  server: ServerProcess,
  path: string,
): Promise<{ code: number; body: Record<string, unknown> & List }> {
  const response = await fetch(`${server.url}${path}`)
  return { code: response.status, body: (await response.json()) as Record<string, unknown> & List }
}

/** Returns the objects without their revisions, which are those of the etcd that was recorded. */
function contentOf({ items }: List): unknown {
  return items
    .filter(({ metadata }) => metadata.name.startsWith('of-phase-'))
    .map(({ metadata: { resourceVersion: _revision, ...metadata }, ...rest }) => ({ ...rest, metadata }))
}

void t.test(
  'every arrangement of processes serves what the API server has encrypted, and NATS never has it in plain',
  async (t) => {
    const { etcd, file, put, folder } = await setUp(t, (socket) => phases(socket).at(-1)!.text)
    for (const { key, value } of recorded.values) await put(key, Buffer.from(value, 'base64'))
    await put('/registry/secrets/new/hidden', await sealed('/registry/secrets/new/hidden'))
    const nats = await startNats(t)
    const shared = ['--resource=secrets', `--encryption-provider-config=${file}`]
    const overNats = [`--nats-servers=${nats.url}`, '--nats-cluster=sealed', '--nats-stream-bytes=8MiB']
    const fromEtcd = `--etcd-servers=${etcd.url}`
    const inOther = ['/secrets', '/configmaps', 'apps/deployments', 'coordination.k8s.io/leases']
    const overrides = inOther.map((name) => `--etcd-servers-overrides=${name}#${etcd.url}`)
    const fromOther = [`--etcd-servers=${(await startEtcd(t)).url}`, ...overrides]
    const servers = {
      'one process': await startServer(t, { flags: [...shared, fromEtcd] }),
      workers: await startServer(t, { flags: [...shared, fromEtcd, '--workers=2'] }),
      'a candidate of a fleet': await startServer(t, { flags: [...shared, fromEtcd, ...overNats] }),
      'an edge of a fleet': await startServer(t, { flags: [...shared, ...overNats, '--nats-role=edge'] }),
      'nothing cached': await startServer(t, { flags: [...shared, fromEtcd, '--watch-cache=false'] }),
      'another etcd': await startServer(t, { flags: [...shared, ...fromOther] }),
      'another etcd, nothing cached': await startServer(t, { flags: [...shared, ...fromOther, '--watch-cache=false'] }),
    }
    for (const [name, server] of Object.entries(servers)) {
      for (const [path, list] of Object.entries(recorded.lists)) {
        await until(async () => (await get(server, path)).code === 200, `${name}: ${path}`)
        t.strictSame(contentOf((await get(server, path)).body), contentOf(list), `${name}: ${path}`)
        const { body } = await get(server, `${path}/of-phase-0`)
        const { kind: _kind, apiVersion: _version, ...one } = body
        const listed = list.items.filter(({ metadata }) => metadata.name === 'of-phase-0')
        t.strictSame(contentOf({ items: [one as never] }), contentOf({ items: listed }), `${name}: ${path}/of-phase-0`)
      }
      const past = `${SECRETS}?resourceVersionMatch=Exact&resourceVersion=${afterWrites(recorded.values.length)}`
      t.equal((await get(server, past)).body.items.length, 3, `${name}: a past state`)
      const { body } = await get(server, '/api/v1/namespaces/new/secrets/hidden')
      t.strictSame(body['data'], { a: base64(HIDDEN) }, `${name}: a Secret`)
      const plain = [MARKER, HIDDEN, base64(MARKER).slice(0, 30), base64(HIDDEN).slice(0, 30)]
      const metrics = await (await fetch(`${server.url}/metrics`)).text()
      const status = await firstFigures(server.url)
      t.match(metrics, 'distributary_build_info', name)
      for (const text of plain) {
        t.notOk(server.log().includes(text), `${name}: the log`)
        t.notOk(metrics.includes(text), `${name}: the metrics`)
        t.notOk(status.includes(text), `${name}: the status`)
      }
    }
    const positionOf = async (server: ServerProcess): Promise<string | null> => {
      const answer = await fetch(`${server.url}${SECRETS}?history=`)
      await answer.arrayBuffer()
      return answer.headers.get('x-distributary-position')
    }
    const position = await positionOf(servers['one process'])
    t.match(position, /^\d+\.[\w-]{43}$/)
    for (const name of ['workers', 'a candidate of a fleet', 'an edge of a fleet', 'another etcd'] as const) {
      await until(async () => (await positionOf(servers[name])) === position, `${name} has the same position`)
    }
    const keys = [...readFileSync(file, 'utf8').matchAll(/"?secret"?: *"?([A-Za-z0-9+/=]+)/g)].map(([, key]) => key!)
    t.ok(keys.length > 0)
    const copy = join(folder, 'nats')
    await nats.saveData(copy)
    const holds = (text: string): boolean => spawnSync('grep', ['-rqaF', text, copy]).status === 0
    t.ok(holds('/registry/secrets/old/of-phase-0'), 'the stream has the values')
    t.notOk(holds(HIDDEN), 'and none in plain')
    t.notOk(holds(base64(HIDDEN).slice(0, 30)), 'nor in base64')
    for (const key of keys) {
      t.notOk(holds(key), 'and no key')
      for (const [name, server] of Object.entries(servers)) {
        const metrics = await (await fetch(`${server.url}/metrics`)).text()
        const shown = [server.log(), metrics, await firstFigures(server.url)]
        t.notOk(
          shown.some((text) => text.includes(key)),
          `${name} shows no key`,
        )
      }
    }
  },
)

/** Returns a Secret, encrypted with an encryption key that the configuration has. */
async function sealed(key: string): Promise<Buffer> {
  const data = { a: base64(HIDDEN) }
  return await sealedObject(key, {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: 'hidden', namespace: 'new' },
    data,
  })
}

/** Encrypts an object with the encryption key `two`. @param key of the object in etcd. */
async function sealedObject(key: string, object: object): Promise<Buffer> {
  const text = configuration([[['*.*'], provider('aescbc', 'two')]])
  const atRest = new EncryptionAtRest({
    configuration: parseEncryptionConfiguration(Buffer.from(text)),
    openKeyService: () => recordedKeys(),
    clock: systemClock,
  })
  return await atRest
    .transformOf({ group: '', plural: 'secrets' })
    .seal(keyFromText(key), Buffer.from(JSON.stringify(object)))
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64')
}

/** Returns the revision after so many writes; etcd begins at 1. */
function afterWrites(writes: number): number {
  return writes + 1
}

void t.test('secrets are served only where they are named, whatever is decrypted', async (t) => {
  const { etcd, file } = await setUp(t, () => configuration([[['*.*'], identity]]))
  const server = await startServer(t, { flags: [`--etcd-servers=${etcd.url}`, `--encryption-provider-config=${file}`] })
  t.equal((await get(server, SECRETS)).code, 404)
})

const ONE = configuration([[['secrets'], provider('aescbc', 'one'), identity]])
const TWO = configuration([[['secrets'], provider('aescbc', 'two'), identity]])
const secret = (name: string, namespace: string): Buffer =>
  Buffer.from(JSON.stringify({ apiVersion: 'v1', kind: 'Secret', metadata: { name, namespace }, data: {} }))

void t.test(
  'a value that no key can decrypt fails the requests that would show it, and no others, until the key is back',
  async (t) => {
    const { etcd, file, put } = await setUp(t, () => ONE)
    const flags = ['--resource=secrets', `--etcd-servers=${etcd.url}`, `--encryption-provider-config=${file}`]
    const server = await startServer(t, { flags: [...flags, '--enable-writes'] })
    for (const namespace of ['a', 'b']) {
      const namespaced = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } }
      await put(`/registry/namespaces/${namespace}`, Buffer.from(JSON.stringify(namespaced)))
      await put(`/registry/secrets/${namespace}/plain`, secret('plain', namespace))
    }
    await until(
      async () =>
        (await (await fetch(`${server.url}/api/v1/namespaces/a`)).json().then((o) => (o as { kind: string }).kind)) ===
        'Namespace',
      'the namespaces are there',
    )
    const posted = await fetch(`${server.url}/api/v1/namespaces/a/secrets`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: secret('sealed', 'a'),
    })
    t.equal(posted.status, 201)
    const { kvs } = (await etcd.call('kv/range', {
      key: Buffer.from('/registry/secrets/a/sealed').toString('base64'),
    })) as {
      kvs: { value: string }[]
    }
    const value = Buffer.from(kvs[0]!.value, 'base64')
    t.match(value.toString('latin1'), /^k8s:enc:aescbc:v1:one:/, 'we write with the first provider')

    const events: { type: string; object: { code?: number; message?: string } }[] = []
    const response = await fetch(`${server.url}${SECRETS}?watch=1`)
    const watching = (async () => {
      let rest = ''
      for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
        const lines = (rest + chunk).split('\n')
        rest = lines.pop() ?? ''
        events.push(...lines.map((line) => JSON.parse(line) as (typeof events)[number]))
      }
    })()
    await until(() => events.length === 3, 'the watch has what there is')
    const hasReread = (times: number): boolean => server.log().split('a changed file was read').length > times
    writeFileSync(file, TWO)
    await until(() => hasReread(1), 'the other key is in force')
    await put('/registry/secrets/a/sealed', value)
    await watching
    t.match(events.slice(3), [{ type: 'ERROR', object: { code: 500, reason: 'StorageReadError' } }], 'no DELETED')
    const namesKey = (text: unknown): boolean => JSON.stringify(text).includes('/registry/secrets/a/sealed')
    t.notOk(namesKey(events.slice(3)), 'a watch of another namespace ends with the same event')

    const sealed = /Key: \/registry\/secrets\/a\/sealed.*no matching key was found for the provided AES transformer/
    t.match(await get(server, SECRETS), { code: 500, body: { message: sealed, reason: 'StorageReadError' } })
    t.match(await get(server, '/api/v1/namespaces/a/secrets'), { code: 500, body: { reason: 'StorageReadError' } })
    t.match(await get(server, '/api/v1/namespaces/a/secrets/sealed'), { code: 500, body: { message: sealed } })
    t.match(await get(server, '/api/v1/namespaces/b/secrets'), { code: 200, body: { items: { length: 1 } } })
    t.equal((await get(server, '/api/v1/namespaces/a/secrets/plain')).code, 200)
    const refused = await get(server, '/api/v1/namespaces/b/secrets?watch=1')
    t.match(refused, { code: 429, body: { message: /^storage is \(re\)initializing/ } })
    t.notOk(namesKey(refused.body), 'nor does a new one name it')
    const removal = await fetch(`${server.url}/api/v1/namespaces/a/secrets/sealed`, { method: 'DELETE' })
    t.equal(removal.status, 500, 'it is not deleted, as little as by the API server')
    const ready = await (await fetch(`${server.url}/readyz?verbose`)).text()
    t.match(ready, /cache-secrets not served: .*aescbc:v1:one/)
    t.notOk(namesKey(ready), 'a check names no object')
    t.equal(
      (await server.metrics()).get(
        'distributary_cache_encrypted_values{group="",resource="secrets",key="aescbc:v1:one"}',
      ),
      1,
    )

    writeFileSync(file, ONE)
    await until(async () => (await get(server, SECRETS)).code === 200, 'the key is back')
    t.equal((await get(server, SECRETS)).body.items.length, 3)
    t.equal(
      (await server.metrics()).has(
        'distributary_cache_encrypted_values{group="",resource="secrets",key="aescbc:v1:one"}',
      ),
      false,
    )
  },
)

void t.test('a namespace with a value that no key can decrypt stays, and so does the value', async (t) => {
  const { etcd, file, put } = await setUp(t, () => ONE)
  const key = '/registry/secrets/new/hidden'
  await put(key, await sealed(key))
  await put('/registry/secrets/new/plain', secret('plain', 'new'))
  const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'new' } }
  await put('/registry/namespaces/new', Buffer.from(JSON.stringify(namespace)))
  const flags = ['--resource=secrets', `--etcd-servers=${etcd.url}`, `--encryption-provider-config=${file}`]
  const server = await startServer(t, { flags: [...flags, '--enable-writes'] })
  const path = '/api/v1/namespaces/new'
  await until(async () => (await get(server, path)).code === 200, 'the namespace is there')
  const remove = async (what: string): Promise<unknown> => {
    const response = await fetch(`${server.url}${what}`, { method: 'DELETE' })
    return { code: response.status, body: await response.json() }
  }
  const refused = { code: 500, body: { message: /Key: \/registry\/secrets\/new\/hidden.*no matching key was found/ } }
  t.match(await remove(`${path}/secrets`), refused, 'the collection')
  t.match(await remove(path), refused, 'the namespace')
  t.match(await remove(`${path}/secrets/plain`), { code: 200 }, 'another object in it')
  t.equal((await get(server, path)).code, 200, 'it is not removed')
  const { kvs } = (await etcd.call('kv/range', { key: Buffer.from(key).toString('base64') })) as { kvs?: unknown[] }
  t.equal(kvs?.length, 1, 'nor is the value')
})

void t.test('a definition that no key can decrypt does not count as deleted', async (t) => {
  const names = ['customresourcedefinitions.apiextensions.k8s.io']
  const [good, bad] = ['two', 'one'].map((name) => configuration([[names, provider('aescbc', name), identity]]))
  const { etcd, file, put } = await setUp(t, () => good!)
  const spec = {
    group: 'edge.example.com',
    scope: 'Namespaced',
    names: { plural: 'widgets', singular: 'widget', kind: 'Widget', listKind: 'WidgetList' },
    versions: [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: { type: 'object' } } }],
  }
  const metadata = { name: 'widgets.edge.example.com' }
  const key = `/registry/apiextensions.k8s.io/customresourcedefinitions/${metadata.name}`
  const definition = { apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition', metadata, spec }
  const value = await sealedObject(key, definition)
  await put(key, value)
  const flags = [`--etcd-servers=${etcd.url}`, `--encryption-provider-config=${file}`]
  const server = await startServer(t, { flags })
  const [definitions, widgets] = [
    '/apis/apiextensions.k8s.io/v1/customresourcedefinitions',
    '/apis/edge.example.com/v1/widgets',
  ]
  await until(async () => (await get(server, widgets)).code === 200, 'the widgets are served')
  writeFileSync(file, bad!)
  await until(() => server.log().includes('a changed file was read'), 'the other key is in force')
  await put(key, value)
  await until(async () => (await get(server, definitions)).code === 500, 'the definition is sealed')
  t.equal((await get(server, widgets)).code, 200, 'its resource is still served')

  const started = await startServer(t, { flags })
  await until(async () => (await get(started, definitions)).code === 500, 'it is sealed from the start')
  t.equal((await get(started, widgets)).code, 503, 'no 404 for what may exist')
  writeFileSync(file, good!)
  await until(async () => (await get(started, widgets)).code === 200, 'the key is there')
})
