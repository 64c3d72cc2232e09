/**
 * Programs that take their settings from a pod's variables and token directory, and nothing else, each with a service account:
 * how to start it, what it follows or does, and what the API server has of that.
 */
import { Resolver } from 'node:dns/promises'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import {
  argoCd,
  ciliumOperator,
  clientGo,
  coreDns,
  descheduler,
  helm,
  istiod,
  k9s,
  kubeProxy,
  kubeStateMetrics,
  openTelemetry,
  prometheusDiscovery,
} from '../clients/programs.js'
import { provideJava } from '../clients/support/java.js'
import { startPatroni } from '../clients/support/patroni.js'
import { startClient } from '../clients/support/program.js'
import { proxyFlags, relay, rulesOf } from '../clients/support/proxied.js'
import { providePython, pythonFolder } from '../clients/support/python.js'
import { provideRust } from '../clients/support/rust.js'
import { startProcess } from '../clients/support/start-process.js'
import { COLOUR, startTerminal } from '../clients/support/terminal.js'
import { widget, widgetDefinition, widgetsPath } from '../clients/support/widgets.js'
import { groupPath } from '../reference/discovered.js'
import { freePort, freePorts } from '../support/free-port.js'
import { buildGoProgram, moduleFolder } from '../support/go-program.js'
import { type NamespacedHost, openNetwork } from '../support/network-namespaces.js'
import { until } from '../support/until.js'
import { type Agent, LISTING, type Named, reading, turnOf, WITHIN_MS, type World } from './agent.js'
import { kubeconfigOf, temporaryFolder, tokenOf } from './cluster.js'
import { metricsServer } from './metrics-server.js'
import { DIRECTORY, type Pod } from './pod.js'
import { deschedulerPolicy } from '../clients/support/descheduler-policy.js'

/** A program that is asked through its standard input. */
const asked =
  (command: readonly string[], what = 'what', create = ''): Agent['start'] =>
  async (t, pod) => {
    const client = await startClient(t, pod.run(...command))
    return {
      held: async () => {
        const answer = (await client.ask(what)) as readonly string[] | { readonly held: readonly string[] }
        const lines = 'held' in answer ? answer.held : answer
        return lines.map((line) => line.replace(/ None$/, ' null'))
      },
      create: async (name) => (await client.ask(create + name).catch(() => false)) === true,
      printed: () => client.errors(),
      hasEnded: () => client.hasEnded(),
    }
  }

function follower(name: string, client = name): Agent {
  return {
    name,
    client,
    start: (...pod) =>
      asked([providePython(), join(pythonFolder, 'follow.py'), name.replace('-', '_'), 'in-cluster'])(...pod),
  }
}

function informer(name: string, setting: readonly string[] = []): Agent {
  const command = (): readonly string[] => [...setting, buildGoProgram(clientGo), 'in-cluster', name]
  return {
    name: `client-go-${name}`,
    client: 'client-go',
    start: (...pod) => asked(command(), `what ${name}`, 'create ')(...pod),
  }
}

function java(name: string, client: 'fabric8' | 'client-java', ...mode: readonly string[]): Agent {
  return {
    name,
    client: client === 'fabric8' ? 'fabric8 kubernetes-client' : client,
    start: (...pod) => asked([...provideJava(client), 'in-cluster', ...mode])(...pod),
  }
}

function rust(name: string, mode: string): Agent {
  return { name, client: 'kube', start: (...pod) => asked([provideRust(), 'in-cluster', mode])(...pod) }
}

/** What the collector's receiver watches. */
const COLLECTED: readonly { readonly group: string; readonly resources: readonly string[] }[] = [
  {
    group: '',
    resources: ['namespaces', 'nodes', 'pods', 'replicationcontrollers', 'resourcequotas', 'services'],
  },
  { group: 'apps', resources: ['daemonsets', 'deployments', 'replicasets', 'statefulsets'] },
  { group: 'batch', resources: ['cronjobs', 'jobs'] },
  { group: 'autoscaling', resources: ['horizontalpodautoscalers'] },
]

