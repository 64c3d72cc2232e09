/**
 * `doctor` as a user runs it: each check when all is well, and when it must say "wrong". A distributary with writes
 * stands in for the API server, since both answer the requests; `npm run judge -- onboarding` uses Kubernetes' own.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { EXIT } from '../../src/cli/exit-code.js'
import { CHECKS, type Finding, type Patient } from '../../src/cli/doctor/checks.js'
import { type CertificateAuthority, createAuthority } from '../support/certificates.js'
import { type EtcdProcess, startEtcd } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { startServer } from '../support/server-process.js'
import { hasTerminal, runCli, runOnTerminal } from './support/run-cli.js'

const RBAC = { apiVersion: 'rbac.authorization.k8s.io/v1' }
const ROLE = { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole' }
const admin = { kind: 'User', name: 'ada', apiGroup: 'rbac.authorization.k8s.io' }
const reviewer = { kind: 'ServiceAccount', name: 'distributary', namespace: 'distributary' }

const binding = (name: string, subject: object): [string, object] => [
  `/registry/clusterrolebindings/${name}`,
  { ...RBAC, kind: 'ClusterRoleBinding', metadata: { name }, roleRef: { ...ROLE, name }, subjects: [subject] },
]

const role = (name: string, rule: object): [string, object] => [
  `/registry/clusterroles/${name}`,
  { ...RBAC, kind: 'ClusterRole', metadata: { name }, rules: [rule] },
]

const REVIEW = { apiGroups: ['authentication.k8s.io'], resources: ['tokenreviews'], verbs: ['create'] }

/** The ConfigMap that contains these authorities. */
function trusting(name: string, ...authorities: CertificateAuthority[]): [string, object] {
  const data = { 'ca.crt': authorities.map(({ ca }) => readFileSync(ca, 'utf8')).join('') }
  const metadata = { name, namespace: 'default' }
  return [`/registry/configmaps/default/${name}`, { apiVersion: 'v1', kind: 'ConfigMap', metadata, data }]
}

function objects(authority: CertificateAuthority, ofCluster: CertificateAuthority): Map<string, object> {
  const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'default' }, status: { phase: 'Active' } }
  return new Map<string, object>([
    ['/registry/namespaces/default', namespace],
    trusting('distributary-ca', ofCluster, authority),
    trusting('kube-root-ca.crt', ofCluster),
    role('system:auth-delegator', REVIEW),
    role('view', { apiGroups: [''], resources: ['pods'], verbs: ['get', 'list', 'watch'] }),
    binding('system:auth-delegator', reviewer),
    binding('view', { kind: 'ServiceAccount', name: 'viewer', namespace: 'default' }),
    ['/registry/clusterroles/all', { ...RBAC, kind: 'ClusterRole', metadata: { name: 'all' }, rules: EVERYTHING }],
    binding('all', admin),
  ])
}

const EVERYTHING = [
  { apiGroups: ['*'], resources: ['*'], verbs: ['*'] },
  { nonResourceURLs: ['*'], verbs: ['*'] },
]

interface Scene {
  readonly etcd: EtcdProcess
  readonly writer: EtcdWriter
  readonly authority: CertificateAuthority
  readonly ofCluster: CertificateAuthority
  readonly tokens: string
  readonly kubeconfig: string
}

