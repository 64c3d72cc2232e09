import t from 'tap'
import { kubernetesSchema } from '../../../src/kubernetes/codec/protobuf/schema.js'
import { parseJsonTree } from '../../../src/kubernetes/codec/json-tree.js'
import { typeProblem } from '../../../src/kubernetes/writes/member-types.js'
import { BuiltInShapes } from '../../../src/kubernetes/writes/shape.js'
import { startApp } from '../../support/app.js'

const shapes = new BuiltInShapes(kubernetesSchema())

function problemOf(apiVersion: string, kind: string, members: string): string | null {
  const { value } = parseJsonTree(Buffer.from(`{"apiVersion":"${apiVersion}","kind":"${kind}",${members}}`))
  return typeProblem(value, shapes.ofKind(apiVersion, kind)!)
}

/** The messages of Go's decoder, as a kube-apiserver returns them. */
const WRONG = [
  ['apps/v1', 'Deployment', '"spec":{"replicas":"three"}', 'json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32'],
  ['apps/v1', 'Deployment', '"spec":{"replicas":1.5}', 'json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32'],
  ['apps/v1', 'Deployment', '"spec":{"replicas":3000000000}', 'json: cannot unmarshal number 3000000000 into Go struct field DeploymentSpec.spec.replicas of type int32'],
  ['apps/v1', 'Deployment', '"spec":{"paused":"true"}', 'json: cannot unmarshal string into Go struct field DeploymentSpec.spec.paused of type bool'],
  ['apps/v1', 'Deployment', '"spec":[]', 'json: cannot unmarshal array into Go struct field Deployment.spec of type v1.DeploymentSpec'],
  ['v1', 'ConfigMap', '"data":{"a":7}', 'json: cannot unmarshal number into Go struct field ConfigMap.data of type string'],
  ['v1', 'ConfigMap', '"data":"a"', 'json: cannot unmarshal string into Go struct field ConfigMap.data of type map[string]string'],
  ['v1', 'ConfigMap', '"metadata":{"labels":{"a":true}}', 'json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.labels of type string'],
  ['v1', 'Pod', '"spec":{"containers":{"name":"c"}}', 'json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container'],
  ['v1', 'Pod', '"spec":{"containers":[{"command":"ls"}]}', 'json: cannot unmarshal string into Go struct field Container.spec.containers.command of type []string'],
  ['v1', 'Pod', '"spec":{"containers":[{"resources":{"limits":{"cpu":"much"}}}]}', 'quantities must match the regular expression'],
  ['v1', 'Pod', '"metadata":{"creationTimestamp":"yesterday"}', 'parsing time "yesterday"'],
  ['v1', 'Service', '"spec":{"ports":[{"port":80,"targetPort":true}]}', 'json: cannot unmarshal bool into Go struct field ServicePort.spec.ports.targetPort of type intstr.IntOrString'],
] as const // prettier-ignore

const RIGHT = [
  ['apps/v1', 'Deployment', '"spec":{"replicas":3,"paused":false,"strategy":{"rollingUpdate":{"maxSurge":"25%","maxUnavailable":1}}}'],
  ['apps/v1', 'Deployment', '"spec":null,"metadata":{"labels":null,"creationTimestamp":null}'],
  ['v1', 'Pod', '"spec":{"containers":[{"resources":{"limits":{"cpu":0.5,"memory":"1.5Gi","x":"1e3"}}}]}'],
  ['v1', 'Secret', '"data":{"a":"aGVsbG8="}'],
  ['v1', 'Event', '"eventTime":"2026-01-02T03:04:05.123456Z","firstTimestamp":"2026-01-02T03:04:05+01:00"'],
  ['v1', 'Pod', '"unheardOf":{"a":[1]}'],
  ['apiextensions.k8s.io/v1', 'CustomResourceDefinition', '"spec":{"versions":[{"schema":{"openAPIV3Schema":{"default":{"a":[1]},"maximum":1.5,"items":{"type":"string"}}}}]}'],
] as const // prettier-ignore

void t.test('a member of a wrong type is reported with the API server’s message', async (t) => {
  for (const [apiVersion, kind, members, words] of WRONG) {
    const problem = problemOf(apiVersion, kind, members)
    t.equal(problem?.slice(0, words.length), words, members)
  }
  for (const [apiVersion, kind, members] of RIGHT) t.equal(problemOf(apiVersion, kind, members), null, members)
})