const metrics: Agent = {
  name: 'kube-state-metrics',
  client: 'kube-state-metrics',
  start: async (t, pod) => {
    const port = await freePort()
    const flags = [
      `--port=${port}`,
      `--telemetry-port=${await freePort()}`,
      '--resources=pods',
      '--metric-labels-allowlist=pods=[*]',
    ]
    const client = startProcess(t, pod.run(...LISTING, buildGoProgram(kubeStateMetrics), ...flags))
    return {
      held: async () => {
        const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
        return [...text.matchAll(/^kube_pod_labels\{(.*)\} 1$/gm)].map(([, labels = '']) => {
          const of = (label: string): string => new RegExp(`(?:^|,)${label}="([^"]*)"`).exec(labels)?.[1] ?? 'null'
          return `${of('pod')} ${of('label_turn')}`
        })
      },
      printed: () => client.printed(),
      hasEnded: () => client.hasEnded(),
    }
  },
}

const collector: Agent = {
  name: 'opentelemetry',
  client: 'OpenTelemetry collector',
  start: async (...pod) => {
    const { create: _, ...client } = await asked([...LISTING, buildGoProgram(openTelemetry)])(...pod)
    return client
  },
  follows: COLLECTED.flatMap(({ resources }) => resources),
  rules: COLLECTED.map(({ group, resources }) => reading(group, ...resources)),
}

// Services

interface Service extends Named {
  readonly spec: { readonly clusterIP: string; readonly ports: readonly { readonly port: number }[] }
}

interface Balanced extends Service {
  readonly spec: Service['spec'] & { readonly type?: string }
  readonly status: { readonly loadBalancer: { readonly ingress?: readonly { readonly ip: string }[] } }
}

let turns = 0

const service = (name: string, turn: string, port: number): object => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name, namespace: 'default', labels: { turn } },
  spec: { selector: { app: name }, ports: [{ name: 'http', port }] },
})

/** `web` has another port in each turn. */
const servicesOf = (turn: string): readonly object[] => {
  turns++
  return [service('web', turn, 1_000 + turns), service(turn, turn, 80)]
}

const prometheus: Agent = {
  name: 'prometheus',
  client: 'Prometheus',
  start: async (...pod) => {
    const command = [...LISTING, buildGoProgram(prometheusDiscovery), 'in-cluster', 'service']
    const { create: _, ...client } = await asked(command, 'found')(...pod)
    return client
  },
  expected: async (world) => {
    const services = await world.items<Service>('/api/v1/services')
    return services.map(({ metadata: { name, labels } }) => `service ${name} ${labels?.['turn'] ?? '?'}`)
  },
  follows: ['services'],
  rules: [reading('', 'services')],
  turn: servicesOf,
}

/** A missing name is an empty response. */
async function answers<T>(question: Promise<readonly T[]>): Promise<readonly T[]> {
  return await question.catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOTFOUND' || error.code === 'ENODATA') return []
    throw error
  })
}

const dnsName = (service: string): string => `${service}.default.svc.cluster.local`

const dns: Agent = {
  name: 'coredns',
  client: 'CoreDNS',
  start: async (t, pod, world) => {
    const file = join(temporaryFolder(t), 'Corefile')
    const port = await freePort()
    const plugins = 'bind 127.0.0.1\nerrors\nkubernetes cluster.local in-addr.arpa {\nttl 0\n}'
    writeFileSync(file, `.:${port} {\n${plugins}\n}\n`)
    const client = startProcess(t, pod.run(...LISTING, buildGoProgram(coreDns), '-conf', file))
    const resolver = new Resolver({ timeout: 2_000, tries: 3 })
    resolver.setServers([`127.0.0.1:${port}`])
    return {
      held: async () => {
        const lines = []
        for (const { metadata } of await world.items<Service>('/api/v1/namespaces/default/services')) {
          const host = dnsName(metadata.name)
          const [address = '', ...more] = await answers(resolver.resolve4(host))
          if (address === '' || metadata.labels?.['turn'] === undefined) continue
          const ports = await answers(resolver.resolveSrv(`_http._tcp.${host}`))
          const names = await answers(resolver.reverse(address))
          lines.push([host, address, ...more, ...ports.map((one) => one.port), ...names].join(' '))
        }
        return lines
      },
      printed: () => client.printed(),
      hasEnded: () => client.hasEnded(),
    }
  },
  expected: async (world) => {
    const services = await world.items<Service>('/api/v1/namespaces/default/services')
    return services
      .filter(({ metadata }) => metadata.labels?.['turn'] !== undefined)
      .map(({ metadata: { name }, spec: { clusterIP, ports } }) =>
        [dnsName(name), clusterIP, ...ports.map(({ port }) => port), dnsName(name)].join(' '),
      )
  },
  follows: ['services', 'endpointslices', 'namespaces'],
  rules: [reading('', 'services', 'namespaces'), reading('discovery.k8s.io', 'endpointslices')],
  turn: servicesOf,
}

