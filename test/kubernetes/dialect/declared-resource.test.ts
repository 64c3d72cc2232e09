import t from 'tap'
import { resolveResources, type ResourceDeclaration } from '../../../src/kubernetes/dialect/declared-resource.js'
import { keyFromBytes, keyFromText } from '../../../src/engine/model/event.js'
import { nameOfKey, resourceId } from '../../../src/kubernetes/model/api-resource.js'

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

void t.test('all problems are reported, and a declaration with one is rejected as a whole', async (t) => {
  const bad: readonly (readonly [string, RegExp])[] = [
    ['nonsense', /"nonsense" is not a known resource; declare a prefix/],
    ['', /"" is not a known resource/],
    ['batch/v1', /"batch\/v1" is not an alpha or beta version, like "resource.k8s.io\/v1beta1", nor api\/all/],
    ['flags=/config', /must end in a separator such as "\/": .* declare it "exact"/],
    ['flags=traefik', /must end in a separator/],
    ['flags=feature-', /must end in a separator/],
    ['flags=ü', /must end in a separator/],
    ['flags=', /is empty/],
    ['flags=a\ufffd/', /U\+FFFD, which stands for bytes that are not text: give the bytes as "prefixBytes"/],
    ['flags=a\ud800/', /U\+FFFD/],
    ['raw=/registry/masterleases.', /must end in "\/", because it is under \/registry\//],
    ['raw=/registry/a//', /empty segment, and is under \/registry\//],
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

void t.test('a prefix is any bytes that end in a separator, or are declared exact', async (t) => {
  const table: readonly (readonly [Omit<ResourceDeclaration, 'name'>, key: string, name: string])[] = [
    [{ prefix: 'traefik/' }, 'traefik/http/routers/x', 'http:routers:x'],
    [{ prefix: 'by-dev/meta/' }, 'by-dev/meta/session/id', 'session:id'],
    [{ prefix: 'stolon.cluster.' }, 'stolon.cluster.eu', 'eu'],
    [{ prefix: 'a:b:' }, 'a:b:c:d', 'c~3ad'],
    [{ prefix: '/a//b/' }, '/a//b/c', 'c'],
    [{ prefix: 'a\0' }, 'a\0b', 'b'],
    [{ prefix: 'registry/pods/' }, 'registry/pods/a', 'a'],
    [{ prefix: '_kv', exact: true }, '_kv/x', ':x'],
    [{ prefix: 'feature-', exact: true }, 'feature-dark', 'dark'],
    [{ prefix: 'leader', exact: true }, 'leader', '~'],
  ]
  for (const [declaration, key, name] of table) {
    const { resources, problems } = resolveResources({ declarations: [{ name: 'things', ...declaration }] })
    t.same(problems, [], key)
    t.same(nameOfKey(resources.at(-1)!.resource, keyFromText(key)), { namespace: '', name }, key)
  }
  const bytes = Buffer.from([0xff, 0xfe, 0x2f])
  const binary = { name: 'things', prefixBytes: bytes.toString('base64') }
  const { resources, problems } = resolveResources({ declarations: [binary] })
  t.same(problems, [])
  t.equal(resources.at(-1)!.resource.etcdPrefix, keyFromBytes(bytes))
  for (const [declaration, problem] of [
    [{ prefixBytes: '//4v!' }, /"prefixBytes" "\/\/4v!" is not base64/],
    [{ prefixBytes: '' }, /is empty/],
    [{ prefixBytes: '//4=' }, /must end in a separator/],
    [{ prefixBytes: '//4v', prefix: '/a/' }, /"prefix" and "prefixBytes" cannot be combined/],
    [{ prefix: '', exact: true }, /is empty/],
    [{ prefix: '/registry/x', exact: true }, /must end in "\/", because it is under \/registry\//],
    [{ prefix: '/regis', exact: true }, /more conflicts/],
    [{ prefix: '/registry/pods/a/', exact: true }, /overlaps "\/registry\/pods\/" of pods/],
  ] as const) {
    const found = resolveResources({ declarations: [{ name: 'things', ...declaration }] })
    t.match(found.problems.join('\n'), problem, JSON.stringify(declaration))
  }
})

void t.test('prefixes that are not UTF-8 overlap by their bytes, not by how they look', async (t) => {
  const declared = (name: string, bytes: readonly number[]) => ({
    name,
    prefixBytes: Buffer.from(bytes).toString('base64'),
  })
  const two = [declared('firsts', [0xff, 0x2f]), declared('seconds', [0xfe, 0x2f])]
  t.same(resolveResources({ declarations: two }).problems, [])
  const above = [declared('firsts', [0xff, 0x2f]), declared('seconds', [0xff, 0x2f, 0x61, 0x2f])]
  t.match(resolveResources({ declarations: above }).problems.join(), /overlaps/)
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