/** An etcd, and the server that plays the API server here. */
async function setScene(t: Test): Promise<Scene> {
  const folder = t.testdir({ 'tokens.csv': 'ada-token,ada,uid-ada\n', 'nobody.csv': 'other,other,uid\n' })
  const [etcd, authority, ofCluster] = [await startEtcd(t), createAuthority(t), createAuthority(t)]
  const writer = new EtcdWriter([etcd])
  await writer.fill(objects(authority, ofCluster))
  const tokens = join(folder, 'tokens.csv')
  const flags = [`--etcd-servers=${etcd.url}`, '--enable-writes', `--token-auth-file=${tokens}`]
  const there = await startServer(t, { flags: [...flags, '--authorization-mode=RBAC'] })
  const kubeconfig = join(folder, 'kubeconfig')
  const config = {
    clusters: [{ name: 'c', cluster: { server: there.url } }],
    users: [{ name: 'u', user: { token: 'ada-token' } }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  }
  writeFileSync(kubeconfig, JSON.stringify(config))
  return { etcd, writer, authority, ofCluster, tokens, kubeconfig }
}

interface Fault {
  readonly etcd?: EtcdProcess
  readonly tokens?: string
  readonly mode?: string
  readonly flags?: readonly string[]
  readonly names?: string
  readonly signer?: CertificateAuthority
  readonly options?: readonly string[]
}

const NAMES = 'DNS:distributary.distributary.svc,IP:127.0.0.1'

/** The rows of a run, by check, against a distributary that is fine except for the given fault. */
async function diagnose(
  t: Test,
  scene: Scene,
  fault: Fault = {},
): Promise<{ code: unknown; rows: Map<string, Finding> }> {
  const { etcd = scene.etcd, tokens = scene.tokens, mode = 'RBAC', flags = [], names = NAMES } = fault
  const { cert, key } = (fault.signer ?? scene.authority).server(names)
  const tls = [`--tls-cert-file=${cert}`, `--tls-private-key-file=${key}`, '--secure-port=0', '--port=off']
  const own = [`--etcd-servers=${etcd.url}`, '--enable-writes', `--token-auth-file=${tokens}`]
  const here = await startServer(t, { flags: [...own, `--authorization-mode=${mode}`, ...tls, ...flags] })
  const args = [
    '--kubeconfig',
    scene.kubeconfig,
    '--server',
    here.secureUrl,
    '--timeout',
    '2s',
    '-o',
    'json',
    ...(fault.options ?? []),
  ]
  const { code, stdout, stderr } = await runCli(t, ['doctor', ...args])
  await here.kill()
  if (stdout === '') throw new Error(stderr)
  return { code, rows: new Map((JSON.parse(stdout) as Finding[]).map((row) => [row.check, row])) }
}

void t.test('doctor reports no problem on a healthy server', async (t) => {
  const { code, rows } = await diagnose(t, await setScene(t))
  t.same(
    [...rows.values()].filter(({ outcome }) => outcome !== 'ok'),
    [],
  )
  t.equal(code, EXIT.done)
  t.match(rows.get('permissions')?.found, /^200 decisions agree, [1-9]/)
  t.match(rows.get('lists')?.found, /with [1-9]\d* objects/)
})

void t.test('doctor compares what changes all the time', async (t) => {
  const scene = await setScene(t)
  const lease = (at: number): object => ({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: 'busy', namespace: 'default' },
    data: { at: String(at) },
  })
  let isOver = false
  const writing = (async (): Promise<void> => {
    for (let at = 0; !isOver; at++) await scene.writer.put('/registry/configmaps/default/busy', lease(at))
  })()
  const { rows } = await diagnose(t, scene)
  isOver = true
  await writing
  t.match(rows.get('lists'), { outcome: 'ok' })
})

void t.test('doctor takes a file with several authorities, and the address that agents of a node use', async (t) => {
  const scene = await setScene(t)
  const bundle = join(scene.tokens, '../bundle.crt')
  const warnings: Error[] = []
  const note = (warning: Error): void => void warnings.push(warning)
  process.on('warning', note)
  t.teardown(() => process.off('warning', note))
  for (const authorities of [
    [scene.authority, createAuthority(t)],
    [createAuthority(t), scene.authority],
  ]) {
    writeFileSync(bundle, authorities.map(({ ca }) => readFileSync(ca, 'utf8')).join(''))
    const options = ['--certificate-authority', bundle, '--host', '127.0.0.1']
    const { code, rows } = await diagnose(t, scene, { options })
    t.equal(code, EXIT.done)
    t.match(rows.get('certificate'), { outcome: 'ok', found: 'valid for 127.0.0.1' })
    const other = await diagnose(t, scene, { options: [...options.slice(0, -1), '127.0.0.2'] })
    t.match(other.rows.get('certificate'), { outcome: 'wrong', found: 'not valid for 127.0.0.2' })
  }
  t.same(warnings, [])
})

