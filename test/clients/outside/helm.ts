/**
 * Helm, unchanged: a small chart is installed, upgraded, rolled back and uninstalled, while the server and etcd restart
 * during Helm's wait for the Deployment.
 */
import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { buildGoProgram } from '../../support/go-program.js'
import { until } from '../../support/until.js'
import { helm } from '../programs.js'
import { type Disruption, disruptions } from '../support/disruptions.js'
import { type Stage, startStage, type World } from '../support/stage.js'
import { list } from '../support/survive.js'

const program = buildGoProgram(helm)

const CHART: Readonly<Record<string, string>> = {
  'Chart.yaml': 'apiVersion: v2\nname: shop\nversion: 1.0.0\nappVersion: "1"\n',
  'values.yaml': 'color: blue\nreplicas: 1\nservice: true\n',
  'templates/settings.yaml': `apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-settings}
data: {color: {{ .Values.color }}}
`,
  'templates/web.yaml': `apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}-web}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "web:1"}]}
`,
  'templates/service.yaml': `{{- if .Values.service }}
apiVersion: v1
kind: Service
metadata: {name: {{ .Release.Name }}-web}
spec: {selector: {app: web}, ports: [{port: 80}]}
{{- end }}
`,
}

const namespace = { kind: 'Namespace', apiVersion: 'v1', metadata: { name: 'default' }, status: { phase: 'Active' } }

const world: World = {
  initial: new Map([['/registry/namespaces/default', namespace]]),
  turn: (name) => [
    {
      [`/registry/configmaps/default/${name}`]: {
        kind: 'ConfigMap',
        apiVersion: 'v1',
        metadata: { name, namespace: 'default', uid: `uid-${name}` },
      },
    },
  ],
}

const IN_DEFAULT = '/namespaces/default'
const WEB = `/apis/apps/v1${IN_DEFAULT}/deployments/s-web`

interface Ended {
  readonly code: number | null
  readonly text: string
}

class Helm {
  constructor(
    readonly folder: string,
    readonly url: string,
  ) {}

  async run(...args: readonly string[]): Promise<Ended> {
    const home = { HOME: this.folder, HELM_CACHE_HOME: this.folder, HELM_CONFIG_HOME: this.folder }
    const env = {
      ...process.env,
      ...home,
      HELM_DATA_HOME: this.folder,
      KUBECONFIG: join(this.folder, 'none'),
      KUBE_FEATURE_WatchListClient: 'false',
    }
    const child = spawn(program, [...args, `--kube-apiserver=${this.url}`], { env, stdio: ['ignore', 'pipe', 'pipe'] })
    let text = ''
    child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()))
    child.stderr.on('data', (chunk: Buffer) => (text += chunk.toString()))
    const code = await new Promise<number | null>((resolve) => child.once('close', resolve))
    return { code, text }
  }
}

interface Deployment {
  readonly metadata: { readonly generation: number }
  readonly spec: { readonly replicas: number }
}

/** Writes the status that the Deployment's controller would write when its pods run. */
async function makeReady(t: Test, stage: Stage): Promise<void> {
  const { metadata, spec } = await list<Deployment>(stage, WEB)
  const { replicas } = spec
  const conditions = [
    { type: 'Available', status: 'True', reason: 'MinimumReplicasAvailable' },
    { type: 'Progressing', status: 'True', reason: 'NewReplicaSetAvailable' },
  ]
  const counts = { replicas, updatedReplicas: replicas, readyReplicas: replicas, availableReplicas: replicas }
  const response = await fetch(`${stage.url}${WEB}/status`, {
    method: 'PATCH',
    headers: { 'content-type': 'application/merge-patch+json' },
    body: JSON.stringify({ status: { observedGeneration: metadata.generation, ...counts, conditions } }),
  })
  t.equal(response.status, 200, await response.text())
}

