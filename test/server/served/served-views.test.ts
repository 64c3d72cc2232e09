/** Custom resources with several served versions, whatever version their objects are stored in. */
import { get } from 'node:http'
import t, { type Test } from 'tap'
import { type AppHarness, startApp } from '../../support/app.js'
import { until } from '../../support/until.js'
import { EventReader, type SeenEvent } from '../../support/event-reader.js'

const GROUP = 'edge.example.com'
const VERSIONS = ['v1alpha1', 'v1']

const definition = {
  kind: 'CustomResourceDefinition',
  apiVersion: 'apiextensions.k8s.io/v1',
  metadata: { name: `widgets.${GROUP}` },
  spec: {
    group: GROUP,
    scope: 'Namespaced',
    names: { plural: 'widgets', kind: 'Widget' },
    versions: VERSIONS.map((name) => ({
      name,
      served: true,
      storage: name === 'v1',
      selectableFields: [{ jsonPath: '.spec.size' }],
      additionalPrinterColumns: [{ name: 'Size', type: 'integer', jsonPath: '.spec.size' }],
      schema: { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
    })),
  },
}

function widget(name: string, version: string, app: string, size = 1): object {
  return {
    apiVersion: `${GROUP}/${version}`,
    kind: 'Widget',
    metadata: { name, namespace: 'a', labels: { app } },
    spec: { size },
  }
}

const DEFINED = `apiextensions.k8s.io/customresourcedefinitions/widgets.${GROUP}`
const keyOf = (name: string): string => `${GROUP}/widgets/a/${name}`

async function start(t: Test, flags: readonly string[] = []): Promise<AppHarness> {
  const h = await startApp(t, {
    flags,
    objects: {
      [DEFINED]: definition,
      [keyOf('new')]: widget('new', 'v1', 'web', 1),
      [keyOf('old')]: widget('old', 'v1alpha1', 'db', 2),
    },
  })
  await until(() => isListed(h), 'the widgets are listed')
  return h
}

function isListed({ app }: AppHarness): boolean {
  return [...app.sources].some(
    ({ resource, cache }) => resource.plural === 'widgets' && cache.readiness.kind === 'ready',
  )
}

async function watch(t: Test, url: string): Promise<EventReader> {
  return await new Promise((resolve, reject) => {
    const request = get(url, { agent: false }, (response) => resolve(new EventReader(response)))
    request.on('error', reject)
    t.teardown(() => request.destroy())
  })
}

interface Listed {
  readonly apiVersion: string
  readonly items: readonly { readonly apiVersion: string; readonly metadata: { readonly name: string } }[]
}

const path = (version: string): string => `/apis/${GROUP}/${version}/namespaces/a/widgets`

async function list({ url }: AppHarness, version: string, query: string): Promise<string> {
  const { apiVersion, items } = (await (await fetch(`${url}${path(version)}?${query}`)).json()) as Listed
  return `${apiVersion}: ${items.map((item) => `${item.metadata.name} ${item.apiVersion}`).join(', ')}`
}

const [ALPHA, ONE] = VERSIONS.map((version) => `${GROUP}/${version}`)

void t.test('selectors find objects stored in any version, and leave every version intact', async (t) => {
  const h = await start(t)
  const rows: readonly (readonly [query: string, names: readonly string[]])[] = [
    ['labelSelector=app=web', ['new']],
    ['labelSelector=app!=web', ['old']],
    ['labelSelector=app+in+(web,db)', ['new', 'old']],
    ['fieldSelector=metadata.name=old', ['old']],
    ['fieldSelector=spec.size=2', ['old']],
    ['fieldSelector=spec.size!=2', ['new']],
    ['labelSelector=app=db&fieldSelector=spec.size=2', ['old']],
    ['labelSelector=app=web&limit=1', ['new']],
    ['', ['new', 'old']],
  ]
  for (const [query, names] of rows) {
    for (const version of VERSIONS) {
      const asked = `${GROUP}/${version}`
      const wanted = `${asked}: ${names.map((name) => `${name} ${asked}`).join(', ')}`
      t.equal(await list(h, version, query), wanted, `${version} ${query}`)
    }
  }
  for (const version of VERSIONS) {
    for (const name of ['new', 'old']) {
      const answer = await fetch(`${h.url}${path(version)}/${name}`)
      const { apiVersion } = (await answer.json()) as { apiVersion: string }
      t.same([answer.status, apiVersion], [200, `${GROUP}/${version}`], `${name} as ${version}`)
    }
  }
})

void t.test('fields= and tables work in all versions too', async (t) => {
  const h = await start(t)
  await list(h, 'v1', 'labelSelector=app=web')
  for (const version of VERSIONS) {
    const reduced = await fetch(`${h.url}${path(version)}?labelSelector=app=web&fields=spec.size`)
    t.match(await reduced.json(), { items: [{ apiVersion: `${GROUP}/${version}`, spec: { size: 1 } }] }, version)
    const accept = 'application/json;as=Table;g=meta.k8s.io;v=v1'
    const table = await fetch(`${h.url}${path(version)}?labelSelector=app`, { headers: { accept } })
    const { rows } = (await table.json()) as { rows: readonly { readonly cells: readonly unknown[] }[] }
    t.same(
      rows.map(({ cells }) => cells),
      [
        ['new', 1],
        ['old', 2],
      ],
      `a table of ${version}`,
    )
  }
})

void t.test('where any field is selectable, apiVersion is an ordinary one: that of the answer', async (t) => {
  const h = await start(t, ['--select-any-field'])
  t.equal(await list(h, 'v1alpha1', `fieldSelector=apiVersion=${ALPHA}`), `${ALPHA}: new ${ALPHA}, old ${ALPHA}`)
  t.equal(await list(h, 'v1', `fieldSelector=apiVersion=${ALPHA}`), `${ONE}: `)
})

void t.test('watches of both versions see the same transitions', async (t) => {
  const h = await start(t)
  const queries = ['labelSelector=app=web', 'fieldSelector=spec.size=1', `fieldSelector=spec.size=1&labelSelector=app`]
  const watches = await Promise.all(
    VERSIONS.flatMap((version) =>
      queries.map(async (query) => {
        const reader = await watch(t, `${h.url}${path(version)}?watch=true&${query}`)
        await reader.first(1)
        return { version, query, reader }
      }),
    ),
  )
  // Enters the selection, changes within it, and leaves it, each time stored in the other version.
  h.put(keyOf('old'), widget('old', 'v1', 'web', 1))
  h.put(keyOf('old'), { ...widget('old', 'v1alpha1', 'web', 1), status: {} })
  h.put(keyOf('old'), widget('old', 'v1', 'db', 3))
  h.delete(keyOf('new'))
  const wanted = ['ADDED new', 'ADDED old', 'MODIFIED old', 'DELETED old', 'DELETED new']
  for (const { version, query, reader } of watches) {
    const events = await reader.first(wanted.length)
    t.same(events.map(described), wanted, `${version} ${query}`)
    t.same(new Set(events.map(({ object }) => object['apiVersion'])), new Set([`${GROUP}/${version}`]))
  }
})

function described({ type, object }: SeenEvent): string {
  return `${type} ${object.metadata.name}`
}

void t.test('objects under a declared prefix are selected by label, with or without a type', async (t) => {
  const things = { name: 'things', prefix: '/registry/things/', objects: true }
  const folder = t.testdir({ 'config.yaml': JSON.stringify({ resources: [things] }) })
  const h = await startApp(t, { flags: ['--config', `${folder}/config.yaml`] })
  h.put('things/x', { metadata: { name: 'x', labels: { app: 'web' } } })
  h.put('things/y', { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'y', labels: { app: 'web' } } })
  const url = `${h.url}/apis/distributary.io/v1/things`
  for (const query of ['?labelSelector=app=web', '?labelSelector=app', '']) {
    t.match(await (await fetch(url + query)).json(), { items: [{ metadata: { name: 'x' } }] }, query)
  }
  await until(
    () => [...h.app.sources].some(({ cache }) => cache.contents.unservable.size === 1),
    'the other is counted',
  )
})

