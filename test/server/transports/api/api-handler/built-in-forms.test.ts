/** The forms in which built-in kinds are answered, however they are stored. */
import t from 'tap'
import { type JsonRecord, parseJsonTree } from '../../../../../src/kubernetes/codec/json-tree.js'
import { decodeObject } from '../../../../../src/kubernetes/codec/protobuf/decode.js'
import { encodeObject } from '../../../../../src/kubernetes/codec/protobuf/encode-object.js'
import { kubernetesSchema } from '../../../../../src/kubernetes/codec/protobuf/schema.js'
import { keyFromText } from '../../../../../src/engine/model/event.js'
import { until } from '../../../../support/until.js'
import { startApp } from '../../../../support/app.js'

const PROTOBUF = 'application/vnd.kubernetes.protobuf'
const META = 'v=v1;g=meta.k8s.io'

async function read(url: string, accept = 'application/json'): Promise<{ status: number; type: string; body: Buffer }> {
  const response = await fetch(url, { headers: { accept } })
  const body = Buffer.from(await response.arrayBuffer())
  return { status: response.status, type: response.headers.get('content-type') ?? '', body }
}

const metadata = { name: 'a', namespace: 'default', uid: '1' }

void t.test('a part that only a kube-apiserver writes reads as the whole object', async (t) => {
  const h = await startApp(t, {
    flags: ['--enable-writes'],
    objects: {
      'pods/default/a': { apiVersion: 'v1', kind: 'Pod', metadata, spec: { nodeName: 'n' } },
      'certificatesigningrequests/a': {
        apiVersion: 'certificates.k8s.io/v1',
        kind: 'CertificateSigningRequest',
        metadata: { name: 'a' },
        spec: {},
      },
    },
  })
  const pod = `${h.url}/api/v1/namespaces/default/pods/a`
  for (const path of [
    `${pod}/resize`,
    `${pod}/ephemeralcontainers`,
    `${h.url}/apis/certificates.k8s.io/v1/certificatesigningrequests/a/approval`,
  ]) {
    const { status, body } = await read(path)
    t.equal(status, 200, path)
    t.match(JSON.parse(body.toString()), { metadata: { name: 'a' } }, path)
    const write = await fetch(path, { method: 'PUT', headers: { 'content-type': 'application/json' }, body: '{}' })
    t.equal(write.status, 501, 'it is not written here')
  }
  t.equal((await read(`${pod}/nothing`)).status, 404)
  const { body } = await read(`${h.url}/api/v1`)
  const { resources } = JSON.parse(body.toString()) as { resources: { name: string; verbs: string[] }[] }
  t.same(resources.find(({ name }) => name === 'pods/resize')?.verbs, ['get'])
})

void t.test('built-in kinds come in protobuf in every version, also those stored as JSON', async (t) => {
  const h = await startApp(t, {
    objects: {
      'events/default/a': {
        apiVersion: 'v1',
        kind: 'Event',
        metadata,
        involvedObject: { kind: 'Pod', name: 'web' },
        reason: 'Started',
        count: 3,
      },
      'deployments/default/a': {
        apiVersion: 'apps/v1',
        kind: 'Deployment',
        metadata,
        spec: { replicas: 3, selector: { matchLabels: { app: 'a' } } },
        status: { replicas: 2 },
      },
      'apiregistration.k8s.io/apiservices/v1.apps': {
        apiVersion: 'apiregistration.k8s.io/v1',
        kind: 'APIService',
        metadata: { name: 'v1.apps' },
        spec: { group: 'apps', version: 'v1', groupPriorityMinimum: 1, versionPriority: 2 },
      },
    },
  })
  const decoded = async (path: string): Promise<unknown> => {
    const { status, type, body } = await read(`${h.url}${path}`, PROTOBUF)
    t.equal(status, 200, path)
    t.equal(type, PROTOBUF, path)
    return JSON.parse(decodeObject(body, kubernetesSchema()).bytes.toString())
  }
  t.match(await decoded('/apis/events.k8s.io/v1/namespaces/default/events/a'), {
    apiVersion: 'events.k8s.io/v1',
    regarding: { name: 'web' },
    deprecatedCount: 3,
    metadata: { name: 'a' },
  })
  t.match(await decoded('/apis/apps/v1/namespaces/default/deployments/a/scale'), {
    kind: 'Scale',
    spec: { replicas: 3 },
    status: { replicas: 2, selector: 'app=a' },
  })
  t.match(await decoded('/apis/apiregistration.k8s.io/v1/apiservices/v1.apps'), { spec: { versionPriority: 2 } })
  t.equal((await read(`${h.url}/api/v1/nodes`, PROTOBUF)).status, 200, 'an empty list')
  t.match((await read(`${h.url}/apis/events.k8s.io/v1/events`, PROTOBUF)).body.toString('latin1'), /^k8s\0.*EventList/s)
})

