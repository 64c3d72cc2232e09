/**
 * Checks deploy/ without a container engine or a cluster: kustomize through kubectl, manifests against Kubernetes' own
 * schema, the unit through systemd-analyze where available, and every command line in them is run or loaded as written.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { X509Certificate } from 'node:crypto'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { load } from '../../src/server/config/load.js'
import { environmentName, optionNames } from '../../src/server/config/options.js'
import { startEtcd } from '../support/etcd-process.js'
import { kubectlBinary } from '../support/kubectl.js'
import { natsBinary } from '../support/nats-process.js'
import { openssl } from '../support/openssl.js'
import { parseManifests } from './support/chart.js'
import { type KubernetesObject, problemsOf } from './support/kubernetes-objects.js'
import { root, runToEnd, startServerProcess } from './support/server-process.js'

const text = (path: string): string => readFileSync(join(root, path), 'utf8')
const readable = (): string => 'x'

void t.test('sample-data.js fills an etcd, and its objects are served', async (t) => {
  const etcd = await startEtcd(t)
  const { services } = parse(text('deploy/compose.yaml'), { merge: true }) as Compose
  const { entrypoint = [], volumes = [] } = services['sample-data']!
  const [source = '', target = ''] = volumes[0]!.split(':')
  const command = entrypoint.map((word) =>
    word.replace('/nodejs/bin/node', process.execPath).replace(target, join(root, 'deploy', source)),
  )
  const { code, output } = await runToEnd(command, { environment: { ETCD_URL: etcd.url, CHANGES: '12' } })
  t.equal(code, 0, output)
  const server = await startServerProcess(t, {
    args: [
      '--port',
      '0',
      '--etcd-servers',
      etcd.url,
      '--resource',
      services['distributary']!.environment!['DISTRIBUTARY_RESOURCE']!,
    ],
  })
  const count = async (path: string): Promise<number> =>
    ((await (await fetch(server.url + path)).json()) as { items: unknown[] }).items.length
  t.equal(await count('/api/v1/namespaces/shop/pods'), 12)
  t.equal(await count('/api/v1/nodes'), 3)
  t.equal(await count('/apis/distributary.io/v1/flags'), 4)
})

interface Service {
  readonly environment?: Readonly<Record<string, string>>
  readonly depends_on?: Readonly<Record<string, unknown>> | readonly string[]
  readonly volumes?: readonly string[]
  readonly ports?: readonly string[]
  readonly image?: string
  readonly profiles?: readonly string[]
  readonly networks?: readonly string[]
  readonly command?: readonly string[]
  readonly entrypoint?: readonly string[]
  readonly build?: { readonly context: string; readonly dockerfile: string }
}

interface Compose {
  readonly services: Readonly<Record<string, Service>>
  readonly volumes?: Readonly<Record<string, null>>
}

const compositions: Readonly<Record<string, readonly string[]>> = {
  'compose.yaml': [
    'candidate-1',
    'candidate-2',
    'distributary',
    'edge-1',
    'edge-2',
    'etcd',
    'grafana',
    'nats-1',
    'nats-2',
    'nats-3',
    'prometheus',
    'sample-data',
  ],
}

for (const [file, expected] of Object.entries(compositions)) {
  const { services, volumes = {} } = parse(text(`deploy/${file}`), { merge: true }) as Compose

  void t.test(`${file} refers only to what exists`, async (t) => {
    const names = Object.keys(services)
    t.same(names.toSorted(), expected)
    for (const [name, service] of Object.entries(services)) {
      const needs = service.depends_on ?? []
      for (const needed of Array.isArray(needs) ? needs : Object.keys(needs)) {
        t.ok(names.includes(needed as string), `${name} needs ${String(needed)}`)
      }
      for (const volume of service.volumes ?? []) {
        const [source = ''] = volume.split(':')
        const isThere = source.startsWith('.') ? existsSync(join(root, 'deploy', source)) : source in volumes
        t.ok(isThere, `${name}: ${source}`)
      }
      for (const port of service.ports ?? []) t.match(port, /^127\.0\.0\.1:/, `${name} is published on loopback only`)
      if (service.build === undefined) t.match(service.image, /:.*\d/, `${name} has a version`)
      else t.ok(existsSync(join(root, 'deploy', service.build.context, service.build.dockerfile)))
    }
    const ports = Object.values(services).flatMap((service) => service.ports ?? [])
    t.equal(new Set(ports).size, ports.length, 'no port is published twice')
  })

  void t.test(`distributary accepts the settings of ${file}`, async (t) => {
    for (const [name, { build, entrypoint, environment = {}, command = [] }] of Object.entries(services)) {
      if (build === undefined || entrypoint !== undefined) continue
      for (const variable of Object.keys(environment)) {
        t.ok(
          optionNames.some((option) => environmentName(option) === variable),
          variable,
        )
      }
      const loaded = load([...command], environment, readable)
      if (loaded.kind !== 'run') throw new Error('the settings must run')
      t.equal(loaded.config.embedded, false, name)
    }
  })

  void t.test(`etcd and NATS accept their command lines in ${file}`, async (t) => {
    for (const [name, { command = [] }] of Object.entries(services)) {
      if (name === 'etcd') {
        // The test replaces the container's addresses and folder with its own.
        const flags = command
          .slice(1)
          .filter((flag) => !/^--(name|data-dir|(listen|advertise)-client-urls)=/.test(flag))
        await startEtcd(t, { flags })
      }
      if (!name.startsWith('nats-')) continue
      // -t reads flags and configuration, reports what is wrong with them, and does not serve. Newer servers refuse an empty file.
      const file = join(t.testdir({ 'nats.conf': 'debug: false\n' }), 'nats.conf')
      const { status, stderr } = spawnSync(natsBinary, [...command, '-c', file, '-t'], { encoding: 'utf8' })
      t.equal(status, 0, stderr)
      t.match(command.join(' '), new RegExp(`--name[= ]${name}$`))
    }
  })
}

void t.test('in the fleet of compose.yaml candidates reach etcd, and edges cannot', async (t) => {
  const { services } = parse(text('deploy/compose.yaml'), { merge: true }) as Compose
  for (const [name, role] of [
    ['candidate-1', 'auto'],
    ['candidate-2', 'auto'],
    ['edge-1', 'edge'],
    ['edge-2', 'edge'],
  ] as const) {
    const { environment = {}, networks = [], profiles } = services[name]!
    t.same(profiles, ['fleet'])
    const loaded = load([], environment, readable)
    if (loaded.kind !== 'run') throw new Error('the settings must run')
    t.match(loaded.config, { natsRole: role, natsReplicas: 3 }, name)
    t.equal(loaded.config.natsServers.length, 3)
    t.ok(networks.includes('fleet'))
    t.equal(networks.includes('storage'), role === 'auto', name)
  }
  t.same(services['etcd']!.networks, ['storage'])
})

void t.test('the systemd unit runs the server with its sample configuration', async (t) => {
  const unit = text('deploy/systemd/distributary.service')
  const command = /^ExecStart=(.*)$/m.exec(unit)![1]!.split(' ')
  t.match(command[1], /dist\/main\.js$/)
  const files: string[] = []
  const loaded = load(command.slice(2), {}, (path) => {
    files.push(path)
    return text('deploy/systemd/config.yaml')
  })
  t.equal(loaded.kind, 'run', 'the sample configuration runs')
  t.same(files[0], '/etc/distributary/config.yaml')
  for (const line of ['DynamicUser=yes', 'ProtectSystem=strict', 'NoNewPrivileges=yes', 'CapabilityBoundingSet=']) {
    t.ok(unit.includes(`\n${line}\n`), line)
  }
  const group = /^SupplementaryGroups=(.*)$/m.exec(unit)?.[1]
  t.match(unit, `\n#   groupadd --system --force ${group}\n`, 'the group that can read keys exists before it starts')
  t.match(text('deploy/systemd/config.yaml'), `group ${group}.`)
  t.match(unit, /^LogsDirectory=distributary$/m, 'it can write an access log')
  t.match(unit, /^ExecReload=\/bin\/kill -HUP \$MAINPID$/m)
  t.match(unit, /^RestartForceExitStatus=SIGHUP$/m, 'a reload before it handles signals does not end it')
  t.match(unit, /^RestartPreventExitStatus=2 216$/m, 'it gives up only where no retry can help')
  t.match(unit, /^StartLimitIntervalSec=0$/m, 'and retries everything else without end')
  const stop = Number(/^TimeoutStopSec=(\d+)s$/m.exec(unit)![1])
  if (loaded.kind === 'run') t.ok(stop * 1000 > loaded.config.shutdownGracePeriod, 'a drain is not cut')
  const analyze = (...args: string[]) => spawnSync('systemd-analyze', args, { encoding: 'utf8', cwd: root })
  if (analyze('--version').status === 0) {
    const { stdout } = analyze('security', '--offline=true', '--no-pager', 'deploy/systemd/distributary.service')
    const exposure = Number(/Overall exposure level for \S+ ([\d.]+)/.exec(stdout)?.[1])
    t.ok(exposure < 2, `exposure ${exposure} of 10`)
    const verified = analyze('verify', '--man=no', 'deploy/systemd/distributary.service')
    // The server is not installed at the unit's path; any other complaint is a fault of the unit.
    const said = verified.stderr.split('\n').filter((line) => /distributary\.service/.test(line))
    t.same(
      said.filter((line) => !/is not executable|No such file/.test(line)),
      [],
    )
  }
})

const OVERLAYS = ['base', 'autoscaling', 'edge', 'static-pod', 'kubeadm']
const FOR_AGENTS = ['server', 'upstream', 'node-local'].map((name) => `agents/${name}`)

for (const overlay of [...OVERLAYS, ...FOR_AGENTS]) {
  void t.test(`kustomize builds ${overlay}`, async (t) => {
    const { status, stdout, stderr } = spawnSync(
      kubectlBinary,
      ['kustomize', join(root, 'deploy/kubernetes', overlay)],
      {
        encoding: 'utf8',
      },
    )
    t.equal(status, 0, stderr)
    const objects = parseManifests(stdout, overlay)
    t.same(
      objects.flatMap((object) => problemsOf(object)),
      [],
    )
    const workload = objects.find(({ kind }) => ['Deployment', 'DaemonSet', 'Pod'].includes(kind))!
    const spec = workload['spec'] as { template?: { spec: Pod; metadata: { labels: Labels } } } & Pod
    const pod = spec.template?.spec ?? spec
    const container = pod.containers.find(({ name }) => name === 'distributary')!
    t.equal(container.securityContext.readOnlyRootFilesystem, true)
    t.match(container.image, /:\d+\.\d+\.\d+$/)

    const files: string[] = []
    const config = objects.find(({ kind }) => kind === 'ConfigMap') as { data?: Labels } | undefined
    const loaded = load(container.args, {}, (path) => {
      files.push(path)
      return config?.data?.[path.split('/').at(-1)!] ?? 'x'
    })
    if (loaded.kind !== 'run') throw new Error('the arguments must run')
    t.equal(loaded.config.requireUpstream, true)
    if (pod.hostNetwork === true && loaded.config.securePort !== null) {
      t.match(
        loaded.config.metricsBindAddress,
        { host: '127.0.0.1' },
        'a Prometheus agent on the node needs no certificate',
      )
    }
    t.ok(files.length >= 3)
    for (const file of files) {
      t.ok(
        container.volumeMounts.some(({ mountPath }) => file === mountPath || dirname(file) === mountPath) ||
          (pod.automountServiceAccountToken === true && dirname(file) === ACCOUNT),
        `${file} is mounted`,
      )
    }
    for (const { name } of container.volumeMounts)
      t.ok(
        pod.volumes.some((volume) => volume.name === name),
        name,
      )

    if (spec.template === undefined) return
    const labels = spec.template.metadata.labels
    for (const [kind, selector] of selectorsOf(objects)) t.match(labels, selector, `${kind} selects the pods`)
  })
}

void t.test('base and edge can be applied together', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'distributary-kustomize-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const resources = ['base', 'edge'].map((overlay) => relative(folder, join(root, 'deploy/kubernetes', overlay)))
  writeFileSync(join(folder, 'kustomization.yaml'), JSON.stringify({ resources }))
  const { status, stdout, stderr } = spawnSync(kubectlBinary, ['kustomize', folder], { encoding: 'utf8' })
  t.equal(status, 0, stderr)
  const objects = parseManifests(stdout, 'base and edge')
  const ids = objects.map(({ kind, metadata }) => JSON.stringify([kind, metadata['namespace'], metadata.name]))
  t.equal(new Set(ids).size, ids.length, ids.join(' '))
  const levels = objects
    .filter(({ kind }) => kind === 'Namespace')
    .map(({ metadata }) => (metadata['labels'] as Labels)['pod-security.kubernetes.io/enforce'])
  t.same(new Set(levels), new Set(['privileged', 'restricted']), 'what one needs does not weaken the other')
})

void t.test('the static pod runs beside etcd, and so does the kubeadm patch', async (t) => {
  const podOf = (overlay: string): KubernetesObject => {
    const { stdout } = spawnSync(kubectlBinary, ['kustomize', join(root, 'deploy/kubernetes', overlay)], {
      encoding: 'utf8',
    })
    const objects = parseManifests(stdout, overlay)
    t.equal(objects.length, 1)
    return objects[0]!
  }
  const names = (pod: KubernetesObject): string[] => (pod['spec'] as Pod).containers.map(({ name }) => name).sort()
  const own = podOf('static-pod')
  t.equal(own.metadata.name, 'distributary')
  t.same(names(own), ['distributary'])
  for (const word of ['configMap', 'secret', 'serviceAccountName']) t.notMatch(JSON.stringify(own), word)
  const patched = podOf('kubeadm')
  t.same(names(patched), ['distributary', 'etcd'])
  t.match(patched.metadata['annotations'], { 'kubectl.kubernetes.io/default-container': 'etcd' })
  const container = (patched['spec'] as Pod).containers.find(({ name }) => name === 'distributary')!
  t.notMatch(JSON.stringify(container), 'readinessProbe', 'etcd’s pod is ready without it')
  // kubeadm finds patches by their names: target, suffix, kind of patch.
  for (const file of readdirSync(join(root, 'deploy/kubernetes/kubeadm/patches'))) {
    t.match(
      file,
      /^(etcd|kube-apiserver|kube-controller-manager|kube-scheduler)\d*\+(strategic|merge|json)\.(yaml|json)$/,
    )
  }
})

void t.test(
  'certificate.sh makes a certificate for the names of agents, by its own authority or by a given one',
  async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'distributary-certificate-'))
    t.teardown(() => rmSync(folder, { recursive: true, force: true }))
    const make = (...args: string[]): { status: number | null; stderr: string } =>
      spawnSync(join(root, 'deploy/kubernetes/agents/certificate.sh'), args, { cwd: folder, encoding: 'utf8' })
    const certificate = (name: string): X509Certificate => new X509Certificate(readFileSync(join(folder, name)))
    const isSigned = (): boolean => certificate('tls.crt').verify(certificate('ca.crt').publicKey)

    t.equal(make().status, 0)
    t.ok(isSigned())
    for (const name of ['distributary.distributary.svc', 'localhost'])
      t.ok(certificate('tls.crt').checkHost(name), name)
    t.ok(certificate('tls.crt').checkIP('127.0.0.1'))
    const files = ['ca.crt', 'tls.crt'].map((name) => join(folder, name))
    t.doesNotThrow(() => openssl('verify', '-x509_strict', '-CAfile', ...files), 'Python 3.13 accepts it')
    const first = readFileSync(join(folder, 'ca.crt'), 'utf8')
    t.equal(make('--names', 'DNS:other').status, 0)
    t.ok(certificate('tls.crt').checkHost('other') && isSigned())
    t.equal(readFileSync(join(folder, 'ca.crt'), 'utf8'), first, 'agents that trust the authority need no other')

    const other = join(folder, 'other')
    const pair = ['-keyout', `${other}.key`, '-out', `${other}.crt`, '-days', '1', '-nodes', '-subj', '/CN=cluster']
    openssl('req', '-x509', '-newkey', 'rsa:2048', ...pair)
    t.equal(make('--ca-cert', `${other}.crt`, '--ca-key', `${other}.key`).status, 0)
    t.ok(isSigned())
    t.match(certificate('ca.crt').subject, /CN=cluster/)
    for (const args of [['--ca-key', `${other}.key`], ['--names'], ['--name', 'x']]) t.equal(make(...args).status, 2)
  },
)

void t.test('cert-manager makes what certificate.sh makes, in the namespace of each installation', (t) => {
  const [, names = ''] = /^names=(.*)$/m.exec(text('deploy/kubernetes/agents/certificate.sh')) ?? []
  for (const [folder, server] of [
    ['cert-manager', 'server'],
    ['cert-manager-node-local', 'node-local'],
  ] as const) {
    const build = (name: string): KubernetesObject[] => {
      const args = ['kustomize', join(root, 'deploy/kubernetes/agents', name)]
      return parseManifests(spawnSync(kubectlBinary, args, { encoding: 'utf8' }).stdout, name)
    }
    const [objects, workloads] = [build(folder), build(server)]
    const workload = workloads.find(({ kind }) => ['Deployment', 'DaemonSet'].includes(kind))!
    t.same(new Set(objects.map(({ metadata }) => metadata['namespace'])), new Set([workload.metadata['namespace']]))
    const { dnsNames, ipAddresses, secretName } = objects.find(({ metadata }) => metadata.name === 'distributary')![
      'spec'
    ] as { dnsNames: string[]; ipAddresses: string[]; secretName: string }
    t.match(JSON.stringify(workload), `"secretName":"${secretName}"`)
    const made = [...dnsNames.map((name) => `DNS:${name}`), ...ipAddresses.map((address) => `IP:${address}`)]
    t.equal(made.join(','), names)
  }
  t.end()
})

void t.test('the edge is not behind the others’ service', async (t) => {
  const labelsOf = (path: string): Labels => (parse(text(path)) as { labels: { pairs: Labels }[] }).labels[0]!.pairs
  const base = labelsOf('deploy/kubernetes/base/kustomization.yaml')
  const edge = labelsOf('deploy/kubernetes/edge/kustomization.yaml')
  t.not(base['app.kubernetes.io/name'], edge['app.kubernetes.io/name'])
})

type Labels = Readonly<Record<string, string>>

/** Kubernetes itself mounts it. */
const ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount'

interface Pod {
  readonly hostNetwork?: boolean
  readonly automountServiceAccountToken?: boolean
  readonly containers: readonly {
    readonly name: string
    readonly image: string
    readonly args: readonly string[]
    readonly securityContext: { readonly readOnlyRootFilesystem?: boolean }
    readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[]
  }[]
  readonly volumes: readonly { readonly name: string }[]
}

function selectorsOf(objects: readonly KubernetesObject[]): [string, Labels][] {
  return objects.flatMap((object): [string, Labels][] => {
    const spec = object['spec'] as Record<string, { matchLabels?: Labels }> | undefined
    if (object.kind === 'Service') return [[object.kind, spec!['selector'] as Labels]]
    const selector = spec?.['selector'] ?? spec?.['podSelector']
    return selector?.matchLabels === undefined ? [] : [[object.kind, selector.matchLabels]]
  })
}
