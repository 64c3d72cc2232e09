/**
 * A cluster whose etcd is out of reach, with Kubernetes' own API server: the manifests of agents/upstream install a
 * server that reads the API server as its pod may (`--upstream=in-cluster`). Agents get what they may read, also while
 * the API server is down; what the server may not read is forwarded.
 */
import { readFileSync } from 'node:fs'
import { request } from 'node:https'
import { join } from 'node:path'
import t from 'tap'
import { ISSUER } from '../reference/control-plane.js'
import { programFile, serverRuntime } from '../support/program.js'
import { pause } from '../support/until.js'
import { install, kustomize, listOf, startCluster, tokenOf } from './cluster.js'
import { makePod } from './pod.js'

const rbac = { apiVersion: 'rbac.authorization.k8s.io/v1' }
const AGENT = [
  { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'monitoring' } },
  { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'agent', namespace: 'monitoring' } },
  {
    ...rbac,
    kind: 'ClusterRole',
    metadata: { name: 'agent' },
    rules: [
      { apiGroups: [''], resources: ['namespaces'], verbs: ['get', 'list', 'watch'] },
      { apiGroups: [''], resources: ['secrets'], verbs: ['list'] },
    ],
  },
  {
    ...rbac,
    kind: 'ClusterRoleBinding',
    metadata: { name: 'agent' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'agent' },
    subjects: [{ kind: 'ServiceAccount', name: 'agent', namespace: 'monitoring' }],
  },
]

void t.test('agents of a cluster whose etcd is out of reach', async (t) => {
  const cluster = await startCluster(t)
  cluster.kubectl(['apply', '--server-side', '-f', '-'], listOf(AGENT))
  const ours = await install(t, cluster, {
    objects: kustomize('deploy/kubernetes/agents/upstream'),
    flags: [`--service-account-issuer=${ISSUER}`],
    command: (token) => {
      const { port } = new URL(cluster.url)
      const pod = makePod(t, { host: '127.0.0.1', port, ca: cluster.ca, token })
      return pod.run(serverRuntime(), programFile('main'))
    },
  })
  const ca = readFileSync(join(ours.certificates, 'ca.crt'))
  const token = tokenOf(cluster, 'monitoring', 'agent')
  const get = (path: string): Promise<{ code: number; onGap: unknown; body: string }> =>
    new Promise((resolve, reject) => {
      request(ours.url + path, { ca, headers: { authorization: `Bearer ${token}` } }, (response) => {
        let body = ''
        response.on('data', (chunk: Buffer) => (body += chunk.toString()))
        response.on('end', () =>
          resolve({ code: response.statusCode!, onGap: response.headers['x-distributary-on-gap'], body }),
        )
      })
        .once('error', reject)
        .end()
    })

  const namespaces = await get('/api/v1/namespaces')
  t.match(namespaces, { code: 200, onGap: 'coalesce' }, 'from the cache')
  t.match(namespaces.body, /"monitoring"/)
  t.match(await get('/api/v1/pods'), { code: 403, onGap: undefined }, 'the API server decides')
  t.match(await get('/api/v1/secrets'), { code: 200, onGap: undefined }, 'a resource that it may not read is forwarded')
  t.match((await get('/readyz?verbose')).body, /readyz check passed/)

  // A watch that ends at once is a new request, which must be authenticated and authorized.
  const requests = [
    '/api/v1/namespaces?resourceVersion=0',
    '/api/v1/namespaces?watch=1&timeoutSeconds=1&resourceVersion=0',
  ]
  for (const path of requests) t.equal((await get(path)).code, 200)
  const codes: number[] = []
  let isDown = true
  const restarted = cluster.restart().finally(() => (isDown = false))
  while (isDown) {
    for (const path of requests) codes.push((await get(path)).code)
    await pause(100)
  }
  await restarted
  t.ok(codes.length > 0)
  t.same(new Set(codes), new Set([200]), 'agents connect while the API server is down')
  cluster.kubectl(['create', 'namespace', 'later'])
  let last = ''
  for (let i = 0; i < 300 && !last.includes('"later"'); i++) {
    last = (await get('/api/v1/namespaces')).body
    await pause(100)
  }
  t.match(last, /"later"/, 'afterwards changes arrive')
})
