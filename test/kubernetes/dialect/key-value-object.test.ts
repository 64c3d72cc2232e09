import t from 'tap'
import { scanObject, spliceResourceVersion } from '../../../src/kubernetes/codec/json-scan.js'
import { resolveResources } from '../../../src/kubernetes/dialect/declared-resource.js'
import { keyValueObject } from '../../../src/kubernetes/dialect/key-value-object.js'
import { keyFromBytes, keyFromText } from '../../../src/engine/model/event.js'
import { nameOfKey, type Resource } from '../../../src/engine/model/resource.js'
import { toRevision } from '../../../src/engine/model/revision.js'

const { resources, problems } = resolveResources({
  declarations: [
    { name: 'flags', prefix: '/flags/' },
    { name: 'routes', prefix: '/routes/', namespaced: true },
  ],
})
t.same(problems, [])
const resource = (plural: string): Resource => {
  const found = resources.find((served) => served.resource.plural === plural)
  if (found === undefined) throw new Error(plural)
  return found.resource
}

function wrap(plural: string, key: string | Buffer, value: string | Buffer, leaseId = '0'): Record<string, unknown> {
  const etcdKey = typeof key === 'string' ? keyFromText(key) : keyFromBytes(key)
  const name = nameOfKey(resource(plural), etcdKey)
  if (name === null) throw new Error('not a name')
  const wrapped = keyValueObject(resource(plural), name, {
    key: etcdKey,
    value: Buffer.from(value),
    createRevision: toRevision(7),
    modRevision: toRevision(9),
    version: 2,
    leaseId,
  })
  const bytes = spliceResourceVersion(wrapped, toRevision(9))
  const scanned = scanObject(wrapped.bytes)
  t.equal(scanned?.metadataOffset, wrapped.metadataOffset, 'a scan would find the same place')
  t.equal(scanned?.bytes.length, wrapped.bytes.length, 'and nothing to take out')
  return JSON.parse(bytes.toString()) as Record<string, unknown>
}

void t.test('text is shown as text, with all that etcd knows of the key', async (t) => {
  t.same(wrap('flags', '/flags/eu/checkout', 'on', '7587862094709768000'), {
    apiVersion: 'distributary.io/v1',
    kind: 'Flag',
    metadata: { resourceVersion: '9', name: 'eu/checkout' },
    key: '/flags/eu/checkout',
    text: 'on',
    createRevision: 7,
    version: 2,
    lease: '7587862094709768000',
  })
})

void t.test('values that need escapes in JSON come back unchanged', async (t) => {
  for (const text of ['', '"quoted" \\ \n\t\0', 'é ☃ 😀', '{"not":"an object"', '[1,2]', 'null', '\u2028']) {
    t.equal(wrap('flags', '/flags/a', text)['text'], text, encodeURIComponent(text))
  }
  t.equal(wrap('flags', '/flags/é"\\', 'x')['key'], '/flags/é"\\')
})

void t.test('bytes that are not UTF-8 are shown in base64', async (t) => {
  const value = Buffer.from([0xff, 0x00, 0xfe])
  const object = wrap('flags', '/flags/a', value)
  t.equal(object['text'], undefined)
  t.same(Buffer.from(String(object['base64']), 'base64'), value)
  t.match(wrap('flags', Buffer.from([...Buffer.from('/flags/'), 0xff]), 'x'), { metadata: { name: '\ufffd' } })
})

void t.test('a namespaced prefix names the namespace', async (t) => {
  t.match(wrap('routes', '/routes/eu/a/b', 'x'), { metadata: { namespace: 'eu', name: 'a/b' }, kind: 'Route' })
})
