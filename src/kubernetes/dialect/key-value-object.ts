/**
 * Wraps a value that is not a JSON object with metadata, so that any prefix of etcd can be served. The result is a
 * *KeyValue* object. Its kind is that of its resource, as discovery announces it; it is recognised by its `key`.
 *
 *     {"apiVersion":"distributary.io/v1","kind":"Flag","metadata":{"name":"eu/checkout"},"key":"/config/flags/eu/checkout",
 *      "text":"on","createRevision":7,"version":2,"lease":"7587862094709768000"}
 *
 * `text` when the value is UTF-8, else `base64`. There is no creationTimestamp, because etcd keeps no times. The lease
 * is a string because lease ids exceed 2^53. The bytes are compact JSON with `metadata` ready for its resourceVersion,
 * so they need no scan.
 */
import { isUtf8 } from 'node:buffer'

import type { Spliceable } from '../codec/json-scan.js'
import { type KeyValue, keyToText } from '../../engine/model/event.js'
import { apiVersion, type ObjectName, type Resource } from '../../engine/model/resource.js'

/** @param name the name from `nameOfKey`. */
export function keyValueObject(resource: Resource, name: ObjectName, keyValue: KeyValue): Spliceable {
  const start = `{"apiVersion":${JSON.stringify(apiVersion(resource))},"kind":${JSON.stringify(resource.kind)},"metadata":{`
  const namespace = resource.namespaced ? `,"namespace":${JSON.stringify(name.namespace)}` : ''
  const value = isUtf8(keyValue.value)
    ? `"text":${JSON.stringify(keyValue.value.toString())}`
    : `"base64":"${keyValue.value.toString('base64')}"`
  const lease = keyValue.leaseId === '0' ? '' : `,"lease":"${keyValue.leaseId}"`
  const rest =
    `"name":${JSON.stringify(name.name)}${namespace}},"key":${JSON.stringify(keyToText(keyValue.key))},${value},` +
    `"createRevision":${keyValue.createRevision},"version":${keyValue.version}${lease}}`
  const length = Buffer.byteLength(start) + Buffer.byteLength(rest)
  // The buffer does not come from the pool: it is stored, and a pooled slice would keep 8 KB alive.
  const bytes = Buffer.allocUnsafeSlow(length)
  const metadataOffset = bytes.write(start)
  bytes.write(rest, metadataOffset)
  return { bytes, metadataOffset }
}
