import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { Ajv } from 'ajv'
import t from 'tap'
import { parse } from 'yaml'
import { resourceId } from '../../src/engine/model/resource.js'
import { wellKnownResources } from '../../src/kubernetes/dialect/well-known-resources.js'
import { load } from '../../src/server/config/load.js'
import { optionNames, yamlKey } from '../../src/server/config/options.js'
import {
  chartFolder,
  defaultValues,
  helm,
  lintWithHelm,
  modeValues,
  RELEASE,
  renderChart,
  renderWithHelm,
  type Values,
} from './support/chart.js'
import { customKinds } from './support/custom-kinds.js'
import { GoTemplates } from './support/go-template.js'
import { type KubernetesObject, problemsOf } from './support/kubernetes-objects.js'

const etcd = { etcdServers: ['https://etcd:2379'] }
const open = { ...etcd, insecureBindAny: true }
const judged = { ...etcd, authorizationMode: ['RBAC'] }
const tls = { enabled: true, secretName: 'server', clientCaSecretName: 'clients' }
const noHelm = helm === null ? 'no helm here (HELM_BIN, or npm run test:helm)' : false

const MODES = modeValues()
const ALWAYS = ['ConfigMap', 'ServiceAccount']
const STANDALONE = [...ALWAYS, 'Deployment', 'NetworkPolicy', 'Pod', 'PodDisruptionBudget', 'Service']
const NATS = ['ConfigMap', 'NetworkPolicy', 'PodDisruptionBudget', 'Secret', 'Secret', 'Service', 'StatefulSet']

/** The kinds that the manifests of each file in ci/ must contain. */
const KINDS: Readonly<Record<string, readonly string[]>> = {
  agents: [...STANDALONE, 'ClusterRoleBinding', 'ConfigMap', 'Secret'],
  'agents-upstream': [...STANDALONE, 'ClusterRole', 'ClusterRoleBinding', 'ClusterRoleBinding', 'ConfigMap', 'Secret'],
  standalone: STANDALONE,
  sidecar: [...ALWAYS, 'DaemonSet'],
  'sidecar-plaintext': [...ALWAYS, 'DaemonSet', 'PodMonitor'],
  'sidecar-tls': [...ALWAYS, 'DaemonSet'],
  candidate: [...STANDALONE, ...NATS],
  edge: STANDALONE,
  'nats-secrets': [...STANDALONE, ...NATS.filter((kind) => kind !== 'Secret')],
  upstream: STANDALONE,
  passthrough: [...STANDALONE, 'Certificate', 'Ingress'],
  writes: STANDALONE,
  openshift: [...STANDALONE, ...NATS],
  everything: [
    ...STANDALONE,
    // Without TLS there is no certificate.
    ...NATS.toSpliced(NATS.indexOf('Secret'), 1),
    'ConfigMap',
    'ConfigMap',
    'ConfigMap',
    'HTTPRoute',
    'HorizontalPodAutoscaler',
    'PrometheusRule',
    'ServiceMonitor',
  ],
}

void t.test('every mode of the server has a values file', async (t) => {
  t.same([...MODES.keys()].sort(), Object.keys(KINDS).sort())
})

for (const [name, values] of MODES) {
  void t.test(`the chart renders: ${name}`, async (t) => {
    const { objects, notes } = renderChart(values)
    t.same(objects.map((object) => object.kind).sort(), [...(KINDS[name] ?? [])].sort())
    t.same(
      objects.flatMap((object) => problemsOf(object)),
      [],
      'Kubernetes knows every field, and has all that it needs',
    )
    const ids = objects.map((object) => idOf(object))
    t.equal(new Set(ids).size, ids.length, 'no name is taken twice')
    t.match(notes, /curl|port-forward/)
    const config = serverConfig(objects)
    const files: string[] = []
    const read = (path: string): string => {
      if (path === '/config') return JSON.stringify(config)
      files.push(path)
      return 'x'
    }
    const container = podOf(objects).containers.find(({ name }) => name === 'distributary')!
    const environment = Object.fromEntries(
      (container.env ?? []).map(({ name, value }) => [name, value ?? 'from elsewhere']),
    )
    const loaded = load(['--config', '/config', ...container.args.slice(2)], environment, read)
    t.equal(loaded.kind, 'run', 'the server takes the configuration')
    const pod = podOf(objects)
    const mounts = container.volumeMounts.map((mount) => mount.mountPath)
    // Kubernetes itself mounts it.
    if (pod.automountServiceAccountToken === true) mounts.push('/var/run/secrets/kubernetes.io/serviceaccount')
    for (const file of files) {
      t.ok(
        mounts.some((mount) => file === mount || file.startsWith(`${mount}/`)),
        `${file} is mounted`,
      )
    }
    const volumes = pod.volumes.map((volume) => volume.name)
    t.same(container.volumeMounts.map((mount) => mount.name).sort(), volumes.sort(), 'each volume is mounted')
  })

  void t.test(`helm renders the same, and its linter passes: ${name}`, { skip: noHelm }, async (t) => {
    t.equal(lintWithHelm(name), null)
    const { objects, problem } = renderWithHelm(name)
    t.equal(problem, null)
    const byName = (all: readonly KubernetesObject[]): unknown[] =>
      all.map((object) => masked(object)).sort((a, b) => (idOf(a) < idOf(b) ? -1 : 1))
    t.same(byName(objects), byName(renderChart(values).objects))
  })
}

