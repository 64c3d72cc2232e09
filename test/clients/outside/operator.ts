/**
 * An operator of controller-runtime, unchanged, with minimal permissions, against two workers: its cache, the status,
 * the ConfigMaps that it applies and its finalizers, through restarts of the server and of etcd.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { buildGoProgram } from '../../support/go-program.js'
import { until } from '../../support/until.js'
import { operator } from '../programs.js'
import { startClient } from '../support/program.js'
import { startStage, type World } from '../support/stage.js'
import { list, surviveDisruptions } from '../support/survive.js'
import { definitionsPath, type Widget, widget, widgetDefinition, widgetsPath } from '../support/widgets.js'

const program = buildGoProgram(operator)

const rbac = 'rbac.authorization.k8s.io'

function role(name: string, user: string, rules: readonly object[]): Record<string, object> {
  return {
    [`/registry/clusterroles/${name}`]: {
      apiVersion: `${rbac}/v1`,
      kind: 'ClusterRole',
      metadata: { name, uid: `uid-role-${name}` },
      rules,
    },
    [`/registry/clusterrolebindings/${name}`]: {
      apiVersion: `${rbac}/v1`,
      kind: 'ClusterRoleBinding',
      metadata: { name, uid: `uid-binding-${name}` },
      roleRef: { apiGroup: rbac, kind: 'ClusterRole', name },
      subjects: [{ apiGroup: rbac, kind: 'User', name: user }],
    },
  }
}

const rights = [
  { apiGroups: ['example.com'], resources: ['widgets'], verbs: ['get', 'list', 'watch', 'update'] },
  { apiGroups: ['example.com'], resources: ['widgets/status'], verbs: ['update'] },
  { apiGroups: [''], resources: ['configmaps'], verbs: ['get', 'list', 'watch', 'create', 'patch', 'delete'] },
  // An API server lets everyone read these, through its default role system:discovery.
  { nonResourceURLs: ['/api', '/api/*', '/apis', '/apis/*'], verbs: ['get'] },
]

const keyOf = (name: string): string => `/registry/example.com/widgets/default/${name}`

function widgets(): World {
  let turns = 0
  const namespace = { kind: 'Namespace', apiVersion: 'v1', metadata: { name: 'default' }, status: { phase: 'Active' } }
  return {
    initial: new Map(
      Object.entries({
        '/registry/namespaces/default': namespace,
        ...role('everything', 'admin', [
          { apiGroups: ['*'], resources: ['*'], verbs: ['*'] },
          { nonResourceURLs: ['/metrics'], verbs: ['get'] },
        ]),
        ...role('operator', 'operator', rights),
      }),
    ),
    // As after restoring a backup: without the status and the finalizer that the operator wrote.
    turn: (name) => [{ [keyOf('w')]: widget('w', ++turns) }, { [keyOf(name)]: widget(name, turns + 100) }],
  }
}

void t.test('it answers every widget, with two workers and no more permissions than it needs', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'distributary-operator-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const tokens = join(folder, 'tokens.csv')
  writeFileSync(tokens, 'admin-token,admin,1,"people"\noperator-token,operator,2,"programs"\n', { mode: 0o600 })
  const flags = ['--workers=2', `--token-auth-file=${tokens}`, '--authorization-mode=RBAC']
  const stage = await startStage(t, { world: widgets(), flags })
  const send = async (method: string, path: string, body?: object): Promise<Response> =>
    await fetch(stage.url + path, {
      method,
      headers: { 'content-type': 'application/json', authorization: 'Bearer admin-token' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
  const defined = await send('POST', definitionsPath, widgetDefinition)
  t.equal(defined.status, 201, await defined.text())
  await until(async () => (await send('GET', widgetsPath)).ok, 'widgets are served')
  const client = await startClient(t, [program, stage.url, 'operator-token'], {
    KUBE_FEATURE_WatchListClient: 'false',
  })
  await surviveDisruptions(t, stage, {
    userAgent: /^operator/,
    token: 'admin-token',
    printed: () => client.errors(),
    held: async () => (await client.ask('held')) as readonly string[],
    // The members that each widget must have once the operator has done its work.
    listed: async () => {
      const { items } = await list<{ items: readonly Widget[] }>(stage, widgetsPath, 'admin-token')
      return items.flatMap(({ metadata: { name }, spec: { size } }) => [
        `widget ${name} ${size} ${size} [example.com/cleanup]`,
        `configmap ${name} ${size}`,
      ])
    },
  })
  t.equal((await send('DELETE', '/api/v1/namespaces/default/configmaps/w')).status, 200)
  await until(
    async () => (await send('GET', '/api/v1/namespaces/default/configmaps/w')).ok,
    'what it owns is made again',
  )
  t.equal((await send('DELETE', `${widgetsPath}/w`)).status, 200)
  await until(async () => (await send('GET', `${widgetsPath}/w`)).status === 404, 'the widget is gone')
  t.equal((await send('GET', '/api/v1/namespaces/default/configmaps/w')).status, 404, 'and what it owned')
  t.notMatch(client.errors(), /panic|forbidden/i)
  t.equal(await client.end(), 0)
})