void t.test('doctor checks what moved pods trust, whatever this machine trusts', async (t) => {
  const scene = await setScene(t)
  const { authority, ofCluster, writer } = scene
  const bare: [string, null] = ['/registry/configmaps/default/distributary-ca', null]
  const rows: readonly (readonly [name: string, maps: [string, object | null][], verdict: object])[] = [
    ['both authorities', [], { outcome: 'ok', found: /has 2 CAs/ }],
    [
      'a copy without the cluster’s',
      [trusting('distributary-ca', authority)],
      { outcome: 'wrong', found: /lacks a CA of the cluster/, advice: /from both CAs/ },
    ],
    [
      'a copy from before the cluster’s was renewed',
      [trusting('distributary-ca', authority, ofCluster), trusting('kube-root-ca.crt', ofCluster, createAuthority(t))],
      { outcome: 'wrong', found: /lacks a CA of the cluster/ },
    ],
    [
      'a copy without ours',
      [trusting('distributary-ca', ofCluster), trusting('kube-root-ca.crt', ofCluster)],
      { outcome: 'wrong', found: /lacks the CA of distributary’s certificate/ },
    ],
    ['no certificate', [trusting('distributary-ca')], { outcome: 'wrong', found: /no certificate in ca\.crt/ }],
    ['no copy', [bare], { outcome: 'skipped', found: /there is no ConfigMap distributary-ca in default/ }],
    ['none is needed', [trusting('kube-root-ca.crt', authority)], { outcome: 'ok', found: /already trust/ }],
  ]
  for (const [name, maps, verdict] of rows) {
    await writer.commit(Object.fromEntries(maps))
    const { code, rows } = await diagnose(t, scene, { options: ['--certificate-authority', authority.ca] })
    t.match(rows.get('certificate'), { outcome: 'ok' }, name)
    t.match(rows.get('authorities'), verdict, name)
    t.equal(code, rows.get('authorities')?.outcome === 'wrong' ? EXIT.failed : EXIT.done, name)
  }
})

void t.test('doctor says what is wrong, and what to do', async (t) => {
  const scene = await setScene(t)
  const other = await startEtcd(t)
  const faults: Readonly<Record<string, { fault: Fault; checks: Readonly<Record<string, RegExp>> }>> = {
    'a certificate for another name': {
      fault: { names: 'DNS:other,IP:127.0.0.1' },
      checks: { certificate: /not valid for distributary\.distributary\.svc/ },
    },
    'a certificate of an authority that pods do not trust': {
      fault: { signer: createAuthority(t) },
      checks: { certificate: /verify|signed|issuer/, version: /does not answer/ },
    },
    'callers that are not known': {
      fault: { tokens: join(scene.tokens, '..', 'nobody.csv') },
      checks: { version: /answers 401/, token: /refuses the kubeconfig’s credentials: 401/, permissions: /401/ },
    },
    'resources that are left out': { fault: { flags: ['--resource=-events'] }, checks: { discovery: /events\.v1/ } },
    'everybody may read everything': {
      fault: { mode: 'AlwaysAllow' },
      checks: { permissions: /of 200 decisions differ: .*allowed only by distributary/ },
    },
    'another etcd': {
      fault: { etcd: other },
      checks: { lists: /empty on distributary|differs at/, latency: /did not arrive within 2 s/ },
    },
  }
  const rights = objects(scene.authority, scene.ofCluster)
  await new EtcdWriter([other]).fill(new Map([...rights].filter(([key]) => /clusterrole/.test(key))))
  for (const [what, { fault, checks }] of Object.entries(faults)) {
    await t.test(what, async (t) => {
      const { code, rows } = await diagnose(t, scene, fault)
      t.equal(code, EXIT.failed)
      for (const [check, found] of Object.entries(checks)) {
        const row = rows.get(check)
        t.match(row, { outcome: 'wrong', found }, check)
        t.not(row?.advice, '')
      }
    })
  }
  await t.test('something that the server cannot read', async (t) => {
    await scene.writer.commit({ '/registry/secrets/default/sealed': 'k8s:enc:secretbox:v1:key:x' })
    const { code, rows } = await diagnose(t, scene, { flags: ['--resource=secrets'] })
    t.equal(code, EXIT.failed)
    t.match(rows.get('readiness'), { outcome: 'wrong', found: /^cache-secrets .*encrypted/, advice: /readyz/ })
    await scene.writer.commit({ '/registry/secrets/default/sealed': null })
  })
  await t.test('a reviewer without its rights', async (t) => {
    await scene.writer.commit({ '/registry/clusterrolebindings/system:auth-delegator': null })
    const { code, rows } = await diagnose(t, scene)
    t.equal(code, EXIT.failed)
    t.match(rows.get('reviewer'), { outcome: 'wrong', advice: /system:auth-delegator/ })
  })
})

