/**
 * Messages that we send can be read by protobuf-es with the descriptors that Kubernetes publishes, without any code of
 * ours.
 */
import t from 'tap'

import {
  encodeBookmark,
  encodeList,
  encodePartialObjectMetadata,
  encodeStatus,
  encodeWatchEvent,
  metadataItem,
  objectItem,
} from '../../../../src/kubernetes/codec/protobuf/encode.js'
import { openEnvelope, rawOf } from '../../../../src/kubernetes/codec/protobuf/envelope.js'
import { openStored, withResourceVersion } from '../../../../src/kubernetes/codec/protobuf/resource-version-splice.js'
import { fieldLength, writeHeader } from '../../../../src/kubernetes/codec/protobuf/wire.js'
import type { Revision } from '../../../../src/engine/model/revision.js'
import { TooLargeResourceVersionError } from '../../../../src/kubernetes/model/status.js'
import { apiServer120, apiTestData } from '../../../support/protobuf-data.js'
import { messages, readMessage } from '../../../support/read-message.js'

const META = 'k8s.io.apimachinery.pkg.apis.meta.v1'
const pods = apiServer120().stored.filter(({ key }) => key.startsWith('/registry/pods/'))

void t.test('an object read by another decoder equals the stored one, plus the resourceVersion', (t) => {
  let compared = 0
  const values = apiServer120().stored.map(({ key, value }) => [key, value] as const)
  for (const { name, protobuf, json } of apiTestData('head')) {
    if ((json['metadata'] as { name?: string } | undefined)?.name !== undefined) values.push([name, protobuf])
  }
  for (const [name, value] of values) {
    if (value[0] !== 0x6b) continue
    const { apiVersion, kind } = openEnvelope(value)
    const [group, version] = apiVersion.includes('/') ? apiVersion.split('/') : ['core', apiVersion]
    const typeName = `k8s.io.api.${group!.split('.')[0]}.${version}.${kind}`
    if (messages.getMessage(typeName) === undefined) continue
    const stored = readMessage(typeName, rawOf(openEnvelope(value)))
    const served = readMessage(typeName, rawOf(openEnvelope(withResourceVersion(value, '4711'))))
    const metadata = { ...(stored['metadata'] as object | undefined), resourceVersion: '4711' }
    t.same(served, { ...stored, metadata }, name)
    compared++
  }
  t.ok(compared > 60, `${compared} objects compared`)
  t.end()
})

void t.test('a list is one message in chunks, and its size is known in advance', (t) => {
  for (const count of [0, 1, 100]) {
    const items = Array.from({ length: count }, (_, i) =>
      objectItem(openStored(pods[i % pods.length]!.value), String(i + 1)),
    )
    const metadata = { resourceVersion: '99', continue: 'token', remainingItemCount: 300 }
    const { length, chunks } = encodeList('v1', 'PodList', metadata, items)
    const parts = [...chunks]
    const body = Buffer.concat(parts)
    t.equal(body.length, length)
    t.ok(
      parts.slice(0, -1).every((part) => part.length >= 65_536),
      'no small chunks before the last',
    )
    t.equal(parts.length > 1, count === 100)
    const list = readMessage('k8s.io.api.core.v1.PodList', rawOf(openEnvelope(body)))
    t.match(openEnvelope(body), { apiVersion: 'v1', kind: 'PodList' })
    t.same(list['metadata'], { selfLink: '', resourceVersion: '99', continue: 'token', remainingItemCount: 300n })
    const listed = (list['items'] ?? []) as { metadata: { resourceVersion: string } }[]
    t.equal(listed.length, count)
    for (const [i, item] of listed.entries()) t.equal(item.metadata.resourceVersion, String(i + 1))
  }
  t.end()
})

void t.test('a watch event is a bare message around an enveloped object', (t) => {
  const object = withResourceVersion(pods[0]!.value, '5')
  for (const type of ['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK', 'ERROR'] as const) {
    const event = readMessage(`${META}.WatchEvent`, encodeWatchEvent(type, object))
    t.equal(event['type'], type)
    t.equal((event['object'] as { raw: Buffer }).raw.compare(object), 0)
  }
  t.end()
})

void t.test('a bookmark has its kind, its resourceVersion and its annotations only', (t) => {
  const bookmark = openEnvelope(
    encodeBookmark('apps/v1', 'Deployment', {
      resourceVersion: '77',
      annotations: { 'k8s.io/initial-events-end': 'true' },
    }),
  )
  t.match(bookmark, { apiVersion: 'apps/v1', kind: 'Deployment' })
  t.same(readMessage('k8s.io.api.apps.v1.Deployment', rawOf(bookmark)), {
    metadata: { resourceVersion: '77', annotations: { 'k8s.io/initial-events-end': 'true' } },
  })
  t.end()
})

void t.test('a Status carries everything its JSON form does', (t) => {
  const status = new TooLargeResourceVersionError(9 as Revision, 5 as Revision).toStatus()
  const envelope = openEnvelope(encodeStatus(status))
  t.match(envelope, { apiVersion: 'v1', kind: 'Status' })
  t.match(readMessage(`${META}.Status`, rawOf(envelope)), {
    status: 'Failure',
    message: status.message,
    reason: 'Timeout',
    code: 504,
    details: {
      retryAfterSeconds: 1,
      causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }],
    },
  })
  t.end()
})

void t.test('metadata is encoded alone, for one object and for a list', (t) => {
  const object = openStored(pods[0]!.value)
  const one = openEnvelope(encodePartialObjectMetadata(metadataItem(object, '8')))
  t.match(one, { apiVersion: 'meta.k8s.io/v1', kind: 'PartialObjectMetadata' })
  const metadata = readMessage(`${META}.PartialObjectMetadata`, rawOf(one))['metadata']
  t.match(metadata, { name: 'web-0', namespace: 'team-a', resourceVersion: '8' })

  const list = encodeList('meta.k8s.io/v1', 'PartialObjectMetadataList', { resourceVersion: '9' }, [
    metadataItem(object, '8'),
  ])
  const body = openEnvelope(Buffer.concat([...list.chunks]))
  t.same(readMessage(`${META}.PartialObjectMetadataList`, rawOf(body))['items'], [{ metadata }])

  // In v1beta1 its items are field 1 and its metadata field 2, and so is their order.
  const items = [metadataItem(object, '8'), metadataItem(object, '8')]
  const beta = encodeList('meta.k8s.io/v1beta1', 'PartialObjectMetadataList', { resourceVersion: '9' }, items)
  const written = items.map((item) => {
    const bytes = Buffer.alloc(fieldLength(item.length))
    item.write(bytes, writeHeader(1, item.length, bytes, 0))
    return bytes
  })
  const whole = Buffer.concat([...beta.chunks])
  t.equal(whole.length, beta.length)
  t.same(rawOf(openEnvelope(whole)), Buffer.concat([...written, Buffer.from('12070a001201391a00', 'hex')]))
  t.end()
})
