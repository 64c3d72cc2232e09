import { readFileSync } from 'node:fs'
import { Ajv } from 'ajv'
import t from 'tap'
import { parse } from 'yaml'
import { load } from '../../src/config/load.js'
import { optionNames, options, yamlKey } from '../../src/config/options.js'
import { chartFolder, defaultValues, hasHelm, renderChart, renderWithHelm, type Values } from './support/chart.js'
import { GoTemplates } from './support/go-template.js'
import { type KubernetesObject, problemsOf } from './support/kubernetes-objects.js'

const etcd = { etcdServers: ['https://etcd:2379'] }
const open = { ...etcd, insecureBindAny: true }
const tls = { enabled: true, secretName: 'server', clientCaSecretName: 'clients' }

/** The ways the chart is meant to be used, each with what must be among its manifests. */
const cases: Readonly<Record<string, { values: Values; kinds: readonly string[] }>> = {
  'standalone on plain HTTP': {
    values: { config: open },
    kinds: ['ConfigMap', 'Deployment', 'NetworkPolicy', 'Pod', 'PodDisruptionBudget', 'Service', 'ServiceAccount'],
  },
  sidecar: { values: { mode: 'sidecar' }, kinds: ['ConfigMap', 'DaemonSet', 'ServiceAccount'] },
  'sidecar with TLS': { values: { mode: 'sidecar', tls }, kinds: ['ConfigMap', 'DaemonSet', 'ServiceAccount'] },
  'TLS from a secret, etcd with a client certificate, files': {
    values: {
      config: etcd,
      tls,
      etcd: { tlsSecretName: 'etcd-client' },
      filesSecretName: 'files',
      secretEnv: [{ name: 'DISTRIBUTARY_ETCD_PASSWORD', secretName: 'etcd-user', key: 'password' }],
      networkPolicy: { from: [{ podSelector: {} }] },
      podLabels: { team: 'platform' },
      podAnnotations: { note: 'a: b' },
      nodeSelector: { pool: 'cache' },
      tolerations: [{ operator: 'Exists' }],
      affinity: { nodeAffinity: {} },
      priorityClassName: 'high',
      imagePullSecrets: [{ name: 'registry' }],
      extraArgs: ['--log-level=debug'],
      serviceAccount: { annotations: { a: 'b' } },
      service: { type: 'LoadBalancer', annotations: { a: 'b' } },
      image: { digest: `sha256:${'0'.repeat(64)}` },
    },
    kinds: ['ConfigMap', 'Deployment', 'NetworkPolicy', 'Pod', 'PodDisruptionBudget', 'Service', 'ServiceAccount'],
  },
  'everything optional': {
    values: {
      config: etcd,
      tls: {
        ...tls,
        secretName: '',
        certManager: { enabled: true, issuerRef: { name: 'ca' }, dnsNames: ['x.example'] },
      },
      autoscaling: { enabled: true },
      serviceMonitor: {
        enabled: true,
        labels: { release: 'prometheus' },
        tlsConfig: { insecureSkipVerify: true },
        bearerTokenSecret: { name: 'token', key: 'token' },
      },
      prometheusRule: { enabled: true, labels: { release: 'prometheus' } },
      dashboard: { enabled: true },
      nats: { enabled: true, storageClassName: 'fast' },
    },
    kinds: [
      'Certificate',
      'ConfigMap',
      'ConfigMap',
      'Deployment',
      'HorizontalPodAutoscaler',
      'NetworkPolicy',
      'Pod',
      'PodDisruptionBudget',
      'PrometheusRule',
      'Service',
      'Service',
      'ServiceAccount',
      'ServiceMonitor',
      'StatefulSet',
    ],
  },
}

for (const [name, { values, kinds }] of Object.entries(cases)) {
  void t.test(`the chart renders: ${name}`, async (t) => {
    const { objects, notes } = renderChart(values)
    t.same(objects.map((object) => object.kind).sort(), kinds)
    t.same(
      objects.flatMap((object) => problemsOf(object)),
      [],
      'Kubernetes knows every field',
    )
    t.match(notes, /curl|port-forward/)
    const config = serverConfig(objects)
    // What the chart mounts is there; of options that this version does not serve nothing can be said but their names.
    const files: string[] = []
    const read = (path: string): string => {
      if (path === '/config') return JSON.stringify(config)
      files.push(path)
      return 'x'
    }
    t.equal(load(['--config', '/config'], {}, read).kind, 'run', 'the server takes the configuration')
    const pod = podOf(objects)
    const mounts = pod.containers[0]!.volumeMounts.map((mount) => mount.mountPath)
    for (const file of files) {
      t.ok(
        mounts.some((mount) => file.startsWith(mount)),
        `${file} is mounted`,
      )
    }
    const volumes = pod.volumes.map((volume) => volume.name)
    t.same(pod.containers[0]!.volumeMounts.map((mount) => mount.name).sort(), volumes.sort(), 'each volume is mounted')
  })

  void t.test(`helm renders the same: ${name}`, { skip: hasHelm ? false : 'no helm here (HELM_BIN)' }, async (t) => {
    const { objects, problem } = renderWithHelm(values)
    t.equal(problem, null)
    const byName = (all: readonly KubernetesObject[]): unknown[] =>
      all.map((object) => masked(object)).sort((a, b) => (idOf(a) < idOf(b) ? -1 : 1))
    t.same(byName(objects), byName(renderChart(values).objects))
  })
}

