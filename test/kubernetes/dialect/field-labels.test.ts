import t from 'tap'
import { extractFacts, planFacts } from '../../../src/engine/facts/json-facts.js'
import { parseFieldSelector } from '../../../src/kubernetes/dialect/field-selector.js'
import { fieldLabelsOf } from '../../../src/kubernetes/dialect/field-labels.js'
import { parseSelector } from '../../../src/kubernetes/dialect/selector.js'
import { wellKnownResources } from '../../../src/kubernetes/dialect/well-known-resources.js'
import { resourceId } from '../../../src/engine/model/resource.js'
import { startApp } from '../../support/app.js'

const resourceOf = (id: string) =>
  wellKnownResources('/registry').find(({ resource }) => resourceId(resource) === id)!.resource

function selects(id: string, fieldSelector: string, object: object): boolean {
  const selector = parseSelector('', fieldSelector, resourceOf(id))
  return selector.matches(extractFacts(Buffer.from(JSON.stringify(object)), planFacts(selector.paths)))
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
    ['namespaces', 'name=a', { metadata: { name: 'a' } }, true],
    ['namespaces', 'status.phase=Active', {}, true],
    ['jobs.batch', 'status.successful=0', {}, true],
    ['jobs.batch', 'status.successful=2', { status: { succeeded: 2 } }, true],
    ['replicasets.apps', 'status.replicas=0', {}, true],
    ['replicasets.apps', 'status.replicas!=0', { status: { replicas: 3 } }, true],
    ['replicationcontrollers', 'status.replicas=0', {}, true],
    ['events', 'source=kubelet', { source: { component: 'kubelet' }, reportingComponent: 'x' }, true],
    ['events', 'source=x', { source: {}, reportingComponent: 'x' }, true],
    ['events', 'reportingComponent=x', { reportingComponent: 'x' }, true],
    ['deployments.apps', 'status.replicas=0', {}, false],
  ]
  for (const [id, selector, object, selected] of table) {
    t.equal(selects(id, selector, object), selected, `${id} ${selector} ${JSON.stringify(object)}`)
  }
})

void t.test('a selector promises only what every match has', async (t) => {
  const terms = (id: string, text: string) =>
    parseFieldSelector(text)
      .withLabels(fieldLabelsOf(resourceOf(id)))
      .equalityTerms()
  t.strictSame(terms('nodes', 'spec.unschedulable=false'), [])
  t.strictSame(terms('nodes', 'spec.unschedulable=true'), [{ path: 'spec.unschedulable', value: 'true' }])
  t.strictSame(terms('jobs.batch', 'status.successful=2'), [{ path: 'status.succeeded', value: '2' }])
  t.strictSame(terms('events', 'source=x'), [])
  t.strictSame(terms('pods', 'spec.nodeName=n1'), [{ path: 'spec.nodeName', value: 'n1' }])
})

void t.test('an empty term selects everything, also beside others', async (t) => {
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