/** A watch is logged when it ends, so its list shows that Helm waits. */
const listsOf = (stage: Stage): number =>
  stage
    .answered()
    .filter(
      ({ userAgent, verb, resource, code }) =>
        /^helm/i.test(userAgent) && verb === 'list' && resource === 'deployments' && code === 200,
    ).length

async function color(stage: Stage): Promise<string | undefined> {
  const response = await fetch(`${stage.url}/api/v1${IN_DEFAULT}/configmaps/s-settings`)
  return response.ok ? ((await response.json()) as { data: { color: string } }).data.color : undefined
}

async function names(stage: Stage, path: string): Promise<readonly string[]> {
  return (await list(stage, path)).items.map(({ metadata }) => metadata.name)
}

interface Step {
  readonly args: readonly string[]
  readonly color: string
  readonly replicas: number
  readonly services: readonly string[]
}

const STEPS: readonly Step[] = [
  { args: ['install', 's', 'CHART'], color: 'blue', replicas: 1, services: ['s-web'] },
  {
    args: ['upgrade', 's', 'CHART', '--set=color=green,replicas=3,service=false'],
    color: 'green',
    replicas: 3,
    services: [],
  },
  { args: ['rollback', 's', '1'], color: 'blue', replicas: 1, services: ['s-web'] },
]

void t.test('a chart is installed, upgraded, rolled back and uninstalled, each through a restart', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'distributary-helm-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const chart = join(folder, 'shop')
  for (const [path, text] of Object.entries(CHART)) {
    mkdirSync(dirname(join(chart, path)), { recursive: true })
    writeFileSync(join(chart, path), text)
  }
  // Helm keeps its releases in Secrets, which are served only when named.
  const stage = await startStage(t, { world, flags: ['--resource=secrets'] })
  const helm = new Helm(folder, stage.url)

  for (const [i, step] of STEPS.entries()) {
    const disruption: Disruption = disruptions[i]!
    await t.test(`${step.args[0]}, with ${disruption.name}`, async (t) => {
      const args = step.args.map((arg) => (arg === 'CHART' ? chart : arg))
      const before = listsOf(stage)
      let ended: Ended | null = null
      const running = helm.run(...args, '--wait', '--timeout=120s').then((end) => (ended = end))
      const isWaiting = async (): Promise<boolean> =>
        ended !== null || ((await color(stage)) === step.color && listsOf(stage) > before)
      await until(isWaiting, 'helm has written what it changes, and waits', 60_000)
      t.equal(ended, null, 'it waits for the Deployment')
      // client-go lists again after a watch that ends in its first second.
      await delay(1_500)
      await disruption.disrupt(stage)
      t.equal(ended, null, 'it keeps waiting')
      await makeReady(t, stage)
      const { code, text } = await running
      t.equal(code, 0, text)
      t.equal(listsOf(stage), before + 1, 'it has listed once')
      const { spec } = await list<Deployment>(stage, WEB)
      t.equal(spec.replicas, step.replicas)
      t.same(await names(stage, `/api/v1${IN_DEFAULT}/services`), step.services)
      t.equal(await color(stage), step.color)
    })
  }

  const history = await helm.run('history', 's', '--output=json')
  t.equal(history.code, 0, history.text)
  const revisions = JSON.parse(history.text) as readonly { readonly revision: number; readonly status: string }[]
  t.match(revisions, [
    { revision: 1, status: 'superseded' },
    { revision: 2, status: 'superseded' },
    { revision: 3, status: 'deployed' },
  ])
  const status = await helm.run('status', 's')
  t.match(status.text, /STATUS: deployed[^]*REVISION: 3/)

  const removed = await helm.run('uninstall', 's', '--wait', '--timeout=60s')
  t.equal(removed.code, 0, removed.text)
  t.same(await names(stage, `/api/v1${IN_DEFAULT}/services`), [])
  t.same(await names(stage, `/apis/apps/v1${IN_DEFAULT}/deployments`), [])
  t.same(await names(stage, `/api/v1${IN_DEFAULT}/secrets`), [], 'nothing is left of its releases')
  t.equal(await color(stage), undefined)
})
