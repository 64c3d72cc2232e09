/** Custom resources are read with the current schema, whatever is stored in etcd. */
import { get } from 'node:http'
import t, { type Test } from 'tap'
import { type AppHarness, startApp } from '../../../support/app.js'
import { until } from '../../../support/until.js'
import { EventReader } from '../../../support/event-reader.js'

const GROUP = 'edge.example.com'
const DEFINED = `apiextensions.k8s.io/customresourcedefinitions/widgets.${GROUP}`
const keyOf = (name: string): string => `${GROUP}/widgets/a/${name}`

const text = { type: 'string' }
const object = (properties: object, more: object = {}): object => ({ type: 'object', properties, ...more })
const versionOf = (name: string, spec: object, more: object = {}): object => ({
  name,
  served: true,
  storage: name === 'v1',
  schema: { openAPIV3Schema: object({ spec }) },
  additionalPrinterColumns: [{ name: 'Tier', type: 'string', jsonPath: '.spec.tier' }],
  selectableFields: [{ jsonPath: '.spec.tier' }],
  ...more,
})

const v1 = (tier: string): object =>
  versionOf(
    'v1',
    object({
      tier: { ...text, default: tier },
      size: { type: 'integer' },
      note: { ...text, nullable: true },
      free: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
    }),
  )
const v1alpha1 = versionOf('v1alpha1', object({ tier: { ...text, default: 'old' }, size: { type: 'integer' } }))

const definition = (versions: readonly object[], more: object = {}): object => ({
  kind: 'CustomResourceDefinition',
  apiVersion: 'apiextensions.k8s.io/v1',
  metadata: { name: `widgets.${GROUP}` },
  spec: { group: GROUP, scope: 'Namespaced', names: { plural: 'widgets', kind: 'Widget' }, versions, ...more },
})

const widget = (name: string, version: string, spec: unknown): object => ({
  apiVersion: `${GROUP}/${version}`,
  kind: 'Widget',
  metadata: { name, namespace: 'a', uid: `uid-${name}`, generation: 2 },
  spec,
})

interface Shown {
  readonly metadata: { readonly name: string; readonly resourceVersion: string }
  readonly spec: object
}

async function start(
  t: Test,
  objects: Readonly<Record<string, object>>,
  defined = definition([v1('gold'), v1alpha1]),
): Promise<AppHarness> {
  const h = await startApp(t, { objects: { [DEFINED]: defined, ...objects } })
  await until(
    () =>
      [...h.app.sources].some(
        ({ resource, cache }) => resource.plural === 'widgets' && cache.readiness.kind === 'ready',
      ),
    'the widgets are listed',
  )
  return h
}

const path = (version: string, query = ''): string => `/apis/${GROUP}/${version}/namespaces/a/widgets${query}`
const textOf = async ({ url }: AppHarness, at: string, accept = 'application/json'): Promise<string> =>
  await (await fetch(`${url}${at}`, { headers: { accept } })).text()
const list = async (h: AppHarness, at: string): Promise<Readonly<Record<string, object>>> => {
  const { items } = JSON.parse(await textOf(h, at)) as { items: Shown[] }
  return Object.fromEntries(items.map(({ metadata, spec }) => [metadata.name, spec]))
}

async function watch(t: Test, h: AppHarness, at: string): Promise<EventReader> {
  return await new Promise((resolve, reject) => {
    const request = get(`${h.url}${at}`, { agent: false }, (response) => resolve(new EventReader(response)))
    request.on('error', reject)
    t.teardown(() => request.destroy())
  })
}

const OBJECTS = {
  [keyOf('bare')]: widget('bare', 'v1', {}),
  [keyOf('full')]: widget('full', 'v1', { tier: 'tin', free: { any: [1] }, size: 1, note: null }),
  [keyOf('more')]: widget('more', 'v1', { gone: 1, size: null, tier: null }),
  [keyOf('older')]: widget('older', 'v1alpha1', { note: 'x', size: 3 }),
}

