/** Which resources `--etcd-servers-overrides` may place in another etcd, and with which keys. */
import t from 'tap'
import { keyFromText, keyToText } from '../../../src/engine/model/event.js'
import type { ApiResource } from '../../../src/kubernetes/model/api-resource.js'
import { otherOf, resolveOtherEtcds, type ServersOverride } from '../../../src/kubernetes/dialect/other-etcds.js'

/** @param text `group/plural#server;server`. */
function override(text: string): ServersOverride {
  const [name = '', servers = ''] = text.split('#')
  const [group = '', plural = ''] = name.split('/')
  return { group, plural, servers: servers.split(';') }
}

const resolve = (...texts: string[]): ReturnType<typeof resolveOtherEtcds> =>
  resolveOtherEtcds('/registry', texts.map(override))

void t.test('a set of servers is one etcd, whatever their order', async (t) => {
  const { etcds, problems } = resolve('/events#a;b', '/nodes#c', 'coordination.k8s.io/leases#b;a')
  t.same(problems, [])
  t.same(
    etcds.map(({ servers, resources, prefixes }) => [servers, resources, prefixes.map(keyToText)]),
    [
      [
        ['a', 'b'],
        ['events', 'leases.coordination.k8s.io'],
        ['/registry/events/', '/registry/leases/'],
      ],
      [['c'], ['nodes'], ['/registry/minions/']],
    ],
  )
})

for (const [texts, problem] of [
  [['/event#a'], '/event is not a resource of Kubernetes; custom resources are always in the main etcd'],
  [['/*#a'], '/* is not a resource of Kubernetes; custom resources are always in the main etcd'],
  [['example.com/widgets#a'], 'example.com/widgets is not a resource of Kubernetes;'],
  [['/deployments#a'], '/deployments is not a resource of Kubernetes;'],
  [['/events#a', '/events#b'], '/events is named twice'],
  [['events.k8s.io/events#a'], 'events.k8s.io/events: the API server stores it as /events, and accepts only that name'],
] as const) {
  void t.test(`${texts.join()} is refused`, async (t) => {
    const { problems } = resolve(...texts)
    t.equal(problems.length, 1)
    t.match(problems[0], problem)
  })
}

void t.test('definitions, roles and bindings are in the main etcd', async (t) => {
  for (const name of [
    ...['roles', 'rolebindings', 'clusterroles', 'clusterrolebindings'].map(
      (one) => `rbac.authorization.k8s.io/${one}`,
    ),
    'apiextensions.k8s.io/customresourcedefinitions',
    'apiregistration.k8s.io/apiservices',
  ])
    t.match(resolve(`${name}#a`).problems, [`${name}: resources and permissions are derived from it`])
})

void t.test('both groups of events, and declared prefixes below, are found where the events are', async (t) => {
  const { etcds } = resolve('/events#a', '/nodes#b')
  const of = (etcdPrefix: string): string | undefined =>
    otherOf(etcds, { etcdPrefix: keyFromText(etcdPrefix) } as Pick<ApiResource, 'etcdPrefix'>)?.servers[0]
  t.equal(of('/registry/events/'), 'a')
  t.equal(of('/registry/events/kube-system/'), 'a')
  t.equal(of('/registry/minions/'), 'b')
  t.equal(of('/registry/pods/'), undefined)
  t.equal(of('/registry/'), undefined)
})