const edge = { natsRole: 'edge', insecureBindAny: true }
const ingress = { enabled: true, hosts: [{ host: 'a.example' }] }

const definitions = customKinds()
const noDefinitions = definitions === null ? 'their definitions are not here (npm run test:helm)' : false

void t.test('objects of other projects match their definitions', { skip: noDefinitions }, async (t) => {
  const seen = new Set<string>()
  for (const [name, values] of MODES) {
    for (const object of renderChart(values).objects) {
      const schema = definitions!.get(`${object.apiVersion} ${object.kind}`)
      if (schema === undefined) continue
      seen.add(object.kind)
      // Formats such as int64 are not JSON Schema's.
      const validate = new Ajv({ strict: false, validateFormats: false }).compile(schema)
      t.ok(validate(object), `${name}: ${object.kind}: ${JSON.stringify(validate.errors)}`)
    }
  }
  t.same([...seen].sort(), ['Certificate', 'HTTPRoute', 'PodMonitor', 'PrometheusRule', 'ServiceMonitor'])
})

const refused: Readonly<Record<string, { values: Values; why: RegExp }>> = {
  'nobody said where the objects are': {
    values: { config: { insecureBindAny: true } },
    why: /config\.etcdServers is required/,
  },
  'plain HTTP for everyone, unsaid': { values: { config: etcd }, why: /anyone who can reach the port/ },
  'TLS without anybody who is asked': {
    values: { config: etcd, tls: { enabled: true, secretName: 'server' } },
    why: /Nothing authenticates clients/,
  },
  'clients who are known, and nobody who says what they may read': {
    values: { config: etcd, tls },
    why: /config\.authorizationMode is required/,
  },
  'an API server behind it, and nobody who says what may be read here': {
    values: { config: { ...open, passthrough: 'https://a' } },
    why: /config\.authorizationMode is required/,
  },
  'aggregated APIs behind it, and nobody who says what may be read here': {
    values: { config: { ...open, apiservice: ['a.b/v1=https://c'] } },
    why: /config\.authorizationMode is required/,
  },
  'the same of a sidecar': {
    values: { mode: 'sidecar', tls },
    why: /config\.authorizationMode is required/,
  },
  'TLS without a certificate': {
    values: { config: open, tls: { enabled: true } },
    why: /tls\.secretName/,
  },
  'cert-manager without an issuer': {
    values: { config: open, tls: { enabled: true, certManager: { enabled: true } } },
    why: /issuerRef\.name is required/,
  },
  'an edge without a fleet': { values: { config: edge }, why: /needs a fleet/ },
  'an upstream and an etcd': { values: { config: { ...open, upstream: 'https://a' } }, why: /the only source/ },
  'a sidecar of nothing': { values: { mode: 'sidecar', config: edge }, why: /the etcd beside it/ },
  'two fleets': {
    values: { config: { ...open, natsServers: ['nats://a'] }, nats: { enabled: true } },
    why: /only one of them/,
  },
  'a PodMonitor without its port': {
    values: { config: open, podMonitor: { enabled: true } },
    why: /podMonitor needs metrics\.port/,
  },
  'two monitors of the same pods': {
    values: { config: open, metrics: { port: 9090 }, podMonitor: { enabled: true }, serviceMonitor: { enabled: true } },
    why: /would both scrape every pod/,
  },
  'one port for metrics and clients': {
    values: { config: open, metrics: { port: 8001 } },
    why: /metrics\.port and containerPort are the same/,
  },
  'GOAWAY with a single replica': {
    values: { replicas: 1, config: { ...open, goawayChance: 0.001 } },
    why: /config\.goawayChance needs several replicas/,
  },
  'GOAWAY beside an etcd': {
    values: { mode: 'sidecar', config: { goawayChance: 0.001 } },
    why: /config\.goawayChance needs several replicas/,
  },
  'rebalancing a DaemonSet': {
    values: { mode: 'sidecar', rebalance: { enabled: true } },
    why: /rebalance needs the Service/,
  },
  'rebalancing where clients stay on their node': {
    values: { config: open, rebalance: { enabled: true }, service: { internalTrafficPolicy: 'Local' } },
    why: /rebalance cannot be combined with the policy Local/,
  },
  'rebalancing where the load balancer stays on a node': {
    values: { config: { ...open, rebalance: 'a/b' }, service: { type: 'NodePort', externalTrafficPolicy: 'Local' } },
    why: /rebalance cannot be combined with the policy Local/,
  },
  'rebalancing a single replica': {
    values: { replicas: 1, config: open, rebalance: { enabled: true } },
    why: /rebalance needs several replicas/,
  },
  'agents without TLS': {
    values: { config: open, agents: { enabled: true } },
    why: /agents\.enabled needs tls\.enabled/,
  },
  'agents without an issuer, where etcd is out of reach': {
    values: { config: { upstream: 'in-cluster' }, agents: { enabled: true }, tls: { enabled: true, generate: true } },
    why: /config\.serviceAccountIssuer is required .*kubectl get --raw/,
  },
  'agents that write elsewhere than they read': {
    values: {
      config: { upstream: 'in-cluster', serviceAccountIssuer: ['https://a'], passthrough: 'https://b' },
      agents: { enabled: true },
      tls: { enabled: true, generate: true },
    },
    why: /config\.passthrough must be agents\.apiServer/,
  },
  'RBAC without etcd': {
    values: { config: { upstream: 'in-cluster', authorizationMode: ['RBAC'] }, tls },
    why: /use \[Webhook\]/,
  },
  'two credentials for one API server': {
    values: { config: { upstream: 'in-cluster', kubeconfig: '/k', insecureBindAny: true } },
    why: /remove config\.kubeconfig/,
  },
  'two certificates': {
    values: { config: judged, tls: { ...tls, generate: true } },
    why: /each provide a certificate/,
  },
  'an Ingress whose controller is kept out': {
    values: { config: open, ingress },
    why: /networkPolicy\.from must admit/,
  },
  'an Ingress to no Service': { values: { mode: 'sidecar', ingress }, why: /does not have/ },
  'an Ingress without a host': {
    values: { config: open, ingress: { enabled: true }, networkPolicy: { enabled: false } },
    why: /ingress\.hosts is required/,
  },
  'a route without a gateway': {
    values: { config: open, httpRoute: { enabled: true }, networkPolicy: { enabled: false } },
    why: /httpRoute\.parentRefs is required/,
  },
  'sidecars whose NATS would not let them in': {
    values: { mode: 'sidecar', nats: { enabled: true } },
    why: /nats\.networkPolicy\.from must admit/,
  },
  'a disk too small for its streams': {
    values: { config: open, nats: { enabled: true, storage: '1Gi', resourceCount: 1000 } },
    why: /too little for 1000 resources/,
  },
}

