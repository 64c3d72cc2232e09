import t from 'tap'
import { jsonEncoder } from '../../../../src/kubernetes/dialect/encoding/json-encoder.js'
import type { StoredObject } from '../../../../src/engine/model/stored-object.js'
import { isUnservable } from '../../../../src/engine/model/stored-object.js'
import { PODS, ingestPod, keyValue, podKey } from '../../../support/objects.js'

function stored(json: string): StoredObject {
  const object = ingestPod(keyValue(podKey('default', 'a'), Buffer.from(json), 7))
  if (isUnservable(object)) throw new Error(object.unservable)
  return object
}

for (const [name, json, item] of [
  [
    'kind first',
    '{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"},"spec":{}}',
    '{"metadata":{"resourceVersion":"7","name":"a"},"spec":{}}',
  ],
  [
    'apiVersion first',
    '{"apiVersion":"v1","kind":"Pod","spec":{"n":12345678901234567890},"metadata":{"name":"a"}}',
    '{"spec":{"n":12345678901234567890},"metadata":{"resourceVersion":"7","name":"a"}}',
  ],
  [
    'in between',
    '{"metadata":{"name":"a"},"kind":"Pod","spec":{},"apiVersion":"v1"}',
    '{"metadata":{"resourceVersion":"7","name":"a"},"spec":{}}',
  ],
  ['empty metadata', '{"kind":"Pod","apiVersion":"v1","metadata":{}}', '{"metadata":{"resourceVersion":"7"}}'],
  ['none', '{"metadata":{"name":"a"}}', '{"metadata":{"resourceVersion":"7","name":"a"}}'],
  [
    'of something else',
    '{"kind":"Other","apiVersion":"v1","metadata":{"name":"a"}}',
    '{"kind":"Other","apiVersion":"v1","metadata":{"resourceVersion":"7","name":"a"}}',
  ],
] as const) {
  void t.test(`an item of a built-in list omits its type, as in the API server: ${name}`, async (t) => {
    const object = stored(json)
    t.equal(
      jsonEncoder(PODS, (one) => one, true)
        .list.item(object)
        ?.toString(),
      item,
    )
  })
}

void t.test('items of custom resources, single objects and events keep their type', async (t) => {
  const object = stored('{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}')
  const whole = '{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"7","name":"a"}}'
  t.equal(
    jsonEncoder(PODS, (one) => one)
      .list.item(object)
      ?.toString(),
    whole,
  )
  t.equal(
    jsonEncoder(PODS, (one) => one, true)
      .single(object)
      ?.toString(),
    whole,
  )
  t.equal(
    jsonEncoder(PODS, (one) => one, true)
      .encode(object, object.modRevision)
      ?.toString(),
    whole,
  )
})