void t.test('permissions that distributary lacks are one cause, by resource', async (t) => {
  const examine = async (...lines: readonly string[]) => {
    const here = { get: async () => ({ status: 200, text: `${lines.join('\n')}\n` }) }
    return await CHECKS['readiness']!({ here } as unknown as Patient)
  }
  const lacks = (resource: string): string => `[*]cache-${resource} not served: permission-denied: /apis: forbidden`
  const others = '[*]upstream-permissions reads are refused: /apis: pods is forbidden'
  t.match(await examine('[+]ping ok', others, lacks('pods'), lacks('jobs.batch')), {
    outcome: 'wrong',
    found: 'distributary may not list pods, jobs.batch',
    advice: /get, list and watch .*readerRules/,
  })
  const forbidden = (verb: string): string =>
    `pods is forbidden: User "x" cannot ${verb} resource "pods" in API group ""`
  t.match(await examine(`[*]upstream-permissions reads are refused: ${forbidden('get')}`), {
    found: 'distributary may not get pods',
    advice: /get, list and watch/,
  })
  t.match(await examine(`[*]upstream-permissions reads are refused: ${forbidden('get')}`, lacks('jobs.batch')), {
    found: 'distributary may not get pods, nor list jobs.batch',
  })
  t.match(await examine(`[*]staleness served from the cache: pods was last confirmed 9 s ago: ${forbidden('watch')}`), {
    found: 'distributary may not watch pods',
    advice: /get, list and watch/,
  })
  const many = Array.from({ length: 12 }, (_, i) => `kind${i}.example.com`)
  t.match(await examine(...many.map(lacks)), { found: `distributary may not list ${many.join(', ')}` }, 'each by name')
  t.match(await examine(lacks('pods'), '[*]staleness served from the cache: old'), { found: /^cache-pods .*staleness/ })
  t.match(await examine('[+]ping ok'), { outcome: 'ok' })
})

void t.test(
  'doctor forgives one late confirmation of the cache, and names a source that confirms nothing',
  async (t) => {
    const examine = async (late: number) => {
      let asked = 0
      const get = async () => ({
        status: 200,
        text: `[+]ping ok\n${asked++ < late ? '[*]staleness served from the cache: pods was last confirmed 2 s ago\n' : ''}`,
      })
      return await CHECKS['readiness']!({ here: { get } } as unknown as Patient)
    }
    t.match(await examine(1), { outcome: 'ok' })
    t.match(await examine(Infinity), { outcome: 'wrong', found: /^staleness .*pods/, advice: /readyz/ })
  },
)

void t.test('doctor says how old the cache is, and how far back watches resume', async (t) => {
  const examine = async (list: object, watch = '') => {
    const get = async (_path: string, query: object) =>
      'watch' in query
        ? { status: 200, text: watch }
        : { status: 200, stalenessSeconds: 0, body: { metadata: { resourceVersion: '900' } }, ...list }
    return await CHECKS['history']!({ here: { get }, agent: null } as unknown as Patient)
  }
  const expired = (floor: number): string => `{"message":"too old resource version: 1 (${floor})","code":410}`
  t.match(await examine({}, expired(300)), { outcome: 'ok', found: /from 600 revisions ago/ })
  t.match(await examine({}), { outcome: 'ok', found: /from any revision/ })
  t.match(await examine({}, expired(901)), { outcome: 'skipped', found: /no history yet/ })
  t.match(await examine({ stalenessSeconds: 31 }), { outcome: 'wrong', found: /31 s old/, advice: /readyz/ })
  t.match(await examine({ status: 403, body: { message: 'forbidden' } }), {
    outcome: 'skipped',
    found: '403 forbidden',
  })
  t.match(await examine({ status: 503, body: {} }), { outcome: 'wrong', advice: /readyz/ })
})

void t.test('doctor compares objects without what distributary leaves out of them', async (t) => {
  const examine = async (lacksManagedFields: boolean, own: object) => {
    const resources = async () => [{ group: '', version: 'v1', plural: 'pods' }]
    const listing = (metadata: object, more: object) => ({
      resources,
      get: async () => ({ status: 200, body: { metadata: { resourceVersion: '1' }, items: [{ metadata }] }, ...more }),
    })
    const here = listing({ name: 'a', ...own }, { lacksManagedFields })
    const there = listing({ name: 'a', managedFields: [{ manager: 'kubectl' }] }, { lacksManagedFields: false })
    return await CHECKS['lists']!({ here, there, agent: null } as unknown as Patient)
  }
  t.match(await examine(true, {}), {
    outcome: 'ok',
    found: '1 lists are equal, without managedFields (strip), with 1 objects',
  })
  t.match(await examine(true, { labels: {} }), { outcome: 'wrong', found: /differs at/ })
  t.match(await examine(false, {}), { outcome: 'wrong', found: /differs at/ })
})