/**
 * kube-proxy reads a kubeconfig, not the variables. It runs on the network of its node, where a relay takes the place of
 * `127.0.0.1:8001`.
 */
const proxy: Agent = {
  name: 'kube-proxy',
  client: 'kube-proxy',
  start: async (t, pod) => {
    const hosts = openNetwork(t, 1)
    if (typeof hosts === 'string') throw new Error(hosts)
    const [host] = hosts as [NamespacedHost]
    const { hostname, port } = new URL(pod.server)
    const kubeconfig = join(temporaryFolder(t), 'kubeconfig')
    const server = `https://${await relay(t, host, Number(port))}`
    const user = { tokenFile: `${DIRECTORY}/token` }
    writeFileSync(kubeconfig, kubeconfigOf({ server, name: hostname, ca: `${DIRECTORY}/ca.crt`, user }))
    const flags = [`--kubeconfig=${kubeconfig}`, '--hostname-override=proxied', ...proxyFlags]
    const client = startProcess(t, [...host.command, ...pod.run(buildGoProgram(kubeProxy), ...flags)])
    return {
      held: async () => {
        const addresses = rulesOf(host).flatMap((rule) => [...rule.matchAll(/([\d.]+) \. tcp \. (\d+)/g)])
        return [...new Set(addresses.map(([, address, port]) => `${address} ${port}`))]
      },
      printed: () => client.printed(),
      hasEnded: () => client.hasEnded(),
    }
  },
  expected: async (world) =>
    (await world.items<Balanced>('/api/v1/services')).flatMap(({ spec: { clusterIP, ports }, status }) => {
      const balanced = status.loadBalancer.ingress?.map(({ ip }) => ip) ?? []
      return [clusterIP, ...balanced].flatMap((address) => ports.map(({ port }) => `${address} ${port}`))
    }),
  follows: ['services', 'endpointslices'],
  rules: [
    reading('', 'services', 'nodes'),
    reading('discovery.k8s.io', 'endpointslices'),
    reading('networking.k8s.io', 'servicecidrs'),
    { apiGroups: ['', 'events.k8s.io'], resources: ['events'], verbs: ['create', 'patch', 'update'] },
  ],
  objects: [{ apiVersion: 'v1', kind: 'Node', metadata: { name: 'proxied' } }],
  turn: servicesOf,
}

const MESH = 'istio-system'

const ROUTES = '/apis/networking.istio.io/v1/virtualservices'

interface Route extends Named {
  readonly spec: { readonly http: readonly { readonly timeout: string }[] }
}

const lineOfService = (host: string, ports: Service['spec']['ports']): string =>
  [host, ...ports.map(({ port }) => port)].join(' ')

const lineOfRoute = ({ metadata: { name }, spec }: Route): string => `${name} ${spec.http[0]?.timeout}`

