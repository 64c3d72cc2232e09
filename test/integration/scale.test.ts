/**
 * A cluster with many definitions and namespaces, and permissions in each namespace. `TEST_LONG` runs it at the size of
 * the largest clusters that are known: 2,000 definitions and 100,000 namespaces.
 */
import { join } from 'node:path'
import t from 'tap'
import { column, conditions, definitionObject, ESTABLISHED, object, text } from '../support/definition.js'
import { startEtcd } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { LightWatcher } from '../support/light-watcher.js'
import { startServer, total } from '../support/server-process.js'
import { until } from '../support/until.js'

const MiB = 2 ** 20
const isLong = process.env['TEST_LONG'] !== undefined
const DEFINITIONS = isLong ? 2_000 : 100
const NAMESPACES = isLong ? 100_000 : 2_000
/** A binding in each of them, spread over all. */
const BOUND = isLong ? 10_000 : 200
const MEMORY_TARGET = (isLong ? 1_024 : 320) * MiB
/** Alone on two cores it is ready after 25 s. */
const READY_MS = 300_000
/** The number of objects that are checked one by one. */
const SAMPLES = 20
const IN_GROUP = 20
const BUILT_IN_GROUPS = ['apps', 'rbac.authorization.k8s.io', 'apiextensions.k8s.io']

interface Kind {
  readonly group: string
  readonly plural: string
  readonly kind: string
}

const kindAt = (i: number): Kind => {
  const group = `g${Math.floor(i / IN_GROUP)}.example.com`
  return { group, plural: `kind${i}s`, kind: `Kind${i}` }
}
const namespaceAt = (i: number): string => `n${String(i).padStart(6, '0')}`
const definitionKey = ({ group, plural }: Kind): string =>
  `/registry/apiextensions.k8s.io/customresourcedefinitions/${plural}.${group}`

function definition(kind: Kind): object {
  const metadata = { uid: `uid-of-${kind.plural}`, creationTimestamp: '2026-01-01T00:00:00Z' }
  const fields = Object.fromEntries(Array.from({ length: 15 }, (_, i) => [`field${i}`, { ...text, maxLength: 100 }]))
  const version = {
    name: 'v1',
    storage: true,
    schema: object({ spec: object(fields), status: object({ conditions }) }),
    additionalPrinterColumns: [column('First', 'string', '.spec.field0')],
    subresources: { status: {} },
  }
  return { ...definitionObject({ ...kind, scope: 'Namespaced', versions: [version] }, metadata), status: ESTABLISHED }
}

const objectOf = ({ group, kind }: Kind, namespace: string, field0: string): object => ({
  apiVersion: `${group}/v1`,
  kind,
  metadata: { name: 'one', namespace, uid: `${kind} of ${namespace}`, creationTimestamp: '2026-01-01T00:00:00Z' },
  spec: { field0 },
})

const namespaceObject = (name: string): object => ({
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: {
    name,
    uid: `uid-of-${name}`,
    creationTimestamp: '2026-01-01T00:00:00Z',
    labels: { 'kubernetes.io/metadata.name': name },
  },
  spec: { finalizers: ['kubernetes'] },
  status: { phase: 'Active' },
})

const binding = (namespace: string, user: string): object => ({
  apiVersion: 'rbac.authorization.k8s.io/v1',
  kind: 'RoleBinding',
  metadata: { name: 'readers', namespace },
  subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: user }],
  roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'reader' },
})

/** Some of `count`, the first and the last among them. */
const some = (count: number): readonly number[] =>
  Array.from({ length: SAMPLES }, (_, i) => Math.floor((i * (count - 1)) / (SAMPLES - 1)))