void t.test(
  'doctor compares no lists that are computed for each request, such as those of metrics-server',
  async (t) => {
    let requests = 0
    const server = {
      resources: async () =>
        ['nodes', 'pods'].map((plural) => ({
          group: plural === 'pods' ? 'metrics.k8s.io' : '',
          version: 'v1',
          plural,
        })),
      get: async (path: string) => ({
        status: 200,
        body: path.includes('metrics')
          ? { metadata: {}, items: [{ metadata: { name: 'a' }, containers: [`in any order ${requests++}`] }] }
          : { metadata: { resourceVersion: '1' }, items: [{ metadata: { name: 'n' } }] },
      }),
    }
    const verdict = await CHECKS['lists']!({ here: server, there: server, agent: null } as unknown as Patient)
    t.match(verdict, { outcome: 'ok', found: '1 lists are equal, with 1 objects' })
    t.ok(requests > 0, 'although it could be asked')
  },
)

void t.test('doctor rejects arguments that it cannot use', async (t) => {
  t.match(await runCli(t, ['doctor']), { code: EXIT.usage, stderr: /--kubeconfig is required/ })
  const { kubeconfig } = await setScene(t)
  const of = (...args: string[]) => runCli(t, ['doctor', '--kubeconfig', kubeconfig, ...args])
  t.match(await of('--from-pod', 'x'), { code: EXIT.usage, stderr: /NAMESPACE\/NAME/ })
  t.match(await of('--from-pod', 'default/x'), { code: EXIT.failed, stderr: /no token for default\/x/ })
  const plain = await of('--server', 'http://127.0.0.1:9')
  t.match(plain, {
    code: EXIT.failed,
    stdout: /^CHECK +OUTCOME +FOUND, AND WHAT TO DO\ncertificate +wrong +plain HTTP\n +→ set --tls-cert-file/,
  })
  if (!hasTerminal) return
  const escape = '\u001b'
  const shown = await runOnTerminal(t, ['doctor', '--kubeconfig', kubeconfig, '--server', 'http://127.0.0.1:9'])
  const uncoloured = shown.replaceAll(new RegExp(`${escape}\\[\\d+m`, 'g'), '').replaceAll('\r', '')
  t.match(shown, new RegExp(`^certificate +${escape}\\[31mwrong +${escape}\\[0mplain HTTP`, 'm'))
  t.equal(uncoloured, plain.stdout, 'colour moves no column')
})

void t.test(
  'with a client certificate, doctor names the option for that, in one row of a table that fits',
  async (t) => {
    const { etcd, authority, tokens, kubeconfig } = await setScene(t)
    const client = authority.client('admin', ['system:masters'])
    const { cert, key } = authority.server(`${NAMES},DNS:localhost`)
    const tls = [`--tls-cert-file=${cert}`, `--tls-private-key-file=${key}`, '--secure-port=0', '--port=off']
    const own = [`--etcd-servers=${etcd.url}`, '--enable-writes', '--authorization-mode=RBAC', ...tls]
    const there = await startServer(t, { flags: [...own, `--client-ca-file=${authority.ca}`] })
    const here = await startServer(t, { flags: [...own, `--token-auth-file=${tokens}`] })
    const config = JSON.parse(readFileSync(kubeconfig, 'utf8')) as {
      clusters: [{ cluster: object }]
      users: [{ user: object }]
    }
    config.clusters[0].cluster = { server: there.secureUrl, 'certificate-authority': authority.ca }
    config.users[0].user = { 'client-certificate': client.cert, 'client-key': client.key }
    writeFileSync(kubeconfig, JSON.stringify(config))
    const { code, stdout, stderr } = await runCli(t, [
      'doctor',
      '--kubeconfig',
      kubeconfig,
      '--server',
      here.secureUrl,
      '--timeout',
      '2s',
    ])
    t.equal(code, EXIT.failed, stderr)
    const lines = stdout.trimEnd().split('\n')
    for (const line of lines) t.ok(line.length <= 100, line)
    t.equal(stdout.split('--client-ca-file').length, 2, stdout)
    t.notMatch(stdout, /--authentication-kubeconfig|--service-account-issuer/)
    t.match(stdout, /^version, token.*wrong +distributary answers 401 to \/version$/m)
  },
)