void t.test('gets, lists and tables apply the schema', async (t) => {
  const h = await start(t, OBJECTS)
  t.same(await list(h, path('v1')), {
    bare: { tier: 'gold' },
    full: { tier: 'tin', free: { any: [1] }, size: 1, note: null },
    more: { tier: 'gold' },
    // The object is defaulted and pruned by the schema of the stored version.
    older: { tier: 'old', size: 3 },
  })
  t.same(await list(h, path('v1alpha1')), {
    bare: { tier: 'gold' },
    full: { tier: 'tin', size: 1 },
    more: { tier: 'gold' },
    older: { tier: 'old', size: 3 },
  })
  t.match(JSON.parse(await textOf(h, path('v1', '/bare').replace('/bare', '') + '/bare')), { spec: { tier: 'gold' } })
  const table = JSON.parse(await textOf(h, path('v1'), 'application/json;as=Table;v=v1;g=meta.k8s.io')) as {
    rows: { cells: unknown[] }[]
  }
  t.same(
    table.rows.map(({ cells }) => cells),
    [
      ['bare', 'gold'],
      ['full', 'tin'],
      ['more', 'gold'],
      ['older', 'old'],
    ],
  )
})

void t.test('selectors read objects as they are shown', async (t) => {
  const h = await start(t, OBJECTS)
  t.same(Object.keys(await list(h, path('v1', '?fieldSelector=spec.tier%3Dgold'))), ['bare', 'more'])
  t.same(Object.keys(await list(h, path('v1alpha1', '?fieldSelector=spec.tier%3Dold'))), ['older'])
  t.match(JSON.parse(await textOf(h, path('v1', '?fieldSelector=spec.gone%3D1'))), { code: 400 }, 'not selectable')
  const seen = await watch(t, h, path('v1', '?watch=1&fieldSelector=spec.tier%3Dgold&resourceVersion=0'))
  await seen.first(2)
  h.put(keyOf('bare'), widget('bare', 'v1', { tier: 'tin' }))
  h.put(keyOf('full'), widget('full', 'v1', { size: 9 }))
  t.match((await seen.first(4)).slice(2), [
    { type: 'DELETED', object: { metadata: { name: 'bare' }, spec: { tier: 'gold' } } },
    { type: 'ADDED', object: { metadata: { name: 'full' }, spec: { tier: 'gold', size: 9 } } },
  ])
})

void t.test('an unchanged object keeps its bytes; a changed one keeps its digits', async (t) => {
  const h = await start(t, {})
  const commit = (name: string, spec: string): void => {
    const metadata = `{"name":"${name}","namespace":"a","uid":"u","generation":1}`
    h.upstream.commit([
      {
        type: 'put',
        key: `/registry/${keyOf(name)}` as never,
        value: Buffer.from(`{"spec":${spec},"kind":"Widget","apiVersion":"${GROUP}/v1","metadata":${metadata}}`),
      },
    ])
  }
  const same = '{"tier":"a\\u0041","size":9007199254740993,"free":{"x":1.0,"y":1e3},"tier":"b"}'
  commit('same', same)
  commit('other', '{"size":9007199254740993,"free":{"x":1.0,"y":-0,"z":"\\u0041"},"gone":1}')
  await until(async () => (await textOf(h, path('v1'))).includes('other'), 'both are there')
  t.ok((await textOf(h, path('v1', '/same'))).startsWith(`{"spec":${same},"kind":"Widget"`), 'byte for byte')
  t.match(
    await textOf(h, path('v1', '/other')),
    '"spec":{"size":9007199254740993,"free":{"x":1.0,"y":-0,"z":"A"},"tier":"gold"}',
  )
})

void t.test('metadata is tidied', async (t) => {
  const metadata = {
    name: 'odd',
    namespace: 'a',
    labels: { app: 1 },
    annotations: {},
    odd: true,
    creationTimestamp: '2026-01-01T01:00:00.5+01:00',
    finalizers: ['x'],
    ownerReferences: [{ apiVersion: 'v1', kind: 'K', name: 'n', extra: 1 }],
  }
  const h = await start(t, {
    [keyOf('odd')]: { apiVersion: `${GROUP}/v1`, kind: 'Widget', metadata, spec: { tier: 'x' } },
  })
  const shown = JSON.parse(await textOf(h, path('v1', '/odd'))) as { metadata: Record<string, unknown> }
  delete shown.metadata['resourceVersion']
  t.same(shown.metadata, {
    name: 'odd',
    namespace: 'a',
    creationTimestamp: '2026-01-01T00:00:00Z',
    finalizers: ['x'],
    ownerReferences: [{ apiVersion: 'v1', kind: 'K', name: 'n', uid: '' }],
    generation: 1,
  })
})