void t.test('metadata alone has no annotation that a version of its kind has made', async (t) => {
  const generation = 'deprecated.daemonset.template.generation'
  const daemonSet = {
    apiVersion: 'apps/v1',
    kind: 'DaemonSet',
    metadata: { ...metadata, annotations: { [generation]: '7' } },
    spec: { selector: {}, template: {} },
  }
  const h = await startApp(t, { objects: { 'daemonsets/default/json': daemonSet } })
  const key = keyFromText('/registry/daemonsets/default/protobuf')
  h.upstream.commit([{ type: 'put', key, value: encodeObject(daemonSet, kubernetesSchema())! }])
  await until(
    async () => (await read(`${h.url}/apis/apps/v1/daemonsets?limit=1`)).body.includes('remaining'),
    'both are read',
  )
  for (const name of ['json', 'protobuf']) {
    const path = `${h.url}/apis/apps/v1/namespaces/default/daemonsets/${name}`
    t.match((await read(path)).body.toString(), generation, `${name}: the object`)
    for (const form of [
      `application/json;as=PartialObjectMetadata;${META}`,
      `${PROTOBUF};as=PartialObjectMetadata;${META}`,
      `application/json;as=Table;${META}`,
    ]) {
      const { status, body } = await read(path, form)
      t.equal(status, 200, `${name} ${form}`)
      t.notMatch(body.toString('latin1'), generation, `${name} ${form}`)
    }
    t.match(
      (await read(`${path}?includeObject=Object`, `application/json;as=Table;${META}`)).body.toString(),
      generation,
    )
  }
})

void t.test('a Table of flow schemas is in the order in which they are tried', async (t) => {
  const flowSchema = (name: string, matchingPrecedence: number): object => ({
    apiVersion: 'flowcontrol.apiserver.k8s.io/v1',
    kind: 'FlowSchema',
    metadata: { name },
    spec: { matchingPrecedence, priorityLevelConfiguration: { name: 'x' } },
  })
  const h = await startApp(t, {
    objects: {
      'flowschemas/a': flowSchema('a', 9_000),
      'flowschemas/b': flowSchema('b', 1),
      'flowschemas/c': flowSchema('c', 200),
      'flowschemas/d': flowSchema('d', 1),
    },
  })
  const path = `${h.url}/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas`
  const { body } = await read(path, `application/json;as=Table;${META}`)
  const { rows } = JSON.parse(body.toString()) as { rows: { cells: unknown[] }[] }
  t.same(
    rows.map(({ cells }) => cells[0]),
    ['b', 'd', 'c', 'a'],
  )
  const list = JSON.parse((await read(path)).body.toString()) as { items: { metadata: { name: string } }[] }
  t.same(
    list.items.map(({ metadata: { name } }) => name),
    ['a', 'b', 'c', 'd'],
    'the list itself is as ever',
  )
})

void t.test(
  'a number beyond a double in embedded JSON is served as it is stored, in every form and version',
  async (t) => {
    const h = await startApp(t, { flags: ['--resource=api/all'] })
    const put = (key: string, object: object): void => {
      const json = JSON.stringify(object).replace('"BEYOND"', '1e400')
      const value = encodeObject(parseJsonTree(Buffer.from(json)).value as JsonRecord, kubernetesSchema())!
      h.upstream.commit([{ type: 'put', key: keyFromText(`/registry/${key}`), value }])
    }
    put('controllerrevisions/default/a', {
      apiVersion: 'apps/v1',
      kind: 'ControllerRevision',
      metadata,
      data: { n: 'BEYOND' },
      revision: 1,
    })
    const opaque = { driver: 'd.example.com', parameters: { n: 'BEYOND' } }
    const spec = {
      devices: { requests: [{ name: 'r', exactly: { deviceClassName: 'c.example.com' } }], config: [{ opaque }] },
    }
    put('resourceclaims/default/a', { apiVersion: 'resource.k8s.io/v1', kind: 'ResourceClaim', metadata, spec })
    for (const path of [
      'apis/apps/v1/namespaces/default/controllerrevisions',
      'apis/resource.k8s.io/v1/namespaces/default/resourceclaims',
      'apis/resource.k8s.io/v1beta1/namespaces/default/resourceclaims',
    ]) {
      const url = `${h.url}/${path}`
      await until(async () => (await read(`${url}/a`)).status === 200, `${path}: it is there`, 5_000)
      for (const suffix of ['', '/a']) {
        t.match((await read(url + suffix)).body.toString(), /"n":\s*1e400\}/, `${path}${suffix}`)
        t.match((await read(url + suffix, 'application/yaml')).body.toString(), /\bn: 1e400|"n": 1e400/)
        t.match((await read(url + suffix, PROTOBUF)).body.toString('latin1'), '{"n":1e400}')
        t.equal((await read(url + suffix, `application/json;as=Table;${META}`)).status, 200)
      }
    }
  },
)
