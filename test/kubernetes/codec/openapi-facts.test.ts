import t from 'tap'
import { allFactsOf, factsOf, membersOf, messageNameOf } from '../../../src/kubernetes/codec/openapi-facts.js'
import { kubernetesSchema } from '../../../src/kubernetes/codec/protobuf/schema.js'
import { readPackageFile } from '../../../src/support/package-file.js'
import { fileOfFacts } from '../../reference/openapi-facts-file.js'

const schema = kubernetesSchema()
const message = (name: string) => schema.message(`k8s.io.api.${name}`)!

void t.test('required members and lists follow from the fields, unless the facts say otherwise', (t) => {
  const { required, properties } = allFactsOf(message('apps.v1.StatefulSetSpec'), schema)
  t.same(required, ['selector', 'template'], 'serviceName is written, and may be left out')
  t.same(properties?.['volumeClaimTemplates'], { 'x-kubernetes-list-type': 'atomic' })
  t.same(allFactsOf(message('apps.v1.DaemonSetUpdateStrategy'), schema).required, [])
  const pod = allFactsOf(message('core.v1.PodSpec'), schema)
  t.same(pod.required, ['containers'])
  t.match(pod.properties?.['containers'], { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['name'] })
  t.same(allFactsOf(message('core.v1.EphemeralContainer'), schema).required, ['name'], 'of an inlined message')
  t.equal(allFactsOf(message('core.v1.ServiceSpec'), schema).properties?.['topologyKeys'], null, 'a list that is gone')
  t.end()
})

void t.test('nothing is known about messages that the documents do not contain', (t) => {
  t.same(membersOf(message('policy.v1beta1.PodDisruptionBudgetStatus'), schema).length > 0, true)
  t.same(allFactsOf(message('policy.v1beta1.PodDisruptionBudgetStatus'), schema), {})
  t.end()
})

void t.test('the file in use is one that is generated from its facts', (t) => {
  const text = readPackageFile('src/kubernetes/codec/kubernetes-openapi.json').toString()
  const found = new Map<string, Readonly<Record<string, unknown>>>()
  for (const name of Object.keys(JSON.parse(text) as object).flatMap((names) => names.split(' '))) {
    const fullName = messageNameOf(name)
    const known = schema.message(fullName)
    found.set(name, known?.form === 'object' ? allFactsOf(known, schema) : factsOf(fullName))
  }
  t.same(JSON.parse(fileOfFacts(found, schema)), JSON.parse(text))
  t.end()
})
