import t from 'tap'
import { resolveResources, type ResourceDeclaration } from '../../../src/kubernetes/dialect/declared-resource.js'
import { keyFromText } from '../../../src/engine/model/event.js'
import { nameOfKey, resourceId } from '../../../src/engine/model/resource.js'

void t.test('by default everything in the table is served except Secrets', async (t) => {
  const { resources, problems } = resolveResources({})
  const ids = resources.map(({ resource }) => resourceId(resource))
  t.same(problems, [])
  t.ok(ids.includes('pods') && ids.includes('deployments.apps'))
  t.notOk(ids.includes('secrets'))
  t.same(
    ids.filter((id, i) => ids.indexOf(id) !== i),
    ['horizontalpodautoscalers.autoscaling'],
    'one version of each, but of what API servers of today serve in two',
  )
})

void t.test('--resource secrets adds Secrets, in their position', async (t) => {
  const { resources, problems } = resolveResources({ names: ['secrets', 'pods'] })
  t.same(problems, [])
  const ids = resources.map(({ resource }) => resourceId(resource))
  t.equal(ids.filter((id) => id === 'secrets').length, 1)
  t.equal(ids.filter((id) => id === 'pods').length, 1, 'naming what is served anyway changes nothing')
  t.ok(ids.indexOf('secrets') < ids.indexOf('deployments.apps'))
})

void t.test('--resource=-NAME omits a resource, under every group and version with its keys', async (t) => {
  for (const [names, expected] of [
    [['-events'], ['events', 'events.events.k8s.io']],
    [['-events.events.k8s.io'], ['events', 'events.events.k8s.io']],
    [['-deployments.apps'], ['deployments.apps']],
    [['-deployments'], ['deployments.apps']],
    [['-horizontalpodautoscalers.autoscaling'], ['horizontalpodautoscalers.autoscaling']],
    [['secrets', '-secrets'], ['secrets']],
    [['-secrets', 'secrets'], ['secrets']],
    [['-widgets.example.com', '-widgets.example.com'], ['widgets.example.com']],
    [['flags=/config/flags/', '-flags'], ['flags.distributary.io']],
  ] as const) {
    const { resources, leftOut, problems } = resolveResources({ names })
    t.same(problems, [], names.join())
    t.same([...new Set(leftOut)].toSorted(), expected, names.join())
    const ids = resources.map(({ resource }) => resourceId(resource))
    t.same(
      ids.filter((id) => expected.includes(id as never)),
      [],
      names.join(),
    )
    t.ok(ids.length > 50, names.join())
  }
})

void t.test('a resource that cannot be omitted is rejected by name', async (t) => {
  for (const [name, why] of [
    ['-event', /"-event" is not a known resource; to leave out a custom resource, use -NAME\.GROUP/],
    ['-', /"-" is not a known resource/],
    ['--events', /"--events" is not a known resource/],
    ['-Widgets.example.com', /is not a known resource/],
    ['-horizontalpodautoscalers.v1.autoscaling', /is not a known resource/],
    ['-events=/x/', /is not a known resource/],
    ['-clusterroles.rbac.authorization.k8s.io', /permissions are derived from clusterroles/],
    ['-roles', /permissions are derived from roles/],
    ['-customresourcedefinitions', /always served/],
  ] as const) {
    const { problems } = resolveResources({ names: [name] })
    t.equal(problems.length, 1, name)
    t.match(problems[0], why)
  }
})

void t.test('--resource flags=/config/flags/ declares a prefix', async (t) => {
  const { resources, problems } = resolveResources({ names: ['flags=/config/flags/'] })
  t.same(problems, [])
  const flags = resources.at(-1)
  t.same(flags?.resource, {
    group: 'distributary.io',
    version: 'v1',
    plural: 'flags',
    singular: 'flag',
    kind: 'Flag',
    listKind: 'FlagList',
    shortNames: [],
    categories: [],
    namespaced: false,
    etcdPrefix: '/config/flags/',
    holds: 'values',
  })
  t.equal(flags?.origin, 'declared')
  if (flags)
    t.same(nameOfKey(flags.resource, keyFromText('/config/flags/eu/checkout')), { namespace: '', name: 'eu:checkout' })
})

