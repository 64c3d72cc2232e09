/**
 * istiod, unmodified, twice: one follows Kubernetes' own API server, and one distributary. The state that they compute
 * from services, endpoint slices, pods and Istio's own kinds is equal at every moment, through restarts. With a server
 * next to etcd, no restart makes istiod list again; a server with `--upstream` starts without a history.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { ask } from '../../reference/ask.js'
import type { ApiServer } from '../../reference/control-plane.js'
import { parseManifests } from '../../ops/support/chart.js'
import { freePorts } from '../../support/free-port.js'
import { buildGoProgram, moduleFolder } from '../../support/go-program.js'
import { pause, until } from '../../support/until.js'
import { istiod } from '../programs.js'
import { clientFolder, sources, startCompared, urlOf } from '../support/api-server.js'
import { disruptions, momentAfter } from '../support/disruptions.js'
import type { Stage, World } from '../support/stage.js'
import { type RunningProcess, startProcess } from '../support/start-process.js'
import { settledWatches } from '../support/survive.js'

const program = buildGoProgram(istiod)

/** The debug pages that show its computed state. */
const pages = ['configz', 'registryz', 'endpointz', 'endpointShardz'] as const

const SYSTEM = 'istio-system'

/** The path of the definitions in Istio's module. */
const DEFINITIONS = 'manifests/charts/base/files/crd-all.gen.yaml'

interface Applied {
  readonly kind: string
  readonly metadata: {
    readonly name: string
    readonly namespace?: string
    readonly labels?: Readonly<Record<string, string>>
  }
  readonly [part: string]: unknown
}

const places: Readonly<Record<string, readonly [apiVersion: string, plural: string]>> = {
  Namespace: ['v1', 'namespaces'],
  Service: ['v1', 'services'],
  Pod: ['v1', 'pods'],
  Node: ['v1', 'nodes'],
  EndpointSlice: ['discovery.k8s.io/v1', 'endpointslices'],
  CustomResourceDefinition: ['apiextensions.k8s.io/v1', 'customresourcedefinitions'],
  VirtualService: ['networking.istio.io/v1', 'virtualservices'],
  DestinationRule: ['networking.istio.io/v1', 'destinationrules'],
  Gateway: ['networking.istio.io/v1', 'gateways'],
  ServiceEntry: ['networking.istio.io/v1', 'serviceentries'],
  WorkloadEntry: ['networking.istio.io/v1', 'workloadentries'],
  Sidecar: ['networking.istio.io/v1', 'sidecars'],
  PeerAuthentication: ['security.istio.io/v1', 'peerauthentications'],
  AuthorizationPolicy: ['security.istio.io/v1', 'authorizationpolicies'],
  Telemetry: ['telemetry.istio.io/v1', 'telemetries'],
}

const of = (kind: string, name: string, parts: object, labels: Readonly<Record<string, string>> = {}): Applied => ({
  kind,
  metadata: { name, namespace: 'default', labels },
  ...parts,
})

const service = (name: string, spec: object): Applied =>
  of('Service', name, {
    spec: { selector: { app: name }, ports: [{ name: 'http', port: 80, targetPort: 8_080 }], ...spec },
  })

const slice = (name: string, addresses: readonly string[]): Applied =>
  of(
    'EndpointSlice',
    `${name}-1`,
    {
      addressType: 'IPv4',
      endpoints: addresses.map((address, i) => ({
        addresses: [address],
        conditions: { ready: i !== 1 },
        targetRef: { kind: 'Pod', name: `${name}-${i}`, namespace: 'default' },
      })),
      ports: [{ name: 'http', port: 8_080, protocol: 'TCP' }],
    },
    { 'kubernetes.io/service-name': name },
  )

const host = (name: string): string => `${name}.default.svc.cluster.local`

const route = (name: string, to: string, seconds: number): Applied =>
  of('VirtualService', name, {
    spec: {
      hosts: [host(to)],
      http: [{ timeout: `${seconds}s`, route: [{ destination: { host: host(to), subset: 'one' } }] }],
    },
  })

const rule = (name: string, connections: number): Applied =>
  of('DestinationRule', name, {
    spec: {
      host: host(name),
      trafficPolicy: { connectionPool: { tcp: { maxConnections: connections } } },
      subsets: [{ name: 'one', labels: { version: 'one' } }],
    },
  })

const external = (name: string): Applied =>
  of('ServiceEntry', name, {
    spec: {
      hosts: [`${name}.example.org`],
      ports: [{ number: 443, name: 'tls', protocol: 'TLS' }],
      resolution: 'DNS',
      location: 'MESH_EXTERNAL',
    },
  })

