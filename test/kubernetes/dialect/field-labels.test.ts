import t from 'tap'
import { extractFacts, planFacts } from '../../../src/engine/facts/json-facts.js'
import { readDefinition } from '../../../src/kubernetes/dialect/crd.js'
import { parseFieldSelector } from '../../../src/kubernetes/dialect/field-selector.js'
import { type FieldLabels, fieldLabelsOf } from '../../../src/kubernetes/dialect/field-labels.js'
import { type ServedResource, servedResource } from '../../../src/kubernetes/dialect/resource-registry.js'
import { parseSelector } from '../../support/parse-selector.js'
import { wellKnownResources } from '../../../src/kubernetes/dialect/well-known-resources.js'
import { resourceId } from '../../../src/kubernetes/model/api-resource.js'
import { startApp } from '../../support/app.js'

const labelsOf = (id: string, isAny = false): FieldLabels => {
  const { resource } = wellKnownResources('/registry').find(({ resource }) => resourceId(resource) === id)!
  return fieldLabelsOf(servedResource(resource, 'well-known'), isAny)
}

function selects(id: string, fieldSelector: string, object: object): boolean {
  const selector = parseSelector('', fieldSelector, labelsOf(id))
  return selector.matchesTerms(extractFacts(Buffer.from(JSON.stringify(object)), planFacts(selector.paths)))
}

void t.test('an absent field reads as the API server computes it', async (t) => {
  const table: readonly (readonly [id: string, selector: string, object: object, selected: boolean])[] = [
    ['nodes', 'spec.unschedulable=false', {}, true],
    ['nodes', 'spec.unschedulable=false', { spec: { unschedulable: true } }, false],
    ['nodes', 'spec.unschedulable!=false', { spec: { unschedulable: true } }, true],
    ['nodes', 'spec.unschedulable=true', {}, false],
    ['pods', 'spec.hostNetwork=false', { spec: {} }, true],
    ['pods', 'spec.hostNetwork=true', { spec: { hostNetwork: true } }, true],
    ['pods', 'spec.host=n1', { spec: { nodeName: 'n1' } }, true],
    ['pods', 'spec.restartPolicy=Always', {}, true],
    ['pods', 'spec.schedulerName=default-scheduler', {}, true],
    ['pods', 'spec.serviceAccountName=sa', { spec: { serviceAccount: 'sa' } }, true],
    ['pods', 'status.podIPs=', { status: { podIPs: [{ ip: '10.0.0.1' }] } }, true],
    ['namespaces', 'status.phase=Active', {}, true],
    ['jobs.batch', 'status.successful=0', {}, true],
    ['jobs.batch', 'status.successful=2', { status: { succeeded: 2 } }, true],
    ['replicationcontrollers', 'status.replicas=0', {}, true],
    ['events', 'source=kubelet', { source: { component: 'kubelet' }, reportingComponent: 'x' }, true],
    ['events', 'source=x', { source: {}, reportingComponent: 'x' }, true],
    ['events', 'reportingComponent=x', { reportingComponent: 'x' }, true],
  ]
  for (const [id, selector, object, selected] of table) {
    t.equal(selects(id, selector, object), selected, `${id} ${selector} ${JSON.stringify(object)}`)
  }
})

