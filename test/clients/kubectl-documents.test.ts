/** How kubectl interprets these documents, which are all that the server serves. */
import { execFile } from 'node:child_process'
import { createServer, type Server } from 'node:http'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { scanObject } from '../../src/kubernetes/codec/json-scan.js'
import { negotiateDiscovery, negotiateOpenApi } from '../../src/kubernetes/dialect/accept.js'
import { readDefinition } from '../../src/kubernetes/dialect/crd.js'
import { resolveResources } from '../../src/kubernetes/dialect/declared-resource.js'
import { Discovery, type Document } from '../../src/kubernetes/dialect/discovery.js'
import { kubernetesSchema } from '../../src/kubernetes/codec/protobuf/schema.js'
import { makeOpenApi, OpenApi } from '../../src/kubernetes/dialect/openapi.js'
import { LIST_TAIL } from '../../src/kubernetes/dialect/partial-object.js'
import { parseRequestPath } from '../../src/kubernetes/dialect/request-path.js'
import { ResourceRegistry, type ServedResource } from '../../src/kubernetes/dialect/resource-registry.js'
import { encodeTableRow, tableHead } from '../../src/kubernetes/dialect/table/encode-table.js'
import { toRevision } from '../../src/engine/model/revision.js'
import { kubectlBinary } from '../support/kubectl.js'

const NOW = Date.now()

const POD = {
  kind: 'Pod',
  apiVersion: 'v1',
  metadata: { name: 'web-0', namespace: 'a', creationTimestamp: new Date(NOW - 3 * 3_600_000).toISOString() },
  spec: { nodeName: 'n7', containers: [{ name: 'a' }] },
  status: {
    phase: 'Running',
    podIP: '10.0.0.1',
    containerStatuses: [{ state: { waiting: { reason: 'CrashLoopBackOff' } }, restartCount: 3 }],
  },
}

const registry = new ResourceRegistry()
registry.set('start', resolveResources({ names: ['flags=/flags/'] }).resources)
const cache = readDefinition(
  {
    spec: {
      group: 'edge.example.com',
      names: { plural: 'caches', singular: 'cache', kind: 'Cache', shortNames: ['ca'] },
      versions: [
        {
          name: 'v1',
          served: true,
          storage: true,
          schema: {
            openAPIV3Schema: {
              type: 'object',
              description: 'A cache at the edge.',
              properties: {
                spec: { type: 'object', properties: { size: { type: 'string', description: 'How big.' } } },
              },
            },
          },
        },
      ],
    },
  },
  '/registry',
)
if (cache.kind === 'defined') registry.set('crd', cache.resources)
const discovery = new Discovery(registry, { productVersion: '0.1.0' })
const openApi = new OpenApi(registry, {
  productVersion: '0.1.0',
  make: async (resources, form) => makeOpenApi(resources, form, kubernetesSchema(), false),
})
const asked: string[] = []

async function answer(path: string, accept: string): Promise<{ type: string; body: Buffer } | null> {
  const json = (document: Document | null): { type: string; body: Buffer } | null =>
    document === null ? null : { type: 'application/json', body: document.body }
  const root = (name: 'api' | 'apis', plain: Document): { type: string; body: Buffer } => {
    const { aggregated, contentType } = negotiateDiscovery(accept)
    return { type: contentType, body: aggregated ? discovery.aggregated(name).body : plain.body }
  }
  const request = parseRequestPath(path, (...names) => registry.find(...names))
  switch (request.kind) {
    case 'version':
      return json(discovery.version())
    case 'api-versions':
      return root('api', discovery.apiVersions())
    case 'api-groups':
      return root('apis', discovery.apiGroups())
    case 'api-group':
      return json(discovery.apiGroup(request.group))
    case 'api-resources':
      return json(discovery.apiResources(request.group, request.version))
    case 'resource':
      return request.served === undefined ? null : { type: 'application/json', body: list(request.served) }
    case 'openapi-v2': {
      const { encoding, contentType } = negotiateOpenApi(accept, 'v2')
      return { type: contentType, body: (await openApi.v2(encoding)).body }
    }
    case 'openapi-v3-index':
      return json(openApi.index())
    case 'openapi-v3':
      return json(await openApi.groupVersion(request.group, request.version))
    case 'paths':
    case 'other':
      return null
  }
}

const FORM = { include: 'Metadata', metaVersion: 'meta.k8s.io/v1' } as const

function list(served: ServedResource): Buffer {
  const pod = scanObject(Buffer.from(JSON.stringify(POD)))
  if (pod === null) throw new Error('pod')
  const row = encodeTableRow(served, pod, toRevision(7), NOW, FORM)
  return Buffer.concat([tableHead(served, { resourceVersion: '9' }, FORM), row, LIST_TAIL])
}

const NOT_FOUND = '{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}'