void t.test(`a cluster with ${DEFINITIONS} definitions and ${NAMESPACES} namespaces is served`, async (t) => {
  t.setTimeout(isLong ? 1_200_000 : 120_000)
  const etcd = await startEtcd(t)
  const writer = new EtcdWriter([etcd])
  const kinds = Array.from({ length: DEFINITIONS }, (_, i) => kindAt(i))
  const bound = Array.from({ length: BOUND }, (_, i) => namespaceAt(Math.floor((i * NAMESPACES) / BOUND)))
  const userOf = (namespace: string): string => `user-of-${namespace}`
  const sampled = some(BOUND).map((i) => bound[i]!)
  const samples = some(DEFINITIONS).map((i) => kinds[i]!)
  const keyOf = ({ group, plural }: Kind, namespace: string): string => `/registry/${group}/${plural}/${namespace}/one`
  await writer.fill(
    new Map<string, object>([
      ...kinds.map((kind) => [definitionKey(kind), definition(kind)] as const),
      ...Array.from({ length: NAMESPACES }, (_, i) => namespaceAt(i)).map(
        (name) => [`/registry/namespaces/${name}`, namespaceObject(name)] as const,
      ),
      ...bound.map((name) => [`/registry/rolebindings/${name}/readers`, binding(name, userOf(name))] as const),
      ...samples.flatMap((kind) => sampled.map((name) => [keyOf(kind, name), objectOf(kind, name, 'a')] as const)),
      [
        '/registry/clusterroles/reader',
        {
          apiVersion: 'rbac.authorization.k8s.io/v1',
          kind: 'ClusterRole',
          metadata: { name: 'reader' },
          rules: [{ apiGroups: ['*'], resources: ['*'], verbs: ['get', 'list', 'watch'] }],
        },
      ],
    ]),
  )
  const lines = [
    'admin-token,admin,1,system:masters',
    ...sampled.map((name) => `${name}-token,${userOf(name)},${name}`),
  ]
  const tokens = join(t.testdir({ tokens: `${lines.join('\n')}\n` }), 'tokens')
  const startedMs = performance.now()
  // prettier-ignore
  const server = await startServer(t, {
    flags: [
      '--etcd-servers', etcd.url, '--token-auth-file', tokens, '--authorization-mode', 'RBAC',
      '--memory-target', String(MEMORY_TARGET), '--requests-per-second', '100000',
    ],
    ready: false,
  })
  await until(
    () => server.log().includes('"msg":"ready"'),
    () => `it is ready: ${server.log()}`,
    READY_MS,
  )
  t.comment(`ready after ${((performance.now() - startedMs) / 1_000).toFixed(1)} s`)
  const bearer = (name: string): Record<string, string> => ({ authorization: `Bearer ${name}-token` })
  const ask = async (path: string, as = 'admin', accept = 'application/json'): Promise<Response> =>
    await fetch(server.url + path, { headers: { ...bearer(as), accept } })
  const read = async (path: string, accept?: string): Promise<unknown> => {
    const answer = await ask(path, 'admin', accept)
    if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
    return await answer.json()
  }
  const statusOf = async (path: string, as?: string): Promise<number> => {
    const answer = await ask(path, as)
    await answer.body?.cancel()
    return answer.status
  }
  const pathOf = ({ group, plural }: Kind, namespace?: string): string =>
    `/apis/${group}/v1/${namespace === undefined ? '' : `namespaces/${namespace}/`}${plural}`
  const served = async (): Promise<ReadonlySet<string>> => {
    const accept = 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList'
    const { items } = (await read('/apis', accept)) as {
      readonly items: readonly {
        readonly metadata: { readonly name: string }
        readonly versions: readonly { readonly resources: readonly { readonly resource: string }[] }[]
      }[]
    }
    return new Set(
      items.flatMap(({ metadata, versions }) =>
        versions.flatMap(({ resources }) => resources.map(({ resource }) => `${resource}.${metadata.name}`)),
      ),
    )
  }

  await t.test('discovery and OpenAPI have every definition', async (t) => {
    const found = await served()
    t.same(
      kinds.filter(({ plural, group }) => !found.has(`${plural}.${group}`)),
      [],
    )
    const { paths } = (await read('/openapi/v3')) as { readonly paths: Readonly<Record<string, object>> }
    const groups = new Set(kinds.map(({ group }) => group))
    t.same(
      [...groups, ...BUILT_IN_GROUPS].filter((group) => !(`apis/${group}/v1` in paths)),
      [],
    )
    for (const { group, kind } of samples) {
      const document = JSON.stringify(await read(`/openapi/v3/apis/${group}/v1`))
      t.ok(document.includes(`.v1.${kind}"`) && document.includes('"field14"'), kind)
    }
    const whole = (await read('/openapi/v2')) as { readonly definitions: Readonly<Record<string, object>> }
    const inWhole = new Set(Object.keys(whole.definitions).map((name) => name.split('.').at(-1)!))
    t.same(
      kinds.filter(({ kind }) => !inWhole.has(kind)),
      [],
    )
  })

  await t.test('objects of a definition are read and watched', async (t) => {
    for (const kind of samples) {
      const [first] = sampled
      t.match(await read(`${pathOf(kind, first)}/one`), objectOf(kind, first!, 'a'))
      const { items } = (await read(pathOf(kind))) as { readonly items: readonly object[] }
      t.equal(items.length, new Set(sampled).size, kind.plural)
    }
    const watchers = samples.map(
      (kind) => new LightWatcher(`${server.url}${pathOf(kind)}?watch=1&resourceVersion=0`, bearer('admin')),
    )
    t.teardown(() => watchers.forEach((watcher) => watcher.destroy()))
    const present = new Set(sampled).size
    await Promise.all(watchers.map((watcher) => watcher.until(({ revisions }) => revisions.length === present)))
    for (const [i, kind] of samples.entries()) {
      const revision = await writer.put(keyOf(kind, sampled[i]!), objectOf(kind, sampled[i]!, 'b'))
      await watchers[i]!.until(({ revisions }) => revisions.at(-1) === revision)
    }
  })

  await t.test('all namespaces are listed in pages, and watched', async (t) => {
    const names = new Set<string>()
    let next = ''
    let revision = ''
    do {
      const page = (await read(`/api/v1/namespaces?limit=500&continue=${encodeURIComponent(next)}`)) as {
        readonly metadata: { readonly continue?: string; readonly resourceVersion: string }
        readonly items: readonly { readonly metadata: { readonly name: string } }[]
      }
      for (const { metadata } of page.items) names.add(metadata.name)
      next = page.metadata.continue ?? ''
      revision = page.metadata.resourceVersion
    } while (next !== '')
    t.equal(names.size, NAMESPACES)
    const watcher = new LightWatcher(
      `${server.url}/api/v1/namespaces?watch=1&resourceVersion=${revision}`,
      bearer('admin'),
    )
    t.teardown(() => watcher.destroy())
    const made = await writer.put('/registry/namespaces/another', namespaceObject('another'))
    const gone = await writer.commit({ '/registry/namespaces/another': null })
    await watcher.until(({ revisions }) => revisions.join() === `${made},${gone}`)
    const selected = `/api/v1/namespaces?labelSelector=kubernetes.io/metadata.name%3D${namespaceAt(NAMESPACES - 1)}`
    t.equal(((await read(selected)) as { readonly items: readonly object[] }).items.length, 1)
  })

  await t.test('each user has its namespace, from the binding until it is deleted', async (t) => {
    const [kind] = samples
    for (const [i, namespace] of sampled.entries()) {
      const other = sampled[(i + 1) % sampled.length]!
      const answers = await Promise.all([
        statusOf(`${pathOf(kind!, namespace)}/one`, namespace),
        statusOf(pathOf(kind!, namespace), namespace),
        statusOf(pathOf(kind!, other), namespace),
        statusOf(pathOf(kind!), namespace),
        statusOf('/api/v1/namespaces', namespace),
      ])
      t.same(answers, [200, 200, 403, 403, 403], namespace)
    }
    const [namespace] = sampled
    const [key, path] = [`/registry/rolebindings/${namespace}/readers`, pathOf(kind!, namespace)]
    const watcher = new LightWatcher(`${server.url}${path}?watch=1`, bearer(namespace!))
    t.teardown(() => watcher.destroy())
    await watcher.until(({ revisions }) => revisions.length === 1)
    await writer.commit({ [key]: null })
    await until(() => watcher.end !== 'open', 'the watch ends with the right')
    t.equal(await statusOf(path, namespace), 403)
    await writer.put(key, binding(namespace!, userOf(namespace!)))
    await until(async () => (await statusOf(path, namespace)) === 200, 'the right is back')
  })

  await t.test('a definition that is added is served, and one that is removed is not', async (t) => {
    const added = { group: 'added.example.com', plural: 'addeds', kind: 'Added' }
    const key = definitionKey(added)
    for (let round = 0; round < 3; round++) {
      await writer.commit({ [key]: definition(added), [keyOf(added, 'n')]: objectOf(added, 'n', 'a') })
      await until(async () => (await statusOf(`${pathOf(added, 'n')}/one`)) === 200, 'its objects are served')
      t.ok((await served()).has('addeds.added.example.com'))
      t.equal(await statusOf('/openapi/v3/apis/added.example.com/v1'), 200)
      await writer.commit({ [keyOf(added, 'n')]: null, [key]: null })
      await until(async () => (await statusOf(pathOf(added))) === 404, 'it is gone')
      t.notOk((await served()).has('addeds.added.example.com'))
    }
  })

  const { now, peak } = server.memory()
  const refused = total(await server.metrics('admin-token'), 'distributary_http_rejected_total')
  t.comment(`${Math.round(now / MiB)} MiB, ${Math.round(peak / MiB)} at the most, of ${MEMORY_TARGET / MiB}`)
  t.ok(peak < MEMORY_TARGET * 1.15, `${Math.round(peak / MiB)} MiB at the most, of ${MEMORY_TARGET / MiB}`)
  t.equal(refused, 0, 'nobody was refused')
  const troubles = server.log().split('\n')
  t.same(
    troubles.filter((line) => /"level":(50|60)/.test(line)),
    [],
  )
})
