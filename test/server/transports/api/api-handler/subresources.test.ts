/**
 * Status and scale can be read on every server; the responses of an API server 0.37 for custom resources are in
 * `test/reference/`.
 */
import t, { type Test } from 'tap'
import { startApp } from '../../../../support/app.js'
import { pod } from '../../../../support/pod.js'
import { until } from '../../../../support/until.js'
import { definitionObject } from '../../../../support/definition.js'

const GROUP = 'flow.example.com'
const ROLLOUTS = `/apis/${GROUP}/v1/namespaces/a/rollouts`

const definition = definitionObject({
  group: GROUP,
  plural: 'rollouts',
  kind: 'Rollout',
  scope: 'Namespaced',
  versions: [
    {
      name: 'v1',
      storage: true,
      subresources: {
        status: {},
        scale: {
          specReplicasPath: '.spec.size.wanted',
          statusReplicasPath: '.status.size',
          labelSelectorPath: '.status.selector',
        },
      },
    },
    { name: 'v1alpha1' },
  ],
})

const metadata = (name: string): object => ({
  name,
  namespace: 'a',
  uid: `uid-${name}`,
  creationTimestamp: '2026-01-01T00:00:00Z',
  labels: { app: 'web' },
  generation: 1,
})
const rollout = (name: string, rest: object): object => ({
  apiVersion: `${GROUP}/v1`,
  kind: 'Rollout',
  metadata: metadata(name),
  ...rest,
})

async function start(
  t: Test,
  flags: readonly string[] = [],
): Promise<(path: string, accept?: string) => Promise<Said>> {
  const key = `${GROUP}/rollouts/a`
  const { url } = await startApp(t, {
    flags,
    objects: {
      [`apiextensions.k8s.io/customresourcedefinitions/rollouts.${GROUP}`]: definition,
      [`${key}/whole`]: rollout('whole', {
        spec: { size: { wanted: 3 } },
        status: { size: 2, selector: 'app=web' },
      }),
      [`${key}/none`]: rollout('none', { spec: { size: { wanted: 0 } } }),
      [`${key}/silent`]: rollout('silent', { spec: {} }),
      [`${key}/odd`]: rollout('odd', { spec: { size: { wanted: 1.5 } } }),
      [`${key}/flat`]: rollout('flat', { spec: { size: 7 } }),
      [`${key}/nulled`]: rollout('nulled', { spec: { size: { wanted: null } } }),
      [`${key}/beyond`]: rollout('beyond', { spec: { size: { wanted: 1 } }, status: { size: 1e20 } }),
      [`${key}/huge`]: rollout('huge', { spec: { size: { wanted: 4_294_967_295 } }, status: { size: 2_147_483_648 } }),
      [`${key}/labelled`]: rollout('labelled', {
        spec: { size: { wanted: 1 } },
        status: { selector: { b: ['x', null], a: '1' } },
      }),
      'pods/default/p': pod('p'),
      'deployments/a/web': {
        apiVersion: 'apps/v1',
        kind: 'Deployment',
        metadata: metadata('web'),
        spec: {
          selector: {
            matchLabels: { tier: 'front', app: 'web' },
            matchExpressions: [
              { key: 'zone', operator: 'In', values: ['b', 'a'] },
              { key: 'old', operator: 'DoesNotExist' },
              { key: 'new', operator: 'Exists' },
              { key: 'b', operator: 'NotIn', values: ['x'] },
            ],
          },
        },
        status: { replicas: 4 },
      },
      'controllers/a/web': {
        apiVersion: 'v1',
        kind: 'ReplicationController',
        metadata: metadata('web'),
        spec: { replicas: 2, selector: { b: '2', a: '1' } },
        status: { replicas: 0 },
      },
    },
  })
  const ask = async (path: string, accept = 'application/json'): Promise<Said> => {
    const response = await fetch(`${url}${path}`, { headers: { accept } })
    return { code: response.status, body: (await response.json()) as Said['body'] }
  }
  await until(async () => (await ask(ROLLOUTS)).code === 200, 'the rollouts are served')
  return ask
}

interface Said {
  readonly code: number
  readonly body: { readonly [member: string]: unknown }
}

const scale = (name: string, spec: object, status: object): object => ({
  kind: 'Scale',
  apiVersion: 'autoscaling/v1',
  metadata: { name, namespace: 'a', uid: `uid-${name}`, creationTimestamp: '2026-01-01T00:00:00Z' },
  spec,
  status,
})

/** Returns the object without its resourceVersion, which etcd chooses. */
function bodyOf({ body }: Said): object {
  const { resourceVersion, ...rest } = body['metadata'] as Record<string, unknown>
  if (!/^\d+$/.test(String(resourceVersion))) throw new Error('there is no resourceVersion')
  return { ...body, metadata: rest }
}