for (const [name, { values, why }] of Object.entries(refused)) {
  void t.test(`the chart rejects: ${name}`, async (t) => {
    t.throws(() => renderChart(values), why)
    if (helm !== null) t.match(renderWithHelm(values).problem, why)
  })
}

const schema = JSON.parse(readFileSync(`${chartFolder}values.schema.json`, 'utf8')) as {
  properties: Record<string, { properties: Record<string, Schema> }>
}

void t.test('the notes of a sidecar name its port', async (t) => {
  const { notes } = renderChart({ mode: 'sidecar', containerPort: 9443, service: { port: 443 } })
  t.match(notes, 'http://127.0.0.1:9443/readyz')
})

void t.test('the notes have doctor trust the CA that the chart created', async (t) => {
  const { notes } = renderChart(MODES.get('agents')!)
  t.match(notes, "get configmap try-distributary-ca -o jsonpath='{.data.ca\\.crt}' > ca.crt\n  distributary doctor ")
  t.match(notes, / --certificate-authority ca\.crt\n/)
  t.notMatch(renderChart({ config: etcd, agents: { enabled: true }, tls }).notes, /ca\.crt/)
})

void t.test('every option is reachable from the values, and every value under config is an option', async (t) => {
  const inSchema = Object.keys(schema.properties['config']!.properties)
  for (const name of optionNames) {
    const key = yamlKey(name)
    if (key !== null) t.ok(inSchema.includes(key), `config.${key}`)
    // The file itself; what `resources` expresses better; what a Secret puts into the environment.
    else t.ok(name === 'config' || name === 'resource', name)
  }
  for (const key of inSchema)
    t.ok(key === 'resources' || optionNames.some((name) => yamlKey(name) === key), `option ${key}`)
  const helpers = readFileSync(`${chartFolder}templates/_config.tpl`, 'utf8')
  const set = [...helpers.matchAll(/set \$config "(\w+)"/g)].map((match) => match[1]!)
  t.ok(set.length > 8)
  const names: readonly string[] = optionNames
  for (const key of set) t.ok(names.includes(key), `the chart sets ${key}`)
})