const initial: readonly Applied[] = [
  { kind: 'Namespace', metadata: { name: SYSTEM } },
  { kind: 'Node', metadata: { name: 'n0', labels: { 'topology.kubernetes.io/zone': 'z1' } } },
  service('web', {}),
  service('api', {}),
  service('bare', { clusterIP: 'None' }),
  service('elsewhere', { type: 'ExternalName', externalName: 'www.example.org' }),
  ...['web', 'api'].map((name) =>
    of(
      'Pod',
      `${name}-0`,
      { spec: { nodeName: 'n0', containers: [{ name: 'c', image: 'i' }] } },
      { app: name, version: 'one' },
    ),
  ),
  slice('web', ['10.2.0.1', '10.2.0.2']),
  slice('api', ['10.2.0.3']),
  route('web', 'web', 1),
  route('old', 'api', 2),
  rule('web', 10),
  external('first'),
  of('Gateway', 'edge', {
    spec: {
      selector: { istio: 'ingress' },
      servers: [{ port: { number: 80, name: 'http', protocol: 'HTTP' }, hosts: ['*.example.org'] }],
    },
  }),
  of('WorkloadEntry', 'machine', { spec: { address: '10.3.0.1', labels: { app: 'api' }, serviceAccount: 'default' } }),
  of('Sidecar', 'default', { spec: { egress: [{ hosts: ['./*', `${SYSTEM}/*`] }] } }),
  of('PeerAuthentication', 'strict', { spec: { mtls: { mode: 'STRICT' } } }),
  of('AuthorizationPolicy', 'readers', {
    spec: { action: 'ALLOW', rules: [{ to: [{ operation: { methods: ['GET'] } }] }] },
  }),
  of('Telemetry', 'traces', { spec: { tracing: [{ randomSamplingPercentage: 10 }] } }),
]

/** The path of a collection, or of an object in it. */
function pathOf({ kind, metadata: { namespace } }: Applied, name = ''): string {
  const [apiVersion, plural] = places[kind]!
  const root = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`
  const scope = namespace === undefined ? '' : `/namespaces/${namespace}`
  return `${root}${scope}/${plural}${name === '' ? '' : `/${name}`}`
}

/** Applies it at the API server; a new kind is served a moment later. */
async function apply({ server }: ApiServer, object: Applied, subresource = ''): Promise<void> {
  const path = `${pathOf(object, object.metadata.name)}${subresource}?fieldManager=test&force=true`
  const headers = { 'content-type': 'application/apply-patch+yaml', accept: 'application/json' }
  const body = Buffer.from(JSON.stringify({ apiVersion: places[object.kind]![0], ...object }))
  await until(
    async () => {
      const { code, body: said } = await ask(server, { method: 'PATCH', path, headers }, body)
      if (code !== 200 && code !== 201) throw new Error(said.toString())
      return true
    },
    `${object.kind} ${object.metadata.name} is applied`,
    30_000,
  )
}

async function remove({ server }: ApiServer, object: Applied): Promise<void> {
  const path = pathOf(object, object.metadata.name)
  const { code, body } = await ask(server, { method: 'DELETE', path, headers: { accept: 'application/json' } })
  if (code !== 200) throw new Error(body.toString())
}

let turns = 0

/** Changes some objects, deletes and recreates one, and creates two for this turn. */
async function change(apiServer: ApiServer, turn: string): Promise<void> {
  const n = ++turns
  await remove(apiServer, route('old', 'api', 2))
  const changed = [
    slice('web', [`10.2.${n}.1`, '10.2.0.2', `10.2.${n}.3`]),
    service('api', { ports: [{ name: 'grpc', port: 1_000 + n }] }),
    route('web', 'web', 1 + n),
    rule('web', 10 + n),
    route('old', 'web', 2 + n),
    external(turn),
    service(turn, {}),
    slice(turn, [`10.4.0.${n}`]),
  ]
  for (const object of changed) await apply(apiServer, object)
}

/** In each turn a Service is written into etcd, even while no distributary runs. */
const world: World = {
  initial: new Map(),
  turn: (name) => [
    {
      [`/registry/services/specs/default/raw-${name}`]: {
        apiVersion: 'v1',
        kind: 'Service',
        metadata: {
          name: `raw-${name}`,
          namespace: 'default',
          uid: `uid-${name}`,
          creationTimestamp: '2026-01-01T00:00:00Z',
        },
        spec: {
          type: 'ClusterIP',
          clusterIP: 'None',
          clusterIPs: ['None'],
          ports: [{ name: 'http', port: 80, protocol: 'TCP' }],
        },
      },
    },
  ],
}

interface Pilot {
  readonly process: RunningProcess
  /** A page, with unordered parts sorted. */
  readonly page: (name: string) => Promise<string>
}

async function startPilot(t: Test, server: string): Promise<Pilot> {
  const { folder, kubeconfig } = clientFolder(t, server)
  const [http = 0, monitoring = 0, introspection = 0] = await freePorts(3)
  const process = startProcess(
    t,
    [
      'env',
      `--chdir=${folder}`,
      program,
      'discovery',
      `--kubeconfig=${kubeconfig}`,
      `--httpAddr=127.0.0.1:${http}`,
      `--monitoringAddr=127.0.0.1:${monitoring}`,
      `--ctrlz_port=${introspection}`,
      '--httpsAddr=',
      '--grpcAddr=',
      '--secureGRPCAddr=',
    ],
    {
      POD_NAMESPACE: SYSTEM,
      POD_NAME: `istiod-${http}`,
      ENABLE_DEBUG_ON_HTTP: 'true',
      KUBE_FEATURE_WatchListClient: 'false',
    },
  )
  const page = async (name: string): Promise<string> => {
    const response = await fetch(`http://127.0.0.1:${http}/debug/${name}`)
    if (!response.ok) throw new Error(`${name}: ${response.status}`)
    return JSON.stringify(inOrder(await response.json()), null, 1)
  }
  return { process, page }
}