void t.test('the kind is derived from the name', async (t) => {
  for (const [name, kind, singular] of [
    ['flags', 'Flag', 'flag'],
    ['feature-flags', 'FeatureFlag', 'feature-flag'],
    ['policies', 'Policy', 'policy'],
    ['boxes', 'Box', 'box'],
    ['addresses', 'Address', 'address'],
    ['leases-x', 'LeasesX', 'leases-x'],
    ['databases', 'Database', 'database'],
    ['caches', 'Cache', 'cache'],
    ['status', 'Status', 'status'],
    ['data', 'Data', 'data'],
    ['s', 'S', 's'],
  ] as const) {
    const { resources, problems } = resolveResources({ names: [`${name}=/x/${name}/`] })
    t.same(problems, [], name)
    t.match(resources.at(-1)?.resource, { kind, singular }, name)
  }
})

void t.test('an entry in the config sets the rest', async (t) => {
  const declaration: ResourceDeclaration = {
    name: 'routes',
    prefix: '/edge/routes/',
    group: 'edge.example.com',
    version: 'v1beta1',
    kind: 'EdgeRoute',
    namespaced: true,
    objects: true,
    shortNames: ['er'],
  }
  const { resources, problems } = resolveResources({ declarations: [declaration] })
  t.same(problems, [])
  const resource = resources.at(-1)?.resource
  t.match(resource, { group: 'edge.example.com', version: 'v1beta1', kind: 'EdgeRoute', shortNames: ['er'] })
  t.equal(resource?.holds, 'objects')
  if (resource) t.same(nameOfKey(resource, keyFromText('/edge/routes/a/b/c')), { namespace: 'a', name: 'b:c' })
})

void t.test('all problems are reported, and nothing is half accepted', async (t) => {
  const bad: readonly (readonly [string, RegExp])[] = [
    ['nonsense', /"nonsense" is not a known resource; declare a prefix/],
    ['', /"" is not a known resource/],
    ['batch/v1', /"batch\/v1" is not an alpha or beta version, like "resource.k8s.io\/v1beta1", nor api\/all/],
    ['flags=config/', /must begin with "\/"/],
    ['flags=/config', /must end in "\/"/],
    ['flags=', /must begin with "\/"/],
    ['flags=/a//b/', /empty segment/],
    ['flags=/a\0/', /NUL/],
    ['Flags=/a/', /lower-case letters/],
    ['1flags=/a/', /lower-case letters/],
    ['fla/gs=/a/', /lower-case letters/],
    ['=/a/', /lower-case letters/],
    [`${'f'.repeat(64)}=/a/`, /at most 63/],
    ['pods=/registry/pods/', /prefix "\/registry\/pods\/" overlaps "\/registry\/pods\/" of pods/],
    ['raw=/registry/', /overlaps/],
    ['raw=/', /more conflicts/],
    ['raw=/registry/secrets/', /overlaps "\/registry\/secrets\/" of secrets/],
    ['raw=/registry/pods/team-a/', /overlaps/],
  ]
  for (const [name, problem] of bad) {
    const { problems } = resolveResources({ names: [name] })
    t.ok(problems.length > 0, name)
    t.match(problems.join('\n'), problem, name)
  }
  t.equal(resolveResources({ names: bad.map(([name]) => name) }).problems.length >= bad.length, true, 'all at once')
})

void t.test('declared resources must not clash with each other', async (t) => {
  for (const [second, problem] of [
    [{ name: 'flags', prefix: '/b/' }, /flags.distributary.io is already the name of \/a\//],
    [{ name: 'fleg', prefix: '/b/', kind: 'Flag' }, /kind Flag is already that of flags/],
    [{ name: 'others', prefix: '/a/b/' }, /prefix "\/a\/b\/" overlaps "\/a\/" of flags/],
    [{ name: 'others', prefix: '/a/' }, /overlaps/],
    [{ name: 'pods', prefix: '/b/', group: '' }, /pods is already the name of \/registry\/pods\//],
    [{ name: 'x', prefix: '/b/', group: 'Bad_Group' }, /not a DNS name/],
    [{ name: 'x', prefix: '/b/', version: '1' }, /not of the form v1/],
    [{ name: 'x', prefix: '/b/', kind: 'lower' }, /CamelCase/],
    [{ name: 'x', prefix: '/b/', shortNames: ['X'] }, /short name "X"/],
  ] as const) {
    const { problems } = resolveResources({ declarations: [{ name: 'flags', prefix: '/a/' }, second] })
    t.match(problems.join('\n'), problem, JSON.stringify(second))
  }
  t.same(
    resolveResources({
      declarations: [
        { name: 'flags', prefix: '/a/' },
        { name: 'flags', prefix: '/ab/', version: 'v2' },
        { name: 'flags', prefix: '/c/', group: 'x.example' },
      ],
    }).problems,
    [],
    'another version or group is another resource, and /a/ is not a prefix of /ab/',
  )
})