/** istiod's debug pages show what it has computed. */
const mesh: Agent = {
  name: 'istiod',
  client: 'istiod',
  start: async (t, pod, { cluster }) => {
    const definitions = join(moduleFolder(istiod, 'istio.io/istio'), 'manifests/charts/base/files/crd-all.gen.yaml')
    cluster.kubectl(['apply', '--server-side', '-f', definitions])
    const [http = 0, monitoring = 0, introspection = 0] = await freePorts(3)
    const flags = [
      'discovery',
      `--httpAddr=127.0.0.1:${http}`,
      `--monitoringAddr=127.0.0.1:${monitoring}`,
      `--ctrlz_port=${introspection}`,
      '--httpsAddr=',
      '--grpcAddr=',
      '--secureGRPCAddr=',
    ]
    const environment = [`POD_NAMESPACE=${MESH}`, 'POD_NAME=istiod', 'ENABLE_DEBUG_ON_HTTP=true']
    const folder = [`--chdir=${temporaryFolder(t)}`]
    const client = startProcess(
      t,
      pod.run('env', ...folder, ...LISTING.slice(1), ...environment, buildGoProgram(istiod), ...flags),
    )
    const page = async <T>(name: string): Promise<readonly T[]> =>
      (await (await fetch(`http://127.0.0.1:${http}/debug/${name}`)).json()) as readonly T[]
    return {
      held: async () => {
        const services = await page<{ hostname: string; ports?: Service['spec']['ports'] }>('registryz')
        const routes = (await page<Route & { kind: string }>('configz')).filter(({ kind }) => kind === 'VirtualService')
        return [
          ...services.map(({ hostname, ports = [] }) => lineOfService(hostname, ports)),
          ...routes.map(lineOfRoute),
        ]
      },
      printed: () => client.printed(),
      hasEnded: () => client.hasEnded(),
    }
  },
  expected: async (world) => {
    const services = await world.items<Service>('/api/v1/services')
    return [
      ...services.map(({ metadata: { name, namespace }, spec: { ports } }) =>
        lineOfService(`${name}.${namespace}.svc.cluster.local`, ports),
      ),
      ...(await world.items<Route>(ROUTES)).map(lineOfRoute),
    ]
  },
  follows: ['services', 'pods', 'endpointslices', 'virtualservices', 'destinationrules'],
  rules: [
    reading('*', '*'),
    { apiGroups: [''], resources: ['configmaps', 'secrets'], verbs: ['create', 'update', 'patch', 'delete'] },
    { apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs: ['create', 'update', 'patch'] },
  ],
  objects: [{ apiVersion: 'v1', kind: 'Namespace', metadata: { name: MESH } }],
  turn: (turn) =>
    ['route', turn].map((name) => ({
      apiVersion: 'networking.istio.io/v1',
      kind: 'VirtualService',
      metadata: { name, namespace: 'default' },
      spec: {
        hosts: [`${name}.example.org`],
        http: [{ timeout: `${++turns}s`, route: [{ destination: { host: 'web' } }] }],
      },
    })),
}

// Agents that write

/** Argo CD excludes these, and so does the program. */
const EXCLUDED = new Set(['events.k8s.io', 'coordination.k8s.io'])
const EXCLUDED_KINDS = new Set(['Event', 'Endpoints', 'EndpointSlice', 'CertificateSigningRequest'])

const delivery: Agent = {
  name: 'argocd',
  client: 'Argo CD',
  start: (...pod) => asked([buildGoProgram(argoCd)], 'what', 'create ')(...pod),
  expected: async (world) => {
    const lines = new Set<string>()
    for (const { group, version, kind, plural, verbs } of await world.served()) {
      if (!verbs.includes('list') || !verbs.includes('watch')) continue
      if (EXCLUDED.has(group) || EXCLUDED_KINDS.has(kind)) continue
      for (const object of await world.items<Named>(`${groupPath(group, version)}/${plural}`)) {
        const { namespace = '', name } = object.metadata
        lines.add(`${group}/${kind} ${namespace}/${name} ${turnOf(object)}`)
      }
    }
    return [...lines]
  },
  follows: ['pods', 'services', 'configmaps', 'nodes', 'namespaces', 'customresourcedefinitions', 'widgets'],
  rules: [reading('*', '*'), { apiGroups: [''], resources: ['configmaps'], verbs: ['create', 'patch', 'update'] }],
}

interface Widget extends Named {
  readonly spec: { readonly size: number }
  readonly status?: { readonly size?: number }
}

const operator: Agent = {
  name: 'kopf',
  client: 'kopf',
  start: async (t, pod, world) => {
    const flags = ['--standalone', '--all-namespaces', join(pythonFolder, 'kopf_operator.py')]
    const kopf = startProcess(t, pod.run(providePython(), '-m', 'kopf', 'run', ...flags))
    return {
      held: async () =>
        (await world.items<Widget>(widgetsPath)).map((one) => `${one.metadata.name} ${one.status?.size}`),
      printed: () => kopf.printed(),
      hasEnded: () => kopf.hasEnded(),
    }
  },
  expected: async (world) =>
    (await world.items<Widget>(widgetsPath)).map((one) => `${one.metadata.name} ${one.spec.size}`),
  follows: ['widgets'],
  rules: [
    reading('apiextensions.k8s.io', 'customresourcedefinitions'),
    reading('', 'namespaces'),
    { apiGroups: ['example.com'], resources: ['widgets', 'widgets/status'], verbs: ['get', 'list', 'watch', 'patch'] },
  ],
  objects: [widgetDefinition],
  turn: (turn) => [withoutIdentity(widget('w', ++turns)), withoutIdentity(widget(turn, ++turns))],
}

