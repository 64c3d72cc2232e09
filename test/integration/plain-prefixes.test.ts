/**
 * Prefixes of programs that know nothing of Kubernetes, over a real etcd and in every process form: without a slash in
 * front, with another separator, exact, and with bytes that are not text.
 */
import { join } from 'node:path'
import t from 'tap'
import { startEtcd } from '../support/etcd-process.js'
import { freePort } from '../support/free-port.js'
import { startNats } from '../support/nats-process.js'
import { startServer } from '../support/server-process.js'
import { until } from '../support/until.js'

const GROUP = '/apis/distributary.io/v1'
/** `\xff` has no end of range: no key follows those that begin with it. */
const CONFIG = `resources:
  - {name: routers, prefix: traefik/}
  - {name: metas, prefix: by-dev/meta/}
  - {name: leaders, prefix: leader, exact: true}
  - {name: blobs, prefixBytes: /w==, exact: true}
  - {name: tenants, prefix: "tenants:", namespaced: true}
kubernetesResources: never
bookmarkInterval: 1s
`
/** The keys of each resource, one character per byte, and their names, in the order of the keys. */
const KEYS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  routers: { 'traefik/http/routers/x': 'http:routers:x', 'traefik/tcp/\xef\xbf\xbd': 'tcp:~ef~bf~bd' },
  metas: { 'by-dev/meta/session/id': 'session:id', 'by-dev/meta/\xfe': '~fe', 'by-dev/meta/\xff': '~ff' },
  leaders: { leader: '~', leader2: '2' },
  blobs: { '\xff': '~', '\xff\0': '~00', '\xff\xff\xff': '~ff~ff' },
  tenants: { 'tenants:a b/x': 'x', 'tenants:\xfd/x': 'x', 'tenants:\xfe/x': 'x' },
}
/** Neighbors that belong to no resource. */
const OTHERS = ['traefik', 'traefik0', '/traefik/x', 'by-dev/metb', 'leade', 'tenants;a/x', '\xfe\xff']

interface Value {
  readonly metadata: { readonly name: string; readonly namespace?: string; readonly resourceVersion: string }
  readonly key: string
  readonly keyBytes?: string
  readonly text: string
}

interface Values {
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string }
  readonly items: readonly Value[]
}

const base64 = (bytes: string): string => Buffer.from(bytes, 'latin1').toString('base64')
const bytesOf = ({ key, keyBytes }: Value): string =>
  (keyBytes === undefined ? Buffer.from(key) : Buffer.from(keyBytes, 'base64')).toString('latin1')