void t.test('each kind accepts the API server’s labels, and rejects others with its message', async (t) => {
  const plain = (label: string): string => `field label not supported: ${label}`
  const byDefault = (label: string): string =>
    `"${label}" is not a known field selector: only "metadata.name", "metadata.namespace"`
  const table: readonly (readonly [id: string, taken: string, refused: string, words: (label: string) => string])[] = [
    [
      'pods',
      'metadata.name metadata.namespace spec.host status.podIPs',
      'spec.nodeNme metadata.uid spec.priority',
      plain,
    ],
    ['nodes', 'metadata.name spec.unschedulable', 'metadata.namespace spec.podCIDR', plain],
    ['namespaces', 'metadata.name status.phase', 'name metadata.namespace', plain],
    ['secrets', 'type metadata.namespace', 'data.a', plain],
    ['services', 'spec.clusterIP spec.type', 'spec.externalName', plain],
    ['events', 'involvedObject.fieldPath source reportingComponent', 'regarding.name reportingController', plain],
    ['events.events.k8s.io', 'regarding.uid reportingController', 'involvedObject.name source', plain],
    ['configmaps', 'metadata.name metadata.namespace', 'data.tier', byDefault],
    ['replicasets.apps', 'metadata.name', 'status.replicas', byDefault],
    ['persistentvolumes', 'metadata.namespace', 'name spec.storageClassName', byDefault],
    ['replicationcontrollers', 'status.replicas', 'spec.replicas', plain],
    ['jobs.batch', 'status.successful', 'spec.suspend', (label) => `field label "${label}" not supported for Job`],
    ['certificatesigningrequests.certificates.k8s.io', 'spec.signerName', 'metadata.namespace', plain],
    [
      'resourceslices.resource.k8s.io',
      'spec.nodeName spec.driver spec.pool.name',
      'metadata.namespace',
      (label) => `field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: ${label}`,
    ],
  ]
  for (const [id, taken, refused, words] of table) {
    for (const label of taken.split(' ')) t.equal(parseFieldSelector(`${label}=x`, labelsOf(id)).paths.length > 0, true)
    for (const label of refused.split(' ')) {
      t.throws(
        () => parseFieldSelector(`${label}=x`, labelsOf(id)),
        { code: 400, message: words(label) },
        `${id} ${label}`,
      )
      t.notOk(parseFieldSelector(`${label}=x`, labelsOf(id, true)).isEmpty, 'where any field is selectable')
    }
  }
  t.throws(() => parseFieldSelector('b=x,a=x', labelsOf('pods')), { message: plain('b') }, 'the first that is written')
  t.throws(() => parseFieldSelector('b=x,a', labelsOf('pods')), { message: /can't understand 'a'/ }, 'grammar first')
})

void t.test('a custom resource accepts its name, its namespace and its selectable fields', async (t) => {
  const served = (scope: string, fields: readonly string[]): ServedResource => {
    const version = {
      name: 'v1',
      served: true,
      storage: true,
      selectableFields: fields.map((jsonPath) => ({ jsonPath })),
    }
    const reading = readDefinition(
      {
        metadata: { name: 'widgets.example.com' },
        spec: { group: 'example.com', scope, names: { plural: 'widgets', kind: 'Widget' }, versions: [version] },
      },
      '/registry',
    )
    if (reading.kind !== 'defined') throw new Error(reading.kind)
    return reading.resources[0]!
  }
  const takes = (one: ServedResource, label: string): boolean => {
    try {
      return !parseFieldSelector(`${label}=x`, fieldLabelsOf(one, false)).isEmpty
    } catch (error) {
      t.match(error, { code: 400, message: `field label not supported: ${label}` })
      return false
    }
  }
  const namespaced = served('Namespaced', ['.spec.color', '.spec.size.unit'])
  const cluster = served('Cluster', [])
  t.same(
    ['metadata.name', 'metadata.namespace', 'spec.color', 'spec.size.unit', 'spec.size', 'metadata.uid'].map((label) =>
      takes(namespaced, label),
    ),
    [true, true, true, true, false, false],
  )
  t.same(
    ['metadata.name', 'metadata.namespace', 'spec.color'].map((label) => takes(cluster, label)),
    [true, false, false],
  )
})

void t.test('a selector implies only what every match has', async (t) => {
  const terms = (id: string, text: string) => parseFieldSelector(text, labelsOf(id)).equalityTerms()
  t.strictSame(terms('nodes', 'spec.unschedulable=false'), [])
  t.strictSame(terms('nodes', 'spec.unschedulable=true'), [{ path: 'spec.unschedulable', value: 'true' }])
  t.strictSame(terms('jobs.batch', 'status.successful=2'), [{ path: 'status.succeeded', value: '2' }])
  t.strictSame(terms('events', 'source=x'), [])
  t.strictSame(terms('pods', 'spec.nodeName=n1'), [{ path: 'spec.nodeName', value: 'n1' }])
})

void t.test('an empty term selects everything, even beside others', async (t) => {
  t.ok(parseFieldSelector('=').isEmpty)
  t.ok(parseFieldSelector('!=').isEmpty)
  t.equal(parseFieldSelector('=,a=1').canonical, 'a=1')
  t.throws(() => parseFieldSelector('=x'), /field label not supported/)
})

void t.test('lists and watches of the server select by field labels', async (t) => {
  const node = (name: string, spec: object): object => ({ apiVersion: 'v1', kind: 'Node', metadata: { name }, spec })
  const app = await startApp(t, {
    objects: { 'minions/a': node('a', {}), 'minions/b': node('b', { unschedulable: true }) },
  })
  const url = `${app.url}/api/v1/nodes?fieldSelector=spec.unschedulable%3Dfalse`
  const list = (await (await fetch(url)).json()) as { items: { metadata: { name: string } }[] }
  t.same(
    list.items.map(({ metadata }) => metadata.name),
    ['a'],
  )
  const watch = await fetch(
    `${url}&watch=1&resourceVersion=${app.put('minions/c', node('c', { unschedulable: true }))}&timeoutSeconds=2`,
  )
  app.put('minions/c', node('c', {}))
  app.put('minions/c', node('c', { unschedulable: true }))
  const events = (await watch.text())
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { type: string; object: { metadata: { name: string } } })
  t.same(
    events.map(({ type, object }) => `${type} ${object.metadata.name}`),
    ['ADDED c', 'DELETED c'],
  )
})