void t.test('fields of a built-in kind are those of the requested version', async (t) => {
  const h = await startApp(t)
  h.put('events/a/e', {
    apiVersion: 'v1',
    kind: 'Event',
    metadata: { name: 'e', namespace: 'a' },
    involvedObject: { kind: 'Pod', name: 'p', namespace: 'a' },
    type: 'Normal',
  })
  const namesOf = async (group: string, selector: string): Promise<readonly string[]> => {
    const answer = await fetch(`${h.url}${group}/namespaces/a/events?fieldSelector=${selector}`)
    const { items } = (await answer.json()) as { items: readonly { readonly metadata: { readonly name: string } }[] }
    return items.map(({ metadata }) => metadata.name)
  }
  t.same(await namesOf('/api/v1', 'involvedObject.name=p'), ['e'])
  t.same(await namesOf('/apis/events.k8s.io/v1', 'regarding.name=p'), ['e'])
  for (const [group, label] of [
    ['/apis/events.k8s.io/v1', 'involvedObject.name'],
    ['/api/v1', 'regarding.name'],
  ] as const) {
    const answer = await fetch(`${h.url}${group}/namespaces/a/events?fieldSelector=${label}=p`)
    t.match(await answer.json(), { code: 400, message: `field label not supported: ${label}` })
  }
})