void t.test('the schema accepts the default values and those in use, and finds a typo', async (t) => {
  const validate = new Ajv({ strict: false }).compile(schema)
  for (const values of [{}, ...MODES.values()]) {
    t.ok(validate({ ...defaultValues(), ...values }), JSON.stringify(validate.errors))
  }
  for (const wrong of [
    { config: { etcdServer: 'x' } },
    { config: { watchCacheBytes: 'much' } },
    { config: { onGap: 'ignore' } },
    { mode: 'other' },
    { replica: 3 },
    { containerPort: 0 },
    { nats: { storage: '4G' } },
    { ingress: { hosts: [{ paths: [] }] } },
    { fullnameOverride: 'Upper' },
    { secretEnv: [{ name: 'PATH', secretName: 'a', key: 'b' }] },
  ]) {
    t.notOk(validate({ ...defaultValues(), ...wrong }), JSON.stringify(wrong))
  }
})

interface Schema {
  readonly type?: string
  readonly properties?: Readonly<Record<string, Schema>>
  readonly additionalProperties?: unknown
}

/** Paths of all values; a value with an open schema (a security context, resources) counts as one. */
function pathsOfValues(values: Values, schema: Schema, prefix = ''): string[] {
  return Object.entries(values).flatMap(([key, value]) => {
    const inner = schema.properties?.[key]
    const isOpen = inner?.properties === undefined || key === 'config'
    if (isOpen || typeof value !== 'object' || value === null) return [`${prefix}${key}`]
    return pathsOfValues(value as Values, inner, `${prefix}${key}.`)
  })
}

function pathsOfSchema(schema: Schema, prefix = ''): string[] {
  return Object.entries(schema.properties ?? {}).flatMap(([key, inner]) =>
    inner.properties === undefined || key === 'config' ? [`${prefix}${key}`] : pathsOfSchema(inner, `${prefix}${key}.`),
  )
}

void t.test('values and schema have the same members', async (t) => {
  const names = pathsOfSchema(schema).filter((name) => name !== 'global')
  t.same(names.sort(), pathsOfValues(defaultValues(), schema).sort())
  t.ok(names.includes('nats.auth.secretName'))
})