/** Returns the object as a client would post it. */
function withoutIdentity(object: object): object {
  const { metadata, ...rest } = object as Named & { metadata: { uid?: string; creationTimestamp?: string } }
  const { uid: _uid, creationTimestamp: _at, ...named } = metadata
  return { ...rest, metadata: named }
}

const balanced = async (world: World): Promise<readonly Balanced[]> =>
  (await world.items<Balanced>('/api/v1/services')).filter(({ spec: { type } }) => type === 'LoadBalancer')

/** The operator creates its own definitions, and writes the addresses of load balancers into the status of their services. */
const balancer: Agent = {
  name: 'cilium-operator',
  client: 'Cilium operator',
  start: async (t, pod, world) => {
    const { cluster } = world
    const flags = [
      `--operator-api-serve-addr=127.0.0.1:${await freePort()}`,
      `--gops-port=${await freePort()}`,
      '--identity-allocation-mode=crd',
      '--ipam=kubernetes',
      '--enable-ipv4',
      '--k8s-namespace=default',
      // The API may be away for longer than its ten seconds on a busy machine.
      '--leader-election-lease-duration=60s',
      '--leader-election-renew-deadline=50s',
    ]
    const client = startProcess(t, pod.run(...LISTING, buildGoProgram(ciliumOperator), ...flags))
    const created = 'ciliumloadbalancerippools.cilium.io'
    await until(
      () => client.hasEnded() || cluster.kubectl(['get', 'crd', '--ignore-not-found', created, '-o', 'name']) !== '',
      () => `it has created its definitions: ${client.printed()}`,
      WITHIN_MS,
    )
    cluster.kubectl(['wait', '--for=condition=Established', `crd/${created}`])
    cluster.kubectl(['apply', '--server-side', '-f', '-'], JSON.stringify(POOL))
    return {
      held: async () =>
        (await balanced(world)).map(
          ({ metadata: { name }, status }) => `${name} ${status.loadBalancer.ingress?.length ?? 0}`,
        ),
      printed: () => client.printed(),
      hasEnded: () => client.hasEnded(),
    }
  },
  expected: async (world) => (await balanced(world)).map(({ metadata: { name } }) => `${name} 1`),
  follows: ['services', 'ciliumloadbalancerippools'],
  rules: [
    reading('', 'namespaces', 'nodes', 'pods', 'secrets', 'serviceaccounts', 'services'),
    reading('discovery.k8s.io', 'endpointslices'),
    { apiGroups: [''], resources: ['services/status'], verbs: ['patch', 'update'] },
    { apiGroups: ['cilium.io'], resources: ['*'], verbs: ['*'] },
    {
      apiGroups: ['apiextensions.k8s.io'],
      resources: ['customresourcedefinitions'],
      verbs: ['get', 'list', 'watch', 'create', 'update'],
    },
    { apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs: ['get', 'create', 'update'] },
  ],
  turn: (turn) => {
    const { spec, ...rest } = service(`balanced-${turn}`, turn, 80) as Service
    return [{ ...rest, spec: { ...spec, type: 'LoadBalancer' } }]
  },
}

const POOL = {
  apiVersion: 'cilium.io/v2alpha1',
  kind: 'CiliumLoadBalancerIPPool',
  metadata: { name: 'pool' },
  spec: { blocks: [{ cidr: '192.0.2.0/24' }] },
}

const CHART: Readonly<Record<string, string>> = {
  'Chart.yaml': 'apiVersion: v2\nname: shop\nversion: 1.0.0\n',
  'templates/map.yaml': 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\n',
}