/** Sorts the members of objects, and sorts arrays of objects by their text. */
function inOrder(value: unknown): unknown {
  if (Array.isArray(value)) {
    const items = value.map(inOrder)
    return items.some((item) => typeof item === 'object')
      ? items
          .map((item) => JSON.stringify(item))
          .toSorted()
          .map((text) => JSON.parse(text) as unknown)
      : items
  }
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, member]) => [name, inOrder(member)]),
  )
}

const WITHIN_MS = 90_000

async function compare(t: Test, theirs: Pilot, ours: Pilot, moment: string): Promise<void> {
  for (const name of pages) {
    let [there, here] = ['', '']
    const isEqual = async (): Promise<boolean> => {
      if (ours.process.hasEnded() || theirs.process.hasEnded()) return true
      ;[there, here] = await Promise.all([theirs.page(name), ours.page(name)])
      if (there.includes(moment) && there === here) return true
      await pause(200)
      return false
    }
    await until(isEqual, `${moment}: ${name} is equal`, WITHIN_MS).catch(() => t.comment(ours.process.printed()))
    t.ok(there.includes(moment), `${moment}: ${name} shows it`)
    t.equal(here, there, `${moment}: ${name}`)
  }
}

const listsOf = (stage: Stage): readonly string[] =>
  stage
    .answered()
    .filter(({ userAgent, verb, code }) => userAgent.startsWith('istiod') && verb === 'list' && code === 200)
    .map(({ path }) => path)
    .toSorted()

for (const source of sources.filter(({ isAlone = false }) => !isAlone)) {
  void t.test(`istiod at distributary (${source.name}) computes what it computes at the API server`, async (t) => {
    const { stage, apiServer } = await startCompared(t, world, source)
    const definitions = readFileSync(join(moduleFolder(istiod, 'istio.io/istio'), DEFINITIONS), 'utf8')
    for (const definition of parseManifests(definitions, DEFINITIONS)) {
      const { apiVersion: _, ...rest } = definition as unknown as Applied
      await apply(apiServer, rest as Applied)
    }
    for (const object of initial) await apply(apiServer, object)
    const address = { phase: 'Running', podIP: '10.2.0.1', podIPs: [{ ip: '10.2.0.1' }] }
    await apply(apiServer, of('Pod', 'web-0', { status: address }), '/status')
    await until(
      async () => (await fetch(`${stage.url}/apis/telemetry.istio.io/v1/telemetries`)).status === 200,
      'the new kinds are served',
    )
    const theirs = await startPilot(t, urlOf(apiServer))
    const ours = await startPilot(t, stage.url)
    await change(apiServer, 'begun')
    await compare(t, theirs, ours, 'begun')
    let watches = 0
    for (const disruption of disruptions) {
      await t.test(`after ${disruption.name}`, async (t) => {
        watches = await settledWatches(stage, watches)
        const listed = listsOf(stage)
        t.ok(listed.length > 20, `it has listed ${listed.length} times`)
        await disruption.disrupt(stage)
        const moment = momentAfter(disruption)
        await change(apiServer, moment)
        await compare(t, theirs, ours, moment)
        if (source.name !== '--upstream') t.same(listsOf(stage), listed, 'it has not listed again')
      })
    }
    for (const { process } of [theirs, ours]) {
      t.notOk(process.hasEnded(), process.printed())
      t.notMatch(process.printed(), /panic/)
    }
  })
}