void t.test('a definition that preserves unknown fields prunes no field', async (t) => {
  const h = await start(t, OBJECTS, definition([v1('gold')], { preserveUnknownFields: true }))
  t.match(await list(h, path('v1')), { more: { gone: 1, size: null, tier: 'gold' }, bare: { tier: 'gold' } })
})

void t.test('after a change of the definition everything is reread, and watches end', async (t) => {
  const h = await start(t, OBJECTS)
  const before = JSON.parse(await textOf(h, path('v1', '?fieldSelector=spec.tier%3Dgold'))) as {
    metadata: { resourceVersion: string }
  }
  const after = `?watch=1&resourceVersion=${before.metadata.resourceVersion}`
  const seen = await Promise.all(['v1', 'v1alpha1'].map((version) => watch(t, h, path(version, after))))
  await until(() => h.watchers === 2, 'both watch')

  h.put(DEFINED, {
    ...definition([v1('gold'), v1alpha1]),
    status: { conditions: [{ type: 'Established', status: 'True' }] },
  })
  h.put(keyOf('new'), widget('new', 'v1', {}))
  for (const one of seen) await one.first(1)
  t.equal(h.watchers, 2, 'its status is nothing to them')

  h.put(DEFINED, definition([v1('silver'), v1alpha1]))
  for (const one of seen) {
    t.same(
      (await one.all()).map(({ type }) => type),
      ['ADDED'],
      'the watch ends, without an error',
    )
    t.equal(one.ending, 'clean')
  }
  t.match(await list(h, path('v1')), { bare: { tier: 'silver' }, full: { tier: 'tin' }, new: { tier: 'silver' } })
  t.same(Object.keys(await list(h, path('v1', '?fieldSelector=spec.tier%3Dsilver'))), ['bare', 'more', 'new'])
  t.same(Object.keys(await list(h, path('v1', '?fieldSelector=spec.tier%3Dgold'))), [])

  const last = seen[0]!.events[0]!.object.metadata.resourceVersion!
  for (const revision of [before.metadata.resourceVersion, last]) {
    const again = await watch(t, h, path('v1', `?watch=1&resourceVersion=${revision}`))
    t.match(
      await again.all(),
      [{ type: 'ERROR', object: { code: 410, reason: 'Expired' } }],
      'a client must list again',
    )
  }
  const fresh = await watch(t, h, path('v1', '?watch=1&resourceVersion=0'))
  t.match((await fresh.first(5)).at(0), { type: 'ADDED', object: { spec: { tier: 'silver' } } })
  h.put(keyOf('bare'), widget('bare', 'v1', { size: 5 }))
  t.match((await fresh.first(6)).at(-1), { type: 'MODIFIED', object: { spec: { tier: 'silver', size: 5 } } })
})

void t.test('an uncached resource is also read according to its schema', async (t) => {
  const h = await startApp(t, {
    flags: ['--watch-cache-sizes', `widgets.${GROUP}#0`],
    objects: { [DEFINED]: definition([v1('gold')]), ...OBJECTS },
  })
  await until(async () => (await fetch(`${h.url}${path('v1')}`)).status === 200, 'the widgets are served')
  t.match(await list(h, path('v1')), { bare: { tier: 'gold' } })
  const seen = await watch(t, h, path('v1', '?watch=1&resourceVersion=0'))
  await seen.first(4)
  h.put(DEFINED, definition([v1('silver')]))
  t.equal((await seen.all()).length, 4, 'its watches end')
  t.match(await list(h, path('v1')), { bare: { tier: 'silver' } })
})
