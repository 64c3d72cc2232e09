/** The memory of the views that are kept. What they contain: `versions.test.ts`, `read-rules.test.ts`. */
import t from 'tap'
import { keyFromText } from '../../../src/engine/model/event.js'
import type { Revision } from '../../../src/engine/model/revision.js'
import { LooseObject, type StoredObject } from '../../../src/engine/model/stored-object.js'
import { ObjectViews } from '../../../src/kubernetes/codec/object-views.js'
import { kubernetesSchema } from '../../../src/kubernetes/codec/protobuf/schema.js'
import { memoryAfterCollection } from '../../support/memory-after-collection.js'

function stored(i: number, bytes: Buffer, encoding: 'json' | 'protobuf' = 'json'): StoredObject {
  return new LooseObject({
    key: keyFromText(`/widgets/w${i}`),
    scope: '',
    name: `w${i}`,
    createRevision: 1 as Revision,
    modRevision: 1 as Revision,
    version: 1,
    leaseId: '0',
    encoding,
    schemaVersion: 'example.com/v1beta1',
    typeName: 'Widget',
    bytes,
    revisionOffset: bytes.indexOf('"metadata":{') + '"metadata":{'.length,
  })
}

const COUNT = 80_000
const target = { apiVersion: 'example.com/v1', convertsByName: true, rules: null }

const forms: Readonly<Record<string, (i: number) => StoredObject>> = {
  'small views': (i) =>
    stored(i, Buffer.from(`{"apiVersion":"example.com/v1beta1","kind":"Widget","metadata":{"name":"w${i}"}}`)),
  'objects that cannot be shown': (i) => stored(i, Buffer.from('k8s\0'), 'protobuf'),
}

for (const [name, form] of Object.entries(forms)) {
  void t.test(`${name} take no more memory than they are counted for`, (t) => {
    const maxBytes = 8 * 2 ** 20
    const views = new ObjectViews({
      schema: kubernetesSchema(),
      maxBytes,
      onUnreadable: () => {},
      onUnknownFields: () => {},
    })
    const objects = Array.from({ length: COUNT }, (_, i) => form(i))
    views.json(form(COUNT), target)
    const before = memoryAfterCollection()
    for (const object of objects) {
      // What is encoded meanwhile shares memory with the view.
      Buffer.from('x'.repeat(2_000))
      views.json(object, target)
    }
    const taken = memoryAfterCollection() - before
    t.ok(taken < 1.5 * maxBytes, `${(taken / maxBytes).toFixed(1)} × the limit`)
    t.equal(views.json(objects[0]!, target) === null, name !== 'small views', 'still in use')
    t.end()
  })
}
