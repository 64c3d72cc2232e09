/**
 * The Node mode: a kubelet reads its node, its pods and what they name, over the transports that it uses, and nothing
 * of another node. Thousands of decisions are compared with Kubernetes' own in test/reference.
 */
import t, { type Test } from 'tap'
import { Folder } from '../server/auth/fixtures.js'
import { type EtcdProcess, startEtcd } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { LightWatcher } from '../support/light-watcher.js'
import { startServer } from '../support/server-process.js'
import { until } from '../support/until.js'

const named = (kind: string, name: string, more: object = {}, namespace = 'web'): object => ({
  apiVersion: 'v1',
  kind,
  metadata: { name, uid: `uid-of-${name}`, ...(namespace === '' ? {} : { namespace }) },
  ...more,
})

/** A pod that refers only to objects of its own name. */
function podOn(nodeName: string, name: string): object {
  const spec = {
    nodeName,
    serviceAccountName: name,
    containers: [{ name: 'main', envFrom: [{ configMapRef: { name } }, { secretRef: { name } }] }],
    volumes: [{ name: 'data', persistentVolumeClaim: { claimName: name } }],
  }
  return named('Pod', name, { spec })
}

async function start(t: Test, flags: readonly string[] = []) {
  const etcd = await startEtcd(t)
  const writer = new EtcdWriter([etcd])
  const mirror = podOn('n1', 'mirror') as { metadata: object }
  const objects: Record<string, object> = {
    '/registry/pods/web/a': podOn('n1', 'a'),
    '/registry/pods/web/b': podOn('n2', 'b'),
    '/registry/pods/web/mirror': {
      ...mirror,
      metadata: { ...mirror.metadata, annotations: { 'kubernetes.io/config.mirror': 'x' } },
    },
    '/registry/minions/n1': named('Node', 'n1', {}, ''),
    '/registry/minions/n2': named('Node', 'n2', {}, ''),
  }
  for (const name of ['a', 'b', 'mirror', 'volume-of-a', 'volume-of-b']) {
    objects[`/registry/secrets/web/${name}`] = named('Secret', name)
    objects[`/registry/configmaps/web/${name}`] = named('ConfigMap', name)
  }
  for (const name of ['a', 'b']) {
    objects[`/registry/persistentvolumeclaims/web/${name}`] = named('PersistentVolumeClaim', name)
    const csi = { driver: 'd', volumeHandle: 'h', nodeStageSecretRef: { name: `volume-of-${name}`, namespace: 'web' } }
    const spec = { claimRef: { namespace: 'web', name }, csi }
    objects[`/registry/persistentvolumes/v-${name}`] = named('PersistentVolume', `v-${name}`, { spec }, '')
  }
  await writer.commit(objects)
  const tokens = ['n1', 'n2'].map((node) => `${node},system:node:${node},,system:nodes`)
  const tokenFile = new Folder(t).write('tokens.csv', [...tokens, 'fake,system:node:n1,,others', ''].join('\n'))
  const server = await startServer(t, {
    flags: [
      `--etcd-servers=${etcd.url}`,
      '--resource=secrets',
      `--token-auth-file=${tokenFile}`,
      '--authorization-mode=Node',
      ...flags,
    ],
  })
  const ask = async (token: string, path: string, init: RequestInit = {}): Promise<number> => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
    const response = await fetch(`${server.url}${path}`, { ...init, headers })
    await response.arrayBuffer()
    return response.status
  }
  return { etcd, writer, server, ask }
}

const WEB = '/api/v1/namespaces/web'
/** The paths that the first node may read, with `a` for everything that belongs to it and `n1` for its name. */
const READS = [
  '/api/v1/nodes/n1',
  '/api/v1/nodes?fieldSelector=metadata.name=n1',
  '/api/v1/pods?fieldSelector=spec.nodeName=n1',
  `${WEB}/pods?fieldSelector=spec.nodeName==n1,status.phase!=Failed`,
  `${WEB}/pods/a`,
  `${WEB}/secrets/a`,
  `${WEB}/secrets/volume-of-a`,
  `${WEB}/secrets?fieldSelector=metadata.name=a`,
  `${WEB}/configmaps/a`,
  `${WEB}/persistentvolumeclaims/a`,
  '/api/v1/persistentvolumes/v-a',
] as const
const ofOther = (path: string): string => path.replaceAll(/\bn1\b/g, 'n2').replaceAll(/\ba\b/g, 'b')