const refused: Readonly<Record<string, { values: Values; why: RegExp }>> = {
  'nobody said which etcd': { values: {}, why: /config\.etcdServers is needed/ },
  'plain HTTP for everyone, unsaid': { values: { config: etcd }, why: /whoever reaches the port/ },
  'TLS without a certificate': { values: { config: etcd, tls: { enabled: true } }, why: /tls\.secretName/ },
  'cert-manager without an issuer': {
    values: { config: etcd, tls: { enabled: true, certManager: { enabled: true } } },
    why: /issuerRef\.name is needed/,
  },
}

for (const [name, { values, why }] of Object.entries(refused)) {
  void t.test(`the chart refuses: ${name}`, async (t) => {
    t.throws(() => renderChart(values), why)
    if (hasHelm) t.match(renderWithHelm(values).problem, why)
  })
}

const schema = JSON.parse(readFileSync(`${chartFolder}values.schema.json`, 'utf8')) as {
  properties: Record<string, { properties: Record<string, unknown> }>
}

void t.test('every option is reachable from the values, and every value under config is an option', async (t) => {
  const inSchema = Object.keys(schema.properties['config']!.properties)
  for (const name of optionNames) {
    const key = yamlKey(name)
    if (key !== null) t.ok(inSchema.includes(key), `config.${key}`)
    // The file itself; what `resources` says better; what a Secret brings into the environment.
    else t.ok(name === 'config' || name === 'resource' || options[name].kind === 'secret', name)
  }
  for (const key of inSchema)
    t.ok(key === 'resources' || optionNames.some((name) => yamlKey(name) === key), `option ${key}`)
  const helpers = readFileSync(`${chartFolder}templates/_helpers.tpl`, 'utf8')
  const set = [...helpers.matchAll(/set \$config "(\w+)"/g)].map((match) => match[1]!)
  t.ok(set.length > 8)
  const names: readonly string[] = optionNames
  for (const key of set) t.ok(names.includes(key), `the chart sets ${key}`)
})

void t.test('the schema takes the values as they are delivered and in use, and finds a typing error', async (t) => {
  const validate = new Ajv({ strict: false }).compile(schema)
  for (const values of [{}, ...Object.values(cases).map((one) => one.values)]) {
    t.ok(validate({ ...defaultValues(), ...values }), JSON.stringify(validate.errors))
  }
  for (const wrong of [
    { config: { etcdServer: 'x' } },
    { config: { watchCacheBytes: 'much' } },
    { config: { onGap: 'ignore' } },
    { mode: 'other' },
    { replica: 3 },
    { secretEnv: [{ name: 'PATH', secretName: 'a', key: 'b' }] },
  ]) {
    t.notOk(validate({ ...defaultValues(), ...wrong }), JSON.stringify(wrong))
  }
})

void t.test('values and schema name the same things', async (t) => {
  const values = defaultValues()
  const names = Object.keys(schema.properties).filter((name) => name !== 'global')
  t.same(names.sort(), Object.keys(values).sort())
})

void t.test('the renderer finds what is broken', async (t) => {
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

void t.test('a test of the release asks the server whether it is ready, over TLS too', async (t) => {
  for (const [scheme, values] of [
    ['http', { config: open }],
    ['https', { config: etcd, tls }],
  ] as const) {
    const pod = renderChart(values).objects.find((object) => object.kind === 'Pod')!
    t.match(pod.metadata['annotations'], { 'helm.sh/hook': 'test' })
    t.match(JSON.stringify(pod['spec']), `${scheme}://try-distributary:8001/readyz`)
  }
})

interface PodSpec {
  readonly containers: readonly { readonly volumeMounts: readonly { name: string; mountPath: string }[] }[]
  readonly volumes: readonly { readonly name: string }[]
}

function podOf(objects: readonly KubernetesObject[]): PodSpec {
  const workload = objects.find(({ kind }) => kind === 'Deployment' || kind === 'DaemonSet')!
  return (workload['spec'] as { template: { spec: PodSpec } }).template.spec
}

function serverConfig(objects: readonly KubernetesObject[]): Record<string, unknown> {
  const map = objects.find(({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === 'try-distributary')!
  return parse((map['data'] as Record<string, string>)['config.yaml']!) as Record<string, unknown>
}

/** The checksum is of text, which two writers of YAML lay out in their own ways; the text itself is compared as YAML. */
function masked(object: KubernetesObject): unknown {
  const json = JSON.stringify(object, (key, value: unknown) => {
    if (key === 'checksum/config') return 'masked'
    return key === 'config.yaml' ? (parse(value as string) as unknown) : value
  })
  return JSON.parse(json)
}

function idOf(object: unknown): string {
  const { kind, metadata } = object as KubernetesObject
  return `${kind}/${metadata.name}`
}