void t.test('the renderer reports template errors', async (t) => {
  const render = (source: string, dot: unknown = { Values: { a: { b: 1 } } }) => {
    const templates = new GoTemplates()
    templates.add('f', source)
    return templates.render('f', dot)
  }
  t.equal(render('{{ .Values.a.b }}'), '1')
  t.equal(render('a\n  {{- if .Values.a.c }} x {{- else if .Values.a.b }} y {{- end }}\nb'), 'a y\nb')
  t.equal(render('{{ range $i := until 3 }}{{ $i }},{{ end }}'), '0,1,2,')
  for (const [source, why] of [
    ['{{ if .Values.a }}', /not ended/],
    ['{{ end }}', /without a block/],
    ['{{ .Values.a.c }}', /nothing to print/],
    ['{{ .Values.x.y }}', /nothing to take .y of/],
    ['{{ nosuch .Values }}', /not defined/],
    ['{{ include "nosuch" . }}', /no template "nosuch"/],
    ['{{ $x }}', /undefined variable/],
    ['{{ .Values.a.b', /not closed/],
    ['{{ (.Values.a.b }}', /\( is not closed/],
  ] as const) {
    t.throws(() => render(source), why, source)
  }
})

void t.test('the role at the API server names each resource that is served, and no Secrets', async (t) => {
  const named = (text: string): readonly string[] => {
    const rules = parse(text) as readonly { apiGroups: string[]; resources: string[]; verbs: string[] }[]
    t.ok(rules.every(({ verbs }) => verbs.join() === 'get,list,watch'))
    return rules.flatMap(({ apiGroups, resources }) =>
      apiGroups.flatMap((group) => resources.map((plural) => (group === '' ? plural : `${plural}.${group}`))),
    )
  }
  const rules = readFileSync(`${chartFolder}files/reader-rules.yaml`, 'utf8')
  const served = wellKnownResources().filter(({ served }) => served === 'default')
  const wanted = new Set(served.map(({ resource }) => resourceId(resource)))
  wanted.delete('secrets')
  const allowed = named(rules)
  t.same(
    [...wanted].filter((id) => !allowed.includes(id)),
    [],
  )
  t.notOk(allowed.some((id) => id.includes('*') || id.startsWith('secrets')))
  const [role] = readFileSync('deploy/kubernetes/agents/upstream/reader.yaml', 'utf8').split('---\n')
  t.same(allowed, named(role!.slice(role!.indexOf('rules:') + 'rules:'.length)), 'the manifests have the same')
})

void t.test('the release’s test checks that the server is ready, also over TLS', async (t) => {
  for (const [scheme, values] of [
    ['http', { config: open, service: { port: 80 } }],
    ['https', { config: judged, tls, service: { port: 443 } }],
  ] as const) {
    const { objects } = renderChart(values)
    const pod = objects.find((object) => object.kind === 'Pod')!
    t.match(pod.metadata['annotations'], { 'helm.sh/hook': 'test' })
    t.match(JSON.stringify(pod['spec']), `${scheme}://try-distributary:${scheme === 'http' ? 80 : 443}/readyz`)
    const service = objects.find(({ kind }) => kind === 'Service')!['spec'] as { selector: Record<string, string> }
    const labels = pod.metadata['labels'] as Record<string, string>
    const isSelected = Object.entries(service.selector).every(([name, value]) => labels[name] === value)
    t.notOk(isSelected, 'and is not one of those that serve')
    const own = { ipBlock: { cidr: '10.0.0.0/8' } }
    const restricted = renderChart({ ...values, networkPolicy: { from: [own] } }).objects
    const { ingress } = specOf(restricted, 'NetworkPolicy') as { ingress: { from: Values[] }[] }
    const [first, { podSelector } = {}, ...others] = ingress[0]!.from
    t.same([first, ...others], [own])
    t.match(labels, (podSelector as Values)['matchLabels'], 'the NetworkPolicy admits it')
  }
})

void t.test('the Service has its own port', async (t) => {
  const { objects } = renderChart({ config: open, containerPort: 8443, service: { port: 443 } })
  t.equal(serverConfig(objects)['port'], 8443)
  t.match(podOf(objects).containers[0], { ports: [{ name: 'http', containerPort: 8443 }] })
  t.match(specOf(objects, 'Service'), { ports: [{ port: 443, targetPort: 'http' }] })
})

void t.test('the Service prefers near pods as far as the release of Kubernetes can', async (t) => {
  for (const [kubernetes, expected] of [
    ['v1.37.2', 'PreferSameNode'],
    ['v1.34.0-gke.1', 'PreferSameNode'],
    ['v1.33.5', 'PreferClose'],
    ['v1.31.0-eks-1', 'PreferClose'],
    ['v1.30.9', undefined],
  ] as const) {
    const of = (objects: readonly KubernetesObject[]): unknown =>
      (specOf(objects, 'Service') as Values)['trafficDistribution']
    t.equal(of(renderChart(MODES.get('agents')!, { kubernetes }).objects), expected, kubernetes)
    if (helm !== null) t.equal(of(renderWithHelm('agents', kubernetes).objects), expected, `${kubernetes} by helm`)
  }
})

void t.test('alerts link to their pages through one value, and name the job that the chart scrapes', async (t) => {
  const values = {
    config: open,
    nameOverride: 'cache',
    prometheusRule: { enabled: true, runbookUrl: 'https://wiki/x' },
  }
  const rendered = helm === null ? [renderChart(values)] : [renderChart(values), renderWithHelm(values)]
  for (const { objects } of rendered) {
    const { groups } = specOf(objects, 'PrometheusRule') as {
      groups: { rules: { alert?: string; expr: string; annotations?: Record<string, string> }[] }[]
    }
    const alerts = groups.flatMap(({ rules }) => rules).filter(({ alert }) => alert !== undefined)
    t.ok(alerts.length > 10)
    for (const { alert, annotations } of alerts) t.equal(annotations?.['runbook_url'], `https://wiki/x/${alert}.md`)
    t.equal(alerts.find(({ alert }) => alert === 'DistributaryAbsent')?.expr, 'absent(up{job=~"cache"})')
  }
})

void t.test('metrics have a separate port that only Prometheus may reach', async (t) => {
  const { objects } = renderChart({ config: open, metrics: { port: 9090 }, podMonitor: { enabled: true } })
  t.equal(serverConfig(objects)['metricsBindAddress'], '0.0.0.0:9090')
  t.match(podOf(objects).containers[0], { ports: [{ name: 'http' }, { name: 'metrics', containerPort: 9090 }] })
  t.match(specOf(objects, 'PodMonitor'), { podMetricsEndpoints: [{ port: 'metrics' }] })
  const { ingress } = specOf(objects, 'NetworkPolicy') as { ingress: Values[] }
  t.same(
    ingress.map(({ ports }) => ports),
    [[{ port: 'http' }], [{ port: 'metrics' }]],
  )
  const sidecar = renderChart({ mode: 'sidecar', metrics: { port: 9090 } }).objects
  t.same((podOf(sidecar).containers[0] as unknown as Values)['ports'], [{ name: 'metrics', containerPort: 9090 }])
})

void t.test('a server without authentication gets the names of its Service, Ingress and route', async (t) => {
  const hostsOf = (values: Values): unknown => serverConfig(renderChart(values).objects)['allowedHosts']
  const names = ['', '.there', '.there.svc', '.there.svc.cluster.local'].map((end) => `try-distributary${end}`)
  const release = { ...RELEASE, Namespace: 'there' }
  t.same(serverConfig(renderChart({ config: open }, { release }).objects)['allowedHosts'], names)
  const routed = {
    config: open,
    ingress: { enabled: true, hosts: [{ host: 'a.example' }] },
    httpRoute: { enabled: true, parentRefs: [{ name: 'g' }], hostnames: ['*.b.example'] },
    networkPolicy: { enabled: false },
  }
  t.match((hostsOf(routed) as string[]).slice(4), ['a.example', '.b.example'])
  t.same(hostsOf({ config: { ...open, allowedHosts: ['*'] } }), ['*'], 'unless others are configured')
  t.equal(hostsOf({ config: judged, tls }), undefined, 'with an authenticator any name will do')
})

void t.test('a pod has time for its drain after the delay in which it still serves', async (t) => {
  const graceOf = (values: Values): unknown => graceIn(renderChart(values).objects)
  const graceIn = (objects: readonly KubernetesObject[]): unknown =>
    (podOf(objects) as unknown as Values)['terminationGracePeriodSeconds']
  const delayed = (shutdownDelayDuration: string | number): Values => ({ config: { ...open, shutdownDelayDuration } })
  t.equal(graceOf({ config: open }), 55)
  t.equal(graceOf(delayed('1m30s')), 135)
  if (helm !== null) t.equal(graceIn(renderWithHelm(delayed('1m30s')).objects), 135, 'by helm too')
  t.equal(graceOf(delayed('1500ms')), 47)
  t.equal(graceOf(delayed(20)), 65)
  t.equal(graceOf(delayed('0s')), 45)
  t.equal(graceOf({ mode: 'sidecar', terminationGracePeriodSeconds: 60 }), 60)
})

void t.test('values under config take precedence over those of the chart, even false and 0', async (t) => {
  const config = { ...open, requireUpstream: false, port: 0, bindAddress: '127.0.0.1', maxWatchers: 10_000_000 }
  t.match(serverConfig(renderChart({ config }).objects), config)
  if (helm !== null) t.match(serverConfig(renderWithHelm({ config }).objects), config, 'by helm too, as whole numbers')
})

void t.test('names follow the overrides, and are not too long', async (t) => {
  const nameOf = (values: Values): string => specName(renderChart({ config: open, ...values }).objects, 'Deployment')
  t.equal(nameOf({}), 'try-distributary')
  t.equal(nameOf({ nameOverride: 'cache' }), 'try-cache')
  t.equal(nameOf({ nameOverride: 'try' }), 'try')
  t.equal(nameOf({ fullnameOverride: 'cache' }), 'cache')
  const release = { ...RELEASE, Name: 'a-release-whose-name-is-as-long-as-helm-lets-it-be-53' }
  const values = { config: open, nats: { enabled: true }, dashboard: { enabled: true } }
  const { objects } = renderChart(values, { release })
  t.same(
    objects.flatMap((object) => problemsOf(object)),
    [],
  )
  for (const { metadata } of objects) t.ok(metadata.name.length <= 63, metadata.name)
})

void t.test('the NetworkPolicy admits whatever the Service routes here', async (t) => {
  const clients = { podSelector: { matchLabels: { 'distributary.io/client': 'true' } } }
  const from = (values: Values): unknown => {
    const { objects, notes } = renderChart({ config: open, ...values })
    const { ingress } = specOf(objects, 'NetworkPolicy') as { ingress: Values[] }
    const peers = ingress[0]!['from']
    const asksForLabel = JSON.stringify(peers ?? []).includes('distributary.io/client')
    t.equal(notes.includes('need the label'), asksForLabel, 'the notes agree')
    return peers
  }
  const ranges = ['10.0.0.0/8']
  t.match(from({}), [clients])
  t.equal(from({ service: { type: 'LoadBalancer' } }), undefined, 'everybody')
  t.equal(from({ service: { type: 'NodePort' } }), undefined, 'everybody')
  t.equal(from({ service: { type: 'LoadBalancer', loadBalancerSourceRanges: ranges } }), undefined, 'nodes hide them')
  t.match(
    from({ service: { type: 'LoadBalancer', loadBalancerSourceRanges: ranges, externalTrafficPolicy: 'Local' } }),
    [clients, { ipBlock: { cidr: '10.0.0.0/8' } }],
  )
  const own = [{ namespaceSelector: {} }]
  t.match(from({ service: { type: 'LoadBalancer' }, networkPolicy: { from: own } }), own)
})

void t.test('no pod sets a user when the platform assigns one', async (t) => {
  const { objects } = renderChart(MODES.get('openshift')!)
  const pods = objects.filter(({ kind }) => ['Deployment', 'StatefulSet', 'Pod'].includes(kind))
  t.equal(pods.length, 3)
  for (const pod of pods) {
    const text = JSON.stringify(pod['spec'])
    t.notMatch(text, /runAsUser|runAsGroup|fsGroup/, pod.kind)
    t.match(text, /"runAsNonRoot":true/)
    t.match(text, /"seccompProfile":\{"type":"RuntimeDefault"\}/)
    t.match(text, /"allowPrivilegeEscalation":false.*"drop":\["ALL"\]/)
    t.notMatch(text, /hostPath|hostNetwork/)
  }
  if (helm !== null) t.notMatch(JSON.stringify(renderWithHelm('openshift')), /runAsUser|runAsGroup|fsGroup/)
})

void t.test("only modes that read the node's keys run as root", async (t) => {
  for (const [name, isRoot] of [
    ['sidecar', true],
    ['sidecar-plaintext', false],
    ['sidecar-tls', false],
    ['standalone', false],
  ] as const) {
    const pod = podOf(renderChart(MODES.get(name)!).objects)
    t.equal(pod.securityContext.runAsUser === 0, isRoot, name)
    t.equal(JSON.stringify(pod.volumes).includes('hostPath'), isRoot, name)
  }
})

void t.test('keys for etcd are only for servers that all speak HTTPS', async (t) => {
  for (const [servers, hasKeys] of [
    ['https://127.0.0.1:2379,https://10.0.0.7:2379', true],
    ['127.0.0.1:2379', false],
    ['unix:///var/lib/rancher/k3s/server/kine.sock', false],
    ['https://127.0.0.1:2379,10.0.0.7:2379', false],
  ] as const) {
    const config = { etcdServers: servers.split(',') }
    for (const values of [
      { mode: 'sidecar', config },
      { config: { ...config, insecureBindAny: true }, etcd: { tlsSecretName: 'etcd-client' } },
    ]) {
      const { objects } = renderChart(values)
      t.equal('etcdCafile' in serverConfig(objects), hasKeys, servers)
      t.equal(
        podOf(objects).volumes.some(({ name }) => name === 'etcd'),
        hasKeys,
      )
    }
  }
})

void t.test('no Service turns into an environment variable that looks like an option', async (t) => {
  for (const [name, values] of MODES) t.equal(podOf(renderChart(values).objects).enableServiceLinks, false, name)
})

interface PodSpec {
  readonly automountServiceAccountToken?: boolean
  readonly enableServiceLinks: boolean
  readonly securityContext: { readonly runAsUser?: number }
  readonly containers: readonly {
    readonly name: string
    readonly args: readonly string[]
    readonly env?: readonly { readonly name: string; readonly value?: string }[]
    readonly volumeMounts: readonly { name: string; mountPath: string }[]
  }[]
  readonly volumes: readonly { readonly name: string }[]
}

function podOf(objects: readonly KubernetesObject[]): PodSpec {
  const workload = objects.find(({ kind }) => kind === 'Deployment' || kind === 'DaemonSet')!
  return (workload['spec'] as { template: { spec: PodSpec } }).template.spec
}

function specOf(objects: readonly KubernetesObject[], kind: string): unknown {
  return objects.find((object) => object.kind === kind)!['spec']
}

function specName(objects: readonly KubernetesObject[], kind: string): string {
  return objects.find((object) => object.kind === kind)!.metadata.name
}

function serverConfig(objects: readonly KubernetesObject[]): Record<string, unknown> {
  const texts = objects.map((object) => (object['data'] as Record<string, string> | undefined)?.['config.yaml'])
  return parse(texts.find((text) => text !== undefined)!) as Record<string, unknown>
}

/**
 * Secrets and their certificates are newly generated each time. The checksum covers YAML text, which two writers format differently; the text
 * itself is compared as YAML.
 */
function masked(object: KubernetesObject): unknown {
  if (object.kind === 'Secret') return { ...object, data: Object.keys(object['data'] as object) }
  const json = JSON.stringify(object, (key, value: unknown) => {
    if (key === 'checksum/config' || key === 'ca.crt') return 'masked'
    return key === 'config.yaml' ? (parse(value as string) as unknown) : value
  })
  return JSON.parse(json)
}

function idOf(object: unknown): string {
  const { kind, metadata } = object as KubernetesObject
  return `${kind}/${metadata.name}`
}

void t.test('a generated certificate is for the Service and its routes, and kept over upgrades', async (t) => {
  const httpRoute = { enabled: true, parentRefs: [{ name: 'g' }], hostnames: ['*.b.example'] }
  const values = { ...MODES.get('agents')!, httpRoute, networkPolicy: { enabled: false } }
  const of = (objects: readonly KubernetesObject[]): KubernetesObject[] =>
    objects.filter(({ metadata }) => /-(tls|ca)$/.test(metadata.name))
  const first = of(renderChart(values).objects)
  t.same(first.map(({ kind }) => kind).sort(), ['ConfigMap', 'Secret'])
  const text = (key: string): string =>
    Buffer.from(
      (first.find(({ kind }) => kind === 'Secret')!['data'] as Record<string, string>)[key]!,
      'base64',
    ).toString()
  const [certificate, authority] = [new X509Certificate(text('tls.crt')), new X509Certificate(text('ca.crt'))]
  t.ok(certificate.verify(authority.publicKey))
  for (const name of ['try-distributary.somewhere.svc', 'a.b.example']) t.ok(certificate.checkHost(name), name)
  const map = first.find(({ kind }) => kind === 'ConfigMap')!
  t.same(map['data'], { 'ca.crt': text('ca.crt') })
  const cluster = first.map((object) => ({ ...object, metadata: { ...object.metadata, namespace: RELEASE.Namespace } }))
  t.same(of(renderChart(values, { cluster }).objects), first)
})