void t.test('a node reads only what belongs to it', async (t) => {
  const { ask } = await start(t)
  for (const path of READS) {
    t.equal(await ask('n1', path), 200, path)
    t.equal(await ask('n2', path), 403, `${path} for the other`)
    t.equal(await ask('n2', ofOther(path)), 200, ofOther(path))
    t.equal(await ask('fake', path), 403, `${path} for who is not in the group of nodes`)
  }
  const wide = [
    '/api/v1/nodes',
    '/api/v1/pods',
    `${WEB}/pods`,
    '/api/v1/pods?fieldSelector=spec.nodeName!=n1',
    '/api/v1/pods?fieldSelector=spec.nodeName=',
    '/api/v1/pods?fieldSelector=spec.nodeName=n1&fieldSelector=spec.nodeName=n2',
    '/api/v1/secrets',
    '/api/v1/secrets?fieldSelector=metadata.name=a',
    `${WEB}/secrets`,
    `${WEB}/configmaps`,
    `${WEB}/secrets/mirror`,
    '/api/v1/persistentvolumes',
    '/apis/apps/v1/deployments',
  ]
  for (const path of wide) {
    const isFirst = path.includes('&')
    t.equal(await ask('n1', path), isFirst ? 200 : 403, path)
    if (isFirst) t.equal(await ask('n2', path), 403, 'what is judged is what is selected')
  }
  for (const path of ['/api/v1/services', '/apis/node.k8s.io/v1/runtimeclasses', '/apis/storage.k8s.io/v1/csidrivers'])
    t.equal(await ask('n1', path), 200, path)
})

void t.test('a node that loses its pod loses the objects that the pod names, also on running watches', async (t) => {
  const { server, writer, ask } = await start(t)
  const headers = { authorization: 'Bearer n1' }
  const open = (path: string): LightWatcher => new LightWatcher(`${server.url}${path}&watch=1`, headers)
  const [secret, pods] = [
    open(`${WEB}/secrets?fieldSelector=metadata.name=a`),
    open('/api/v1/pods?fieldSelector=spec.nodeName=n1'),
  ]
  await Promise.all([secret, pods].map((one) => one.until(({ revisions }) => revisions.length > 0)))
  await writer.commit({ '/registry/pods/web/a': null })
  await until(async () => (await ask('n1', `${WEB}/secrets/a`)) === 403, 'the Secret is no longer its own')
  t.equal(await ask('n1', '/api/v1/persistentvolumes/v-a'), 403)
  await until(() => secret.end !== 'open', 'the watch of the Secret ends')
  t.match(secret.error, '403')
  t.equal(pods.end, 'open')
  pods.destroy()
  await writer.commit({ '/registry/pods/web/a': podOn('n2', 'a') })
  await until(async () => (await ask('n2', `${WEB}/secrets/a`)) === 200, 'it moves to the other node')
  t.equal(await ask('n1', `${WEB}/secrets/a`), 403)
})

void t.test('reviews take the selectors into account', async (t) => {
  const { server } = await start(t)
  const review = async (selector: object): Promise<boolean> => {
    const spec = { resourceAttributes: { verb: 'list', resource: 'pods', version: 'v1', fieldSelector: selector } }
    const response = await fetch(`${server.url}/apis/authorization.k8s.io/v1/selfsubjectaccessreviews`, {
      method: 'POST',
      headers: { authorization: 'Bearer n1', 'content-type': 'application/json' },
      body: JSON.stringify({ spec }),
    })
    return ((await response.json()) as { status: { allowed: boolean } }).status.allowed
  }
  const of = (operator: string, ...values: string[]): object => ({
    requirements: [{ key: 'spec.nodeName', operator, values }],
  })
  t.equal(await review(of('In', 'n1')), true)
  t.equal(await review({ rawSelector: 'spec.nodeName=n1' }), true)
  for (const selector of [
    of('In', 'n2'),
    of('NotIn', 'n1'),
    of('In', 'n1', 'n2'),
    of('Exists'),
    {},
    { rawSelector: 'x' },
  ])
    t.equal(await review(selector), false, JSON.stringify(selector))
})

void t.test(
  'a resource that is not served allows no access, and a cache that is too old decides nothing',
  async (t) => {
    const { ask, etcd } = await start(t, ['--watch-cache-sizes=persistentvolumes#0'])
    t.equal(await ask('n1', `${WEB}/secrets/a`), 200)
    t.equal(await ask('n1', `${WEB}/secrets/volume-of-a`), 403, 'volumes are not held here')
    await stopped(etcd, async () => {
      await until(async () => (await ask('n1', `${WEB}/secrets/a?resourceVersion=0`)) === 503, 'the cache is too old')
      t.equal(
        await ask('n1', '/api/v1/pods?fieldSelector=spec.nodeName=n1&resourceVersion=0'),
        200,
        'needs no relation',
      )
    })
  },
)

async function stopped(etcd: EtcdProcess, run: () => Promise<void>): Promise<void> {
  await etcd.kill('SIGSTOP')
  try {
    await run()
  } finally {
    await etcd.kill('SIGCONT')
  }
}