void t.test('both versions of an autoscaler are served, whichever is stored', async (t) => {
  const h = await startApp(t, { flags: ['--enable-writes'] })
  h.put('namespaces/a', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'a' } })
  const at = (version: string): string => `${h.url}/apis/autoscaling/${version}`
  const served = async (): Promise<unknown> => await (await fetch(`${h.url}/apis/autoscaling`)).json()
  const before = await served()
  t.match(before, { versions: [{ version: 'v2' }, { version: 'v1' }], preferredVersion: { version: 'v2' } })
  // The request of `kubectl autoscale` 1.32.
  const created = await fetch(`${at('v1')}/namespaces/a/horizontalpodautoscalers`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      apiVersion: 'autoscaling/v1',
      kind: 'HorizontalPodAutoscaler',
      metadata: { name: 'web' },
      spec: {
        maxReplicas: 3,
        targetCPUUtilizationPercentage: 80,
        scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: 'web' },
      },
    }),
  })
  t.equal(created.status, 201)
  const resource = { name: 'cpu', target: { type: 'Utilization', averageUtilization: 80 } }
  t.match(await (await fetch(`${at('v2')}/namespaces/a/horizontalpodautoscalers/web`)).json(), {
    apiVersion: 'autoscaling/v2',
    spec: { maxReplicas: 3, metrics: [{ type: 'Resource', resource }] },
  })
  t.match(await (await fetch(`${at('v1')}/horizontalpodautoscalers`)).json(), {
    items: [{ metadata: { name: 'web' }, spec: { targetCPUUtilizationPercentage: 80 } }],
  })
  t.same(await served(), before, 'what is stored does not change what is served')
})

void t.test('objects that only a webhook could convert are refused by name', async (t) => {
  const h = await start(t)
  const conversion = { strategy: 'Webhook', webhook: { conversionReviewVersions: ['v1'] } }
  h.put(DEFINED, { ...definition, spec: { ...definition.spec, conversion } })
  const one = h.url + path('v1')
  const refusal = {
    kind: 'Status',
    code: 501,
    message: /widgets\.edge\.example\.com "a\/old" is stored as .*v1alpha1.* webhook/,
    details: { name: 'old' },
  }
  await until(
    () => h.app.registry.find(GROUP, 'v1', 'widgets')?.convertsByWebhook === true,
    'the definition is followed',
  )
  for (const query of ['', '/old', '?labelSelector=app=db', '?fieldSelector=spec.size=7']) {
    t.match(await (await fetch(one + query)).json(), refusal, query)
  }
  t.match(await (await fetch(`${one}?labelSelector=app=web`)).json(), { items: [{ metadata: { name: 'new' } }] })
  t.equal((await fetch(`${one}/new`)).status, 200)
  t.match(await (await fetch(`${h.url}${path('v1alpha1')}/old`)).json(), { apiVersion: `${GROUP}/v1alpha1` })
  t.match(await (await fetch(`${h.url}${path('v1alpha1')}/new`)).json(), {
    ...refusal,
    message: /"a\/new"/,
    details: { name: 'new' },
  })
  const watches = await Promise.all(
    ['labelSelector=app=web', 'fieldSelector=spec.size=1'].map(async (query) => {
      const { metadata } = (await (await fetch(`${one}?labelSelector=app=web`)).json()) as {
        metadata: { resourceVersion: string }
      }
      return await watch(t, `${one}?watch=true&resourceVersion=${metadata.resourceVersion}&${query}`)
    }),
  )
  h.put(keyOf('old'), widget('old', 'v1alpha1', 'web', 1))
  for (const reader of watches) {
    const events = await reader.all()
    t.match(events.at(-1), { type: 'ERROR', object: refusal })
  }
})
