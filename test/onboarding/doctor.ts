/**
 * Tests `distributary doctor` with Kubernetes' own API server and a distributary installed by the manifests and by the
 * chart: it finds nothing wrong, and it finds each fault that involves the API server.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { Finding } from '../../src/cli/doctor/checks.js'
import { runCli } from '../cli/support/run-cli.js'
import { modeValues, renderChart } from '../ops/support/chart.js'
import { startEtcd } from '../support/etcd-process.js'
import { startServer } from '../support/server-process.js'
import { type Cluster, install, type Installed, listOf, startCluster, temporaryFolder, trustBoth } from './cluster.js'

const ACCOUNT = { kind: 'ServiceAccount', name: 'agent', namespace: 'monitoring' }

const AGENT = [
  { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'monitoring' } },
  { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'agent', namespace: 'monitoring' } },
  {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRole',
    metadata: { name: 'agent' },
    rules: [
      { apiGroups: ['', 'apps', 'rbac.authorization.k8s.io'], resources: ['*'], verbs: ['get', 'list', 'watch'] },
      { apiGroups: ['apps'], resources: ['deployments'], verbs: ['patch'] },
    ],
  },
  {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRoleBinding',
    metadata: { name: 'agent' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'agent' },
    subjects: [ACCOUNT],
  },
]

async function diagnose(
  t: Test,
  cluster: Cluster,
  server: string,
  ...more: readonly string[]
): Promise<{ code: unknown; rows: Map<string, Finding> }> {
  const args = ['--kubeconfig', cluster.kubeconfig, '--server', server, '--from-pod', 'monitoring/agent', '-o', 'json']
  const { code, stdout, stderr } = await runCli(t, ['doctor', ...args, '--timeout', '5s', ...more])
  if (stdout === '') throw new Error(stderr)
  return { code, rows: new Map((JSON.parse(stdout) as Finding[]).map((row) => [row.check, row])) }
}

void t.test('doctor on the API server of Kubernetes', async (t) => {
  const cluster = await startCluster(t)
  cluster.kubectl(['apply', '--server-side', '-f', '-'], listOf(AGENT))
  const ours = await install(t, cluster, { isApplied: ({ kind }) => kind !== 'ClusterRoleBinding' })

  await t.test('a reviewer without rights', async (t) => {
    const { code, rows } = await diagnose(t, cluster, ours.url, ...trust(ours))
    t.equal(code, 1)
    t.match(rows.get('reviewer'), { outcome: 'wrong', advice: /system:auth-delegator/ })
    t.match(rows.get('token'), { outcome: 'wrong', found: /503/ })
  })

  await t.test('an authority that the pods of the agent do not trust', async (t) => {
    // Without its controllers, this API server has no kube-root-ca.crt.
    cluster.kubectl(['-n', 'monitoring', 'create', 'configmap', 'distributary-ca', `--from-file=ca.crt=${cluster.ca}`])
    const { rows } = await diagnose(t, cluster, ours.url)
    t.match(rows.get('certificate'), { outcome: 'wrong', advice: /ConfigMap distributary-ca/ })
    cluster.kubectl(['-n', 'monitoring', 'delete', 'configmap', 'distributary-ca'])
  })

  const bundle = trustBoth(cluster, ours, 'monitoring')

  await t.test('doctor reports no problem in front of the server of the manifests', async (t) => {
    const fine = await install(t, cluster, { certificates: ours.certificates })
    const { code, rows } = await diagnose(t, cluster, fine.url)
    t.same(
      [...rows.values()].filter(({ outcome }) => outcome !== 'ok'),
      [],
    )
    t.equal(code, 0)
    for (const row of rows.values()) t.comment(`${row.check}: ${row.found}`)
    const given = await diagnose(t, cluster, fine.url, '--certificate-authority', bundle, '--host', '127.0.0.1')
    t.equal(given.code, 0)
    t.match(given.rows.get('certificate'), { outcome: 'ok', found: 'valid for 127.0.0.1' })
  })

  await t.test('doctor reports no problem in front of the server of the chart', async (t) => {
    const namespace = 'by-chart'
    const release = { Name: 'distributary', Namespace: namespace, Service: 'Helm' } as const
    const { objects } = renderChart(modeValues().get('agents')!, { release })
    cluster.kubectl(['create', 'namespace', namespace])
    cluster.kubectl(['create', 'serviceaccount', 'default', '-n', namespace])
    const chart = await install(t, cluster, { objects, namespace })
    const names = ['--host', `distributary.${namespace}.svc`, '--reviewer', `${namespace}/distributary`]
    const old = await diagnose(t, cluster, chart.url, ...trust(chart), ...names)
    t.match(old.rows.get('authorities'), { outcome: 'wrong', found: /lacks the CA of distributary’s certificate/ })
    const replaceTrust = (installed: Installed): void => {
      cluster.kubectl(['-n', 'monitoring', 'delete', 'configmap', 'distributary-ca', 'kube-root-ca.crt'])
      trustBoth(cluster, installed, 'monitoring')
    }
    replaceTrust(chart)
    t.teardown(() => replaceTrust(ours))
    const { code, rows } = await diagnose(t, cluster, chart.url, ...trust(chart), ...names)
    t.same(
      [...rows.values()].filter(({ outcome }) => outcome !== 'ok'),
      [],
    )
    t.equal(code, 0)
  })

  await t.test('another etcd, other rights, and no passthrough', async (t) => {
    const other = await startEtcd(t)
    const kubeconfig = join(temporaryFolder(t), 'reviewer')
    writeFileSync(kubeconfig, JSON.stringify(JSON.parse(cluster.kubectl(['config', 'view', '--raw', '-o', 'json']))))
    const file = (name: string): string => join(ours.certificates, name)
    const { secureUrl } = await startServer(t, {
      flags: [
        `--etcd-servers=${other.url}`,
        `--authentication-kubeconfig=${kubeconfig}`,
        '--authorization-mode=AlwaysAllow',
        `--tls-cert-file=${file('tls.crt')}`,
        `--tls-private-key-file=${file('tls.key')}`,
        '--secure-port=0',
        '--port=off',
      ],
    })
    const { code, rows } = await diagnose(t, cluster, secureUrl)
    t.equal(code, 1)
    t.match(rows.get('token'), { outcome: 'ok', found: 'system:serviceaccount:monitoring:agent' })
    for (const check of ['discovery', 'permissions', 'lists', 'latency']) {
      t.match(rows.get(check), { outcome: 'wrong' }, check)
    }
  })
})

const trust = ({ certificates }: Installed): string[] => ['--certificate-authority', join(certificates, 'ca.crt')]