/** Helm keeps its releases in Secrets, requests for which are forwarded to the API server. */
const installer: Agent = {
  name: 'helm',
  client: 'Helm',
  start: async (t, pod) => {
    const chart = join(temporaryFolder(t), 'shop')
    for (const [path, text] of Object.entries(CHART)) {
      mkdirSync(dirname(join(chart, path)), { recursive: true })
      writeFileSync(join(chart, path), text)
    }
    let printed = ''
    const run = async (...args: readonly string[]): Promise<string> => {
      const client = startProcess(t, pod.run(buildGoProgram(helm), '--namespace=default', ...args))
      await until(
        () => client.hasEnded(),
        () => `helm has ended: ${client.printed()}`,
      )
      printed = client.printed()
      return printed
    }
    return {
      held: async () => (await run('list', '--short')).split('\n').filter((line) => line !== ''),
      create: async (name) => (await run('upgrade', '--install', name, chart)).includes('STATUS: deployed'),
      printed: () => printed,
    }
  },
  expected: async (world) => {
    const secrets = await world.items<Named>('/api/v1/namespaces/default/secrets?labelSelector=owner=helm')
    return [...new Set(secrets.map(({ metadata }) => metadata.labels!['name']!))]
  },
  follows: [],
  rules: [
    {
      apiGroups: [''],
      resources: ['configmaps', 'secrets'],
      verbs: ['get', 'list', 'watch', 'create', 'update', 'patch', 'delete'],
    },
  ],
}

const READY = { conditions: [{ type: 'Ready', status: 'True' }] }
const EVICTED = 'evicted'

const policy = deschedulerPolicy({
  PodLifeTime: { maxPodLifeTimeSeconds: 1, namespaces: { include: [EVICTED] }, states: ['Pending'] },
})

const evictor: Agent = {
  name: 'descheduler',
  client: 'descheduler',
  start: async (t, pod, world) => {
    const folder = temporaryFolder(t)
    const file = join(folder, 'policy.json')
    writeFileSync(file, JSON.stringify(policy))
    const flags = [
      `--policy-config-file=${file}`,
      `--secure-port=${await freePort()}`,
      '--bind-address=127.0.0.1',
      `--cert-dir=${folder}`,
      '--descheduling-interval=1s',
      '--v=3',
    ]
    const client = startProcess(t, pod.run(...LISTING, buildGoProgram(descheduler), ...flags))
    return {
      held: async () =>
        (await world.items<Named>(`/api/v1/namespaces/${EVICTED}/pods`)).map(({ metadata }) => metadata.name),
      printed: () => client.printed(),
      hasEnded: () => client.hasEnded(),
    }
  },
  expected: async () => ['critical'],
  follows: ['pods', 'nodes'],
  rules: [
    reading('', 'nodes', 'namespaces', 'persistentvolumeclaims'),
    reading('scheduling.k8s.io', 'priorityclasses'),
    reading('policy', 'poddisruptionbudgets'),
    { apiGroups: [''], resources: ['pods/eviction'], verbs: ['create'] },
    { apiGroups: ['', 'events.k8s.io'], resources: ['events'], verbs: ['create', 'patch'] },
  ],
  objects: [
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: EVICTED } },
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'default', namespace: EVICTED } },
    ...['one', 'two'].map((name) => ({ apiVersion: 'v1', kind: 'Node', metadata: { name }, status: READY })),
    owned('critical', 'system-cluster-critical'),
  ],
  turn: (turn) => [owned(`evicted-${turn}`)],
}

/** A pod with an owner, since others are not evicted. */
function owned(name: string, priorityClassName?: string): object {
  const owner = { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'owner', uid: 'uid-owner', controller: true }
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: EVICTED, ownerReferences: [owner] },
    spec: {
      nodeName: 'one',
      ...(priorityClassName === undefined ? {} : { priorityClassName }),
      containers: [{ name: 'c', image: 'i' }],
    },
  }
}

const DATABASE = 'database'

interface Lock {
  readonly metadata: { readonly annotations: Readonly<Record<string, string>> }
}

const database: Agent = {
  name: 'patroni',
  client: 'Patroni',
  start: async (t, pod, world) => {
    // The API may be away for longer than Patroni's ten seconds on a busy machine.
    const { process, sql } = await startPatroni(t, { pod: DATABASE, retrySeconds: 30, run: pod.run })
    let renewed = ''
    return {
      // A lock that has not been renewed since the last question says nothing.
      held: async () => {
        const path = '/api/v1/namespaces/default/configmaps/demo-leader'
        const { leader, transitions, renewTime } = (await world.get<Lock>(path)).metadata.annotations
        if (renewTime === renewed) return []
        renewed = renewTime!
        const isDemoted = /demot/i.test(process.printed())
        return [`${leader} ${transitions} ${sql('SELECT pg_is_in_recovery()')} ${isDemoted}`]
      },
      printed: () => process.printed(),
      hasEnded: () => process.hasEnded(),
    }
  },
  expected: async () => [`${DATABASE} 0 f false`],
  follows: [],
  withoutToken: 'it reads the new one a minute later, and is demoted before',
  rules: [
    { apiGroups: [''], resources: ['pods'], verbs: ['get', 'patch', 'update'] },
    {
      apiGroups: [''],
      resources: ['configmaps'],
      verbs: ['get', 'list', 'watch', 'patch', 'update', 'delete'],
    },
  ],
  objects: [
    {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: DATABASE, namespace: 'default', labels: { application: 'patroni', 'cluster-name': 'demo' } },
      spec: { containers: [{ name: 'c', image: 'i' }] },
    },
  ],
}

