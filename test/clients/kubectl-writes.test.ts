/** Unmodified kubectl against a server with writes: commands as a person types them, and their output. */
import { execFile, spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { startApp } from '../support/app.js'
import { kubectlBinary } from '../support/kubectl.js'

const DEPLOYMENT = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels: {app: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: "web:1", env: [{name: A, value: "1"}]}
      - {name: side, image: "side:1"}
`

const DEFINITION = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: caches.edge.example.com}
spec:
  group: edge.example.com
  scope: Namespaced
  names: {plural: caches, singular: cache, kind: Cache, shortNames: [ca]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [size]
            properties:
              size: {type: string, enum: [S, M, L]}
              replicas: {type: integer, format: int32, minimum: 0, default: 1}
              ports:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items: {type: object, required: [name], properties: {name: {type: string}, port: {type: integer}}}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

const CACHE = `apiVersion: edge.example.com/v1
kind: Cache
metadata: {name: front}
spec: {size: M}
`

interface Step {
  readonly args: readonly string[]
  /** Standard input. */
  readonly input?: string
  /** The exit code. Default: 0. */
  readonly code?: number
  readonly out: readonly RegExp[]
}

const run = (args: string, ...out: readonly RegExp[]): Step => ({ args: args.split(' '), out })
const feed = (args: string, input: string, ...out: readonly RegExp[]): Step => ({ args: args.split(' '), input, out })
const refused = (step: Step): Step => ({ ...step, code: 1 })
const web = (change: (text: string) => string): string => change(DEPLOYMENT)

const STEPS: readonly Step[] = [
  run('create namespace team', /namespace\/team created/),
  run('create configmap settings --from-literal=color=blue', /configmap\/settings created/),
  refused(run('create configmap settings --from-literal=color=blue', /AlreadyExists|already exists/)),
  run('create configmap dry --from-literal=a=b --dry-run=server -o jsonpath={.data.a}', /^b$/),
  feed('create -f -', DEPLOYMENT.replaceAll('web', 'made'), /deployment.apps\/made created/),
  refused(
    feed(
      'create -f -',
      'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: typo}\ndatta: {}\n',
      /unknown field "datta"/,
    ),
  ),
  // Client-side apply: a strategic merge patch for this kind.
  feed('apply -f -', DEPLOYMENT, /deployment.apps\/web created/),
  feed('apply -f -', DEPLOYMENT, /deployment.apps\/web unchanged/),
  feed(
    'apply -f -',
    web((text) => text.replace('web:1', 'web:2')),
    /deployment.apps\/web configured/,
  ),
  run('get deployment web -o jsonpath={.spec.template.spec.containers[*].image}', /^web:2 side:1$/),
  feed(
    'apply -f -',
    web((text) => text.replace(/ +- \{name: side.*\n/, '')),
    /configured/,
  ),
  run('get deployment web -o jsonpath={.spec.template.spec.containers[*].name}', /^web$/),
  feed(
    'diff -f -',
    web((text) => text.replace(/ +- \{name: side.*\n/, '')),
    /^$/,
  ),
  // Server-side apply.
  feed(
    'apply --server-side -f -',
    'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared}\ndata: {a: "1"}\n',
    /configmap\/shared serverside-applied/,
  ),
  refused(
    feed(
      'apply --server-side --field-manager=other -f -',
      'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared}\ndata: {a: "2"}\n',
      /conflict with "kubectl": \.data\.a|conflict with "kubectl" using v1: \.data\.a/,
    ),
  ),
  feed(
    'apply --server-side --force-conflicts --field-manager=other -f -',
    'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared}\ndata: {a: "2"}\n',
    /serverside-applied/,
  ),
  run('get configmap shared -o jsonpath={.data.a} --show-managed-fields', /^2$/),
  run('edit configmap settings', /configmap\/settings edited/),
  run('get configmap settings -o jsonpath={.data.color}', /^green$/),
  run('patch configmap settings --type=merge -p {"data":{"size":"L"}}', /configmap\/settings patched/),
  run('patch configmap settings --type=json -p [{"op":"add","path":"/data/op","value":"json"}]', /patched/),
  run(
    'patch deployment web --type=strategic -p {"spec":{"template":{"spec":{"containers":[{"name":"web","image":"web:3"}]}}}}',
    /patched/,
  ),
  run(
    'get deployment web -o jsonpath={.spec.template.spec.containers[0]}',
    /"image":"web:3".*"name":"web"|"name":"web".*"image":"web:3"/,
  ),
  run('set image deployment/web web=web:4', /deployment.apps\/web image updated/),
  run('label configmap settings tier=one', /labeled/),
  run('label configmap settings tier=two --overwrite', /labeled/),
  run('annotate configmap settings note=here', /annotated/),
  run('get configmap -l tier=two -o name', /^configmap\/settings$/m),
  feed(
    'replace -f -',
    'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {all: new}\n',
    /configmap\/settings replaced/,
  ),
  run('get configmap settings -o jsonpath={.data}', /^\{"all":"new"\}$/),
  run('scale deployment web --replicas=5', /deployment.apps\/web scaled/),
  run('get deployment web -o jsonpath={.spec.replicas}', /^5$/),
  refused(run('scale deployment web --current-replicas=3 --replicas=6', /[Ee]xpected/)),
  run('wait deployment/web --for=jsonpath={.spec.replicas}=5 --timeout=20s', /condition met/),
  run(
    'patch deployment web --subresource=status --type=merge -p {"status":{"conditions":[{"type":"Available","status":"True"}]}}',
    /patched/,
  ),
  run('wait deployment/web --for=condition=Available --timeout=20s', /condition met/),
  // Custom resources, starting with their definition.
  feed('apply -f -', DEFINITION, /caches.edge.example.com created/),
  run('wait crd/caches.edge.example.com --for=condition=Established --timeout=20s', /condition met/),
  feed('apply -f -', CACHE, /cache.edge.example.com\/front created/),
  run('get cache front -o jsonpath={.spec}', /^\{"replicas":1,"size":"M"\}|\{"size":"M","replicas":1\}$/),
  refused(
    feed(
      'apply -f -',
      CACHE.replace('size: M', 'size: XL'),
      /spec\.size: Unsupported value: "XL": supported values: "S", "M", "L"/,
    ),
  ),
  refused(
    feed(
      'apply -f -',
      CACHE.replace('size: M', 'replicas: -1'),
      /spec\.size: Required value/,
      /spec\.replicas.*greater than or equal to 0/,
    ),
  ),
  refused(feed('apply -f -', CACHE.replace('size: M', 'size: M, sise: L'), /unknown field "spec.sise"/)),
  feed('apply -f -', CACHE.replace('size: M', 'size: L'), /configured/),
  run('scale cache front --replicas=3', /scaled/),
  run('get ca front -o jsonpath={.spec.replicas}', /^3$/),
  run('delete cache front', /deleted/),
  run('delete crd caches.edge.example.com', /deleted/),
  run('delete configmap settings', /configmap "settings" deleted/),
  run('wait configmap/settings --for=delete --timeout=20s', /^/),
  refused(run('get configmap settings', /NotFound/)),
  run('delete deployment --all', /"made" deleted/, /"web" deleted/),
  run('delete namespace team', /namespace "team" deleted/),
  refused(run('get namespace team', /NotFound/)),
]

const hasKubectl = spawnSync(kubectlBinary, ['version', '--client']).status === 0

void t.test('kubectl writes', { skip: hasKubectl ? false : 'no kubectl on this machine' }, async (t) => {
  const h = await startApp(t, { flags: ['--enable-writes'] })
  const home = mkdtempSync(join(tmpdir(), 'kubectl-writes-'))
  t.teardown(() => rmSync(home, { recursive: true, force: true }))
  const editor = join(home, 'editor')
  writeFileSync(editor, '#!/bin/sh\nsed -i "s/blue/green/" "$1"\n')
  chmodSync(editor, 0o755)
  const env = {
    ...process.env,
    HOME: home,
    KUBECONFIG: join(home, 'none'),
    KUBECACHEDIR: join(home, 'cache'),
    KUBE_EDITOR: editor,
  }
  for (const { args, input, code = 0, out } of STEPS) {
    const said = await new Promise<{ code: number; text: string }>((resolve) => {
      const child = execFile(
        kubectlBinary,
        ['-s', h.url, ...args],
        { env, timeout: 120_000 },
        (error, stdout, stderr) => {
          resolve({ code: error === null ? 0 : Number(error.code ?? 1), text: stdout + stderr })
        },
      )
      child.stdin?.end(input ?? '')
    })
    const what = `kubectl ${args.join(' ')}`
    t.equal(said.code, code, `${what}\n${said.text.slice(0, 600)}`)
    for (const pattern of out) t.match(said.text, pattern, what)
  }
})