/** `additionalProperties`, `items` and `dependencies` are a schema or something else. */
void t.test(
  'a definition with a wrong type anywhere in a schema is refused, because Go could not read it',
  async (t) => {
    const { url } = await startApp(t, { flags: ['--enable-writes'] })
    const [name, group] = ['widgets', 'example.com']
    const post = async (properties: string, query = ''): Promise<{ code: number; body: Record<string, unknown> }> => {
      const schema = `{"type":"object","properties":${properties}}`
      const version = `{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":${schema}}}`
      const names = `{"plural":"${name}","kind":"Widget"}`
      const body = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"${name}.${group}"},"spec":{"group":"${group}","scope":"Namespaced","names":${names},"versions":[${version}]}}`
      const headers = { 'content-type': 'application/json' }
      const collection = `${url}/apis/apiextensions.k8s.io/v1/customresourcedefinitions${query}`
      const response = await fetch(collection, { method: 'POST', headers, body })
      return { code: response.status, body: (await response.json()) as Record<string, unknown> }
    }
    const wrong = [
    ['{"a":{"description":5}}', 'properties.description of type string'],
    ['{"a":{"additionalProperties":{"type":"string","description":5}}}', 'additionalProperties.description of type string'],
    ['{"a":{"additionalProperties":5}}', 'additionalProperties of type bool'],
    ['{"a":{"additionalProperties":[]}}', 'additionalProperties of type v1.JSONSchemaPropsOrBool'],
    ['{"a":{"items":{"type":"string","maxLength":"5"}}}', 'items.maxLength of type int64'],
    ['{"a":{"items":[{"title":5}]}}', 'items.title of type string'],
    ['{"a":{"items":"x"}}', 'items of type v1.JSONSchemaPropsOrArray'],
    ['{"a":{"items":{"additionalProperties":{"items":{"properties":{"b":{"required":{}}}}}}}}', 'items.properties.required of type []string'],
    ['{"a":{"dependencies":{"b":[5]}}}', 'dependencies of type string'],
  ] as const // prettier-ignore
    for (const [properties, words] of wrong) {
      const { code, body } = await post(properties)
      t.match({ code, reason: body['reason'] }, { code: 400, reason: 'BadRequest' }, properties)
      t.ok(String(body['message']).endsWith(words), `${properties}: ${String(body['message'])}`)
    }
    const deep = `${'{"items":'.repeat(900)}{"title":5}${'}'.repeat(900)}`
    t.equal((await post(`{"a":${deep}}`)).code, 400, 'at any depth')
    const right =
      '{"a":{"type":"object","additionalProperties":true},"b":{"type":"array","items":{"type":"object","unheardOf":1,"properties":{"unheardOf":{"type":"string"}},"additionalProperties":null}}}'
    const { code, body } = await post(right, '?fieldValidation=Strict')
    t.equal(code, 201, JSON.stringify(body))
    t.match(JSON.stringify(body), '"items":{"type":"object","properties":{"unheardOf":{"type":"string"}}')
    t.notMatch(JSON.stringify(body), '"unheardOf":1')
  },
)

void t.test('an object with members of wrong types is not stored, whatever the verb', async (t) => {
  const { url } = await startApp(t, { flags: ['--enable-writes'] })
  const collection = `${url}/apis/apps/v1/namespaces/default/deployments`
  const template = { metadata: { labels: { a: 'b' } }, spec: { containers: [{ name: 'c', image: 'i' }] } }
  const object = (replicas: unknown): object => ({
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'web' },
    spec: { replicas, selector: { matchLabels: { a: 'b' } }, template },
  })
  const send = async (method: string, path: string, body: object, type = 'application/json') => {
    const answer = await fetch(path, { method, headers: { 'content-type': type }, body: JSON.stringify(body) })
    return { code: answer.status, body: (await answer.json()) as { message?: string; reason?: string } }
  }
  const message =
    'Deployment in version "v1" cannot be handled as a Deployment: json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32'
  const refused = { code: 400, body: { reason: 'BadRequest', message } }
  t.match(await send('POST', collection, object('three')), refused)
  t.equal((await send('POST', collection, object(3))).code, 201)
  t.match(await send('PUT', `${collection}/web`, object('three')), refused)
  const patch = { spec: { replicas: 'three' } }
  // As in the API server: a patch that can be parsed is rejected for its result.
  for (const type of ['merge-patch', 'strategic-merge-patch']) {
    const answer = await send('PATCH', `${collection}/web`, patch, `application/${type}+json`)
    t.match(answer, { code: 422, body: { reason: 'Invalid' } }, type)
  }
  const apply = `${collection}/web?fieldManager=me&force=true`
  t.match(await send('PATCH', apply, object('three'), 'application/apply-patch+yaml'), {
    code: 400,
    body: {
      message:
        'failed to create typed patch object (/web; apps/v1, Kind=Deployment): .spec.replicas: expected numeric (int or float), got string',
    },
  })
})