for (const flags of [[], ['--enable-writes']]) {
  void t.test(`read with ${flags.join(' ') || 'no flags'}`, async (t) => {
    const ask = await start(t, flags)

    t.same(
      (await ask(`${ROLLOUTS}/whole/status`)).body,
      (await ask(`${ROLLOUTS}/whole`)).body,
      'a status is the object',
    )
    t.match(await ask('/api/v1/namespaces/default/pods/p/status'), { code: 200, body: { kind: 'Pod' } })
    t.match(await ask(`${ROLLOUTS}/nobody/status`), { code: 404, body: { details: { name: 'nobody' } } })

    t.same(
      bodyOf(await ask(`${ROLLOUTS}/whole/scale`)),
      scale('whole', { replicas: 3 }, { replicas: 2, selector: 'app=web' }),
    )
    t.same(bodyOf(await ask(`${ROLLOUTS}/none/scale`)), scale('none', {}, { replicas: 0 }), 'zero is left out')
    t.same(
      bodyOf(await ask('/apis/apps/v1/namespaces/a/deployments/web/scale')),
      scale('web', { replicas: 1 }, { replicas: 4, selector: 'app=web,b notin (x),new,!old,tier=front,zone in (a,b)' }),
      'of a built-in kind, with its default',
    )
    t.same(
      bodyOf(await ask('/api/v1/namespaces/a/replicationcontrollers/web/scale')),
      scale('web', { replicas: 2 }, { replicas: 0, selector: 'a=1,b=2' }),
    )
    for (const [name, message] of [
      ['odd', '.spec.size.wanted accessor error: 1.5 is of the type float64, expected int64'],
      [
        'labelled',
        '.status.selector accessor error: map[a:1 b:[x <nil>]] is of the type map[string]interface {}, expected string',
      ],
      ['flat', '.spec.size.wanted accessor error: 7 is of the type int64, expected map[string]interface{}'],
      ['nulled', '.spec.size.wanted accessor error: <nil> is of the type <nil>, expected int64'],
      ['beyond', '.status.size accessor error: 1e+20 is of the type float64, expected int64'],
    ] as const) {
      const { code, body } = await ask(`${ROLLOUTS}/${name}/scale`)
      t.equal(code, 500)
      t.same(body, { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', message, code: 500 }, name)
    }
    const message = 'Internal error occurred: the spec replicas field ".spec.size.wanted" does not exist'
    t.match(await ask(`${ROLLOUTS}/silent/scale`), { code: 500, body: { reason: 'InternalError', message } })
    t.same(
      bodyOf(await ask(`${ROLLOUTS}/huge/scale`)),
      scale('huge', { replicas: -1 }, { replicas: -2_147_483_648 }),
      'a Scale has 32 bits for each',
    )
    t.match(await ask(`${ROLLOUTS}/nobody/scale`), {
      code: 404,
      body: { message: `rollouts.${GROUP} "nobody" not found` },
    })

    const older = ROLLOUTS.replace('/v1/', '/v1alpha1/')
    for (const name of ['status', 'scale', 'nothing', 'scale/more']) {
      t.match(
        await ask(`${older}/whole/${name}`),
        { code: 404, body: { message: `rollouts.${GROUP} "whole" not found`, details: { name: 'whole' } } },
        `${name} of a version without it`,
      )
    }
    t.match(await ask('/api/v1/namespaces/default/configmaps/a/status'), {
      code: 404,
      body: { message: 'the server could not find the requested resource' },
    })

    const table = 'application/json;as=Table;v=v1;g=meta.k8s.io'
    t.match(await ask(`${ROLLOUTS}/whole/scale`, table), {
      code: 200,
      body: {
        columnDefinitions: [{ name: 'Name' }, { name: 'Desired' }, { name: 'Available' }, { name: 'Age' }],
        rows: [{ cells: ['whole', 3, 2] }],
      },
    })

    const verbs = flags.length === 0 ? ['get'] : ['get', 'patch', 'update']
    const { resources } = (await ask(`/apis/${GROUP}/v1`)).body as unknown as { resources: { name: string }[] }
    t.match(
      resources.filter(({ name }) => name.startsWith('rollouts/')),
      [
        { name: 'rollouts/status', singularName: '', namespaced: true, kind: 'Rollout', verbs },
        { name: 'rollouts/scale', group: 'autoscaling', version: 'v1', kind: 'Scale', verbs },
      ],
      'discovery names them',
    )
  })
}

void t.test('a subresource needs the permission for the subresource', async (t) => {
  const role = {
    kind: 'ClusterRole',
    apiVersion: 'rbac.authorization.k8s.io/v1',
    metadata: { name: 'scales' },
    rules: [{ apiGroups: [GROUP], resources: ['rollouts/scale'], verbs: ['get'] }],
  }
  const binding = {
    kind: 'ClusterRoleBinding',
    apiVersion: 'rbac.authorization.k8s.io/v1',
    metadata: { name: 'scales' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'scales' },
    subjects: [{ kind: 'Group', apiGroup: 'rbac.authorization.k8s.io', name: 'system:unauthenticated' }],
  }
  const { url } = await startApp(t, {
    flags: ['--authorization-mode', 'RBAC'],
    objects: {
      'clusterroles/scales': role,
      'clusterrolebindings/scales': binding,
      [`apiextensions.k8s.io/customresourcedefinitions/rollouts.${GROUP}`]: definition,
      [`${GROUP}/rollouts/a/whole`]: rollout('whole', { spec: { size: { wanted: 3 } } }),
    },
  })
  const code = async (path: string): Promise<number> => (await fetch(`${url}${ROLLOUTS}/whole${path}`)).status
  await until(async () => (await code('/scale')) === 200, 'the scale can be read')
  t.equal(await code('/status'), 403)
  t.equal(await code(''), 403)
})