const TERMINAL = ['env', 'TERM=screen-256color', 'LANG=C.UTF-8', ...LISTING.slice(1)]

/** Ages differ by the moment at which a screen is drawn, and the width of their column with them. */
const withoutAge = (line: string): string =>
  line
    .replaceAll(new RegExp(COLOUR, 'g'), '')
    .replaceAll(/ (?:\d+[smhd])+ /g, ' ')
    .replaceAll(/[ ─]+/g, ' ')

/**
 * k9s dials the host in a pod's variables, but takes its context and namespace from a kubeconfig. So it gets one that names
 * the host and the files of a pod. Another k9s, with the same service account, shows the API server: their screens are equal.
 */
const screen: Agent = {
  name: 'k9s',
  client: 'k9s',
  start: async (t, pod, { cluster }) => {
    const start = (settings: Parameters<typeof kubeconfigOf>[0], run: Pod['run']) => {
      const folder = temporaryFolder(t)
      const [kubeconfig, log] = [join(folder, 'kubeconfig'), join(folder, 'log')]
      writeFileSync(kubeconfig, kubeconfigOf(settings))
      const ui = { splashless: true, logoless: true }
      const config = { k9s: { refreshRate: 2, skipLatestRevCheck: true, ui } }
      writeFileSync(join(folder, 'config.yaml'), JSON.stringify(config))
      const flags = ['--kubeconfig', kubeconfig, '--logFile', log, '--namespace', 'default', '--command', 'pods']
      const environment = [`HOME=${folder}`, `K9S_CONFIG_DIR=${folder}`]
      const terminal = startTerminal(t, run(...TERMINAL, ...environment, buildGoProgram(k9s), ...flags), {
        PATH: process.env['PATH'] ?? '',
      })
      return { shown: async () => terminal.screen().map(withoutAge), log: () => readFileSync(log, 'utf8') }
    }
    const ours = start(
      { server: pod.server, ca: `${DIRECTORY}/ca.crt`, user: { tokenFile: `${DIRECTORY}/token` } },
      pod.run,
    )
    const token = tokenOf(cluster, 'monitoring', 'k9s')
    const theirs = start({ server: cluster.url, ca: cluster.ca, user: { token } }, (...command) => command)
    // There is nothing to compare until the API server's screen shows every pod.
    const expected = async (world: World): Promise<readonly string[]> => {
      const lines = await theirs.shown()
      const pods = await world.items<Named>('/api/v1/namespaces/default/pods')
      const missing = pods.filter(({ metadata: { name } }) => !lines.some((line) => line.includes(` ${name} `)))
      return missing.length === 0 ? lines : missing.map(({ metadata: { name } }) => name)
    }
    return { held: ours.shown, expected, printed: ours.log }
  },
  rules: [reading('', 'pods', 'namespaces', 'nodes')],
}

export const agents: readonly Agent[] = [
  informer('typed'),
  informer('dynamic', LISTING),
  informer('metadata', LISTING),
  metrics,
  metricsServer,
  collector,
  follower('kubernetes', 'Python kubernetes'),
  follower('kubernetes-asyncio', 'kubernetes_asyncio'),
  follower('lightkube'),
  follower('kr8s'),
  java('fabric8', 'fabric8'),
  // Its informer lists again after each connection that was cut, whatever the server does.
  { ...java('client-java', 'client-java', 'informer'), follows: [] },
  java('client-java-watch', 'client-java', 'watch'),
  rust('kube', 'paged'),
  rust('kube-streaming', 'streaming'),
  prometheus,
  dns,
  proxy,
  mesh,
  operator,
  delivery,
  balancer,
  installer,
  evictor,
  database,
  screen,
]