for (const form of ['one process', 'workers', 'an edge over NATS', 'a chain'] as const) {
  void t.test(`${form}: any bytes may be a prefix, and every key is one object`, async (t) => {
    const etcd = await startEtcd(t)
    const put = async (key: string, value: string): Promise<void> =>
      void (await etcd.call('kv/put', { key: base64(key), value: base64(value) }))
    for (const key of [...OTHERS, ...Object.values(KEYS).flatMap(Object.keys)]) await put(key, 'first')
    const config = ['--config', join(t.testdir({ 'config.yaml': CONFIG }), 'config.yaml')]
    const direct = ['--etcd-servers', etcd.url, ...config]
    let flags = direct
    if (form === 'workers') flags = [...direct, '--workers', '2']
    if (form === 'an edge over NATS') {
      const nats = ['--nats-servers', (await startNats(t, { maxFile: '2GB' })).url]
      await startServer(t, { flags: [...direct, ...nats], isSurrounded: false })
      flags = [...config, ...nats, '--nats-role', 'edge']
    } else if (form === 'a chain') {
      const port = await freePort()
      await startServer(t, { flags: [...direct, '--port', String(port)], isSurrounded: false })
      flags = ['--upstream', `http://127.0.0.1:${port}`]
    }
    const hasWrites = flags.includes('--etcd-servers')
    const server = await startServer(t, {
      flags: [...flags, ...(hasWrites ? ['--enable-writes', '--kubernetes-resources', 'never'] : [])],
      isSurrounded: false,
    })
    const ask = async <T>(path: string, init: RequestInit = {}): Promise<T> =>
      (await (await fetch(`${server.url}${GROUP}/${path}`, init)).json()) as T
    const pathOf = (plural: string, { metadata: { name, namespace } }: Value): string =>
      [...(namespace === undefined ? [] : ['namespaces', namespace]), plural, name].map(encodeURIComponent).join('/')

    for (const [plural, expected] of Object.entries(KEYS)) {
      const { items } = await ask<Values>(plural)
      t.same(items.map(bytesOf), Object.keys(expected), `${plural}: the keys`)
      t.same(
        items.map(({ metadata }) => metadata.name),
        Object.values(expected),
        `${plural}: their names`,
      )
      t.ok(
        items.every((item) => item.key === Buffer.from(bytesOf(item), 'latin1').toString()),
        `${plural}: as text`,
      )
      for (const item of items) t.same(await ask(pathOf(plural, item)), item, `${plural}: by its name`)
      const paged: string[] = []
      let token: string | undefined = ''
      while (token !== undefined) {
        const page: Values = await ask<Values>(`${plural}?limit=1&continue=${token}`)
        paged.push(...page.items.map(bytesOf))
        token = page.metadata.continue
      }
      t.same(paged, Object.keys(expected), `${plural}: in pages`)
    }

    const part = await ask<Values>(`routers?prefix=${encodeURIComponent('tcp/\ufffd')}`)
    t.same(part.items.map(bytesOf), ['traefik/tcp/\xef\xbf\xbd'], 'a part whose text has U+FFFD')
    t.match(await ask('routers?prefix=%ff'), { code: 400, message: /not valid UTF-8/ })

    for (const [path, key] of [
      ['routers', 'traefik/new'],
      ['routers?prefix=http/', 'traefik/http/new'],
      ['metas', 'by-dev/meta/\xfd'],
      ['leaders', 'leaders'],
      ['blobs', '\xff\xff\xff\xff'],
      ['namespaces/~fd/tenants', 'tenants:\xfd/y'],
      ['namespaces/a~20b/tenants', 'tenants:a b/y'],
    ] as const) {
      const { items } = await ask<Values>(path)
      const url = `${server.url}${GROUP}/${path}${path.includes('?') ? '&' : '?'}watch=1&timeoutSeconds=60`
      const reader = (await fetch(url)).body!.pipeThrough(new TextDecoderStream()).getReader()
      t.teardown(async () => await reader.cancel())
      const events: { type: string; object: Value }[] = []
      let text = ''
      const read = async (count: number): Promise<void> => {
        while (events.length < count) {
          const { value, done } = await reader.read()
          if (done) throw new Error(`${path}: ended after ${events.length} events`)
          const lines = (text + value).split('\n')
          text = lines.pop()!
          for (const line of lines) events.push(JSON.parse(line) as { type: string; object: Value })
        }
      }
      await read(items.length)
      await put(key, 'second')
      await put(key, 'third')
      await etcd.call('kv/deleterange', { key: base64(key) })
      await read(items.length + 3)
      t.same(
        events.map(({ type, object }) => [type, bytesOf(object)]),
        [
          ...items.map((item) => ['ADDED', bytesOf(item)]),
          ...['ADDED', 'MODIFIED', 'DELETED'].map((one) => [one, key]),
        ],
        `${path}: a watch`,
      )
    }

    if (!hasWrites) return
    const [twin] = (await ask<Values>('metas?fieldSelector=metadata.name=~fe')).items
    const changed = await ask<Value>('metas/~fe', {
      method: 'PUT',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ...twin, text: 'changed' }),
    })
    t.match(changed, { metadata: { name: '~fe' }, keyBytes: base64('by-dev/meta/\xfe'), text: 'changed' })
    const stored = async (key: string): Promise<string> => {
      const { kvs } = (await etcd.call('kv/range', { key: base64(key) })) as { kvs?: { value: string }[] }
      return Buffer.from(kvs?.[0]?.value ?? '', 'base64').toString()
    }
    t.equal(await stored('by-dev/meta/\xfe'), 'changed', 'the bytes of the key are kept')
    t.equal(await stored('by-dev/meta/\xff'), 'first', 'its twin is not')
    const created = await ask<Value>('routers', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ metadata: { name: 'udp:~ff' }, text: 'new' }),
    })
    t.equal(bytesOf(created), 'traefik/udp/\xff')
    t.equal(await stored('traefik/udp/\xff'), 'new')
    await ask('routers/udp:~ff', { method: 'DELETE' })
    await until(async () => (await ask<Values>('routers')).items.length === 2, 'it is gone')
  })
}