/** @param accept overrides every Accept header. */
function listen(accept?: string): Promise<Server> {
  const server = createServer((request, response) => {
    const path = (request.url ?? '').split('?')[0] ?? ''
    asked.push(path)
    const asking = request.method === 'GET' ? answer(path, accept ?? String(request.headers.accept)) : null
    void Promise.resolve(asking).then((found) => {
      response.writeHead(found === null ? 404 : 200, { 'content-type': found?.type ?? 'application/json' })
      response.end(found?.body ?? NOT_FOUND)
    })
  })
  return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server)))
}

interface Run {
  readonly code: number
  readonly out: string
  readonly err: string
}

function kubectl(server: Server, home: string, ...args: readonly string[]): Promise<Run> {
  const { port } = server.address() as AddressInfo
  const options = {
    env: { ...process.env, HOME: home, KUBECONFIG: join(home, 'none'), KUBECACHEDIR: join(home, 'cache') },
  }
  return new Promise((resolve) => {
    execFile(kubectlBinary, ['-s', `http://127.0.0.1:${port}`, ...args], options, (error, out, err) => {
      resolve({ code: error === null ? 0 : Number(error.code ?? 1), out, err })
    })
  })
}

void t.test('kubectl finds its way with these documents alone', async (t) => {
  const home = mkdtempSync(join(tmpdir(), 'kubectl-'))
  const server = await listen()
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
    rmSync(home, { recursive: true, force: true })
  })

  const resources = await kubectl(server, home, 'api-resources')
  t.equal(resources.code, 0, resources.err)
  t.match(resources.out, /^pods +po +v1 +true +Pod$/m)
  t.match(resources.out, /^deployments +deploy +apps\/v1 +true +Deployment$/m)
  t.match(resources.out, /^flags +distributary.io\/v1 +false +Flag$/m)
  t.notMatch(resources.out, /secrets/)
  t.same(
    asked.filter((path) => path.startsWith('/apis/')),
    [],
    'the aggregated documents were enough',
  )

  const versions = await kubectl(server, home, 'api-versions')
  t.equal(versions.code, 0, versions.err)
  t.match(versions.out, /^apps\/v1$/m)
  t.match(versions.out, /^v1$/m)

  const version = await kubectl(server, home, 'version')
  t.match(version.out, /Server Version: v1\.37\.2\+distributary\.0\.1\.0/)

  const pods = await kubectl(server, home, 'get', 'po', '-A')
  t.equal(pods.code, 0, pods.err)
  t.match(pods.out, /^NAMESPACE +NAME +READY +STATUS +RESTARTS +AGE$/m)
  t.match(pods.out, /^a +web-0 +0\/1 +CrashLoopBackOff +3 +3h$/m)
  const wide = await kubectl(server, home, 'get', 'pods', '-n', 'a', '-o', 'wide')
  t.match(wide.out, /NOMINATED NODE +READINESS GATES$/m)
  t.match(wide.out, /10\.0\.0\.1 +n7 +<none> +<none>$/m)

  const explained = await kubectl(server, home, 'explain', 'pods')
  t.equal(explained.code, 0, explained.err)
  t.match(explained.out, /^KIND: +Pod\nVERSION: +v1$/m)
  t.match(explained.out, /^ +metadata\t<ObjectMeta>$/m)
  const size = await kubectl(server, home, 'explain', 'caches.spec.size')
  t.match(size.out, /^GROUP: +edge.example.com$/m, size.err)
  t.match(size.out, /How big\./)
  const flag = await kubectl(server, home, 'explain', 'flags')
  t.match(flag.out, /^ +lease\t<string>$/m, flag.err)
  const missing = await kubectl(server, home, 'explain', 'pods.nope')
  t.match(missing.err, /field "nope" does not exist/)

  const created = await kubectl(server, home, 'create', 'configmap', 'a', '--dry-run=client', '-o', 'json')
  const manifest = join(home, 'configmap.json')
  writeFileSync(manifest, created.out)
  asked.length = 0
  const refused = await kubectl(server, home, 'create', '-f', manifest)
  t.match(refused.err, /Error from server/, 'validation by the empty v2 document lets it through to the server')
  t.equal(asked.at(-1), '/api/v1/namespaces/default/configmaps', refused.err)

  const secrets = await kubectl(server, home, 'get', 'secrets')
  t.match(secrets.err, /the server doesn't have a resource type "secrets"/)
})

void t.test('an older kubectl, which knows only the old documents, finds the same resources', async (t) => {
  const home = mkdtempSync(join(tmpdir(), 'kubectl-'))
  const servers = [await listen(), await listen('application/json')]
  t.teardown(() => {
    for (const server of servers) {
      server.closeAllConnections()
      server.close()
    }
    rmSync(home, { recursive: true, force: true })
  })
  const [now, before] = await Promise.all(
    servers.map((server) => kubectl(server, home, 'api-resources', '-o', 'wide', '--sort-by=name')),
  )
  t.equal(before?.code, 0, before?.err ?? '')
  t.equal(before?.out, now?.out)
  t.ok(
    asked.includes('/apis/apps/v1') && asked.includes('/apis/distributary.io/v1'),
    'the old documents were asked for',
  )
})
