/**
 * Builds an object from one key and its value, so that any prefix of etcd can be served. Its kind is the one that
 * discovery announces for the resource.
 *
 *     {"apiVersion":"distributary.io/v1","kind":"Flag","metadata":{"name":"eu:checkout"},
 *      "key":"/config/flags/eu/checkout","value":{"on":true},
 *      "createRevision":7,"version":2,"lease":"7587862094709768000"}
 *
 * JSON of any type becomes `value`, inserted unchanged so that every number keeps its digits. Other UTF-8 becomes
 * `text`, and anything else `bytes` in base64. A key that is not UTF-8 is shown as well as text can, and `keyBytes` has
 * it in base64. There is no creationTimestamp, because etcd keeps no times. The lease
 * is a string because lease ids exceed 2^53. The bytes are compact JSON with `metadata` ready for its
 * resourceVersion, so they need no scan.
 */
import { isUtf8 } from 'node:buffer'

import { compactJson, type Spliceable } from '../codec/json-scan.js'
import { type KeyValue, keyToBytes } from '../../engine/model/event.js'
import { apiVersion, type ObjectName, type ApiResource } from '../model/api-resource.js'

/** Exactly one of these members holds the value. */
export const VALUE_MEMBERS = ['value', 'text', 'bytes'] as const

/** @param name the name from `nameOfKey`. */
export function keyValueObject(resource: ApiResource, name: ObjectName, keyValue: KeyValue): Spliceable {
  const start = `{"apiVersion":${JSON.stringify(apiVersion(resource))},"kind":${JSON.stringify(resource.kind)},"metadata":{`
  const namespace = resource.namespaced ? `,"namespace":${JSON.stringify(name.namespace)}` : ''
  const key = `"name":${JSON.stringify(name.name)}${namespace}},${keyMembers(keyToBytes(keyValue.key))},`
  const value = valueMember(keyValue.value)
  const lease = keyValue.leaseId === '0' ? '' : `,"lease":"${keyValue.leaseId}"`
  const end = `,"createRevision":${keyValue.createRevision},"version":${keyValue.version}${lease}}`
  const parts = [start, key, ...value, end]
  let length = 0
  for (const part of parts) length += typeof part === 'string' ? Buffer.byteLength(part) : part.length
  // The buffer does not come from the pool, because it is stored and a pooled slice would keep 8 KB alive.
  const bytes = Buffer.allocUnsafeSlow(length)
  let at = 0
  for (const part of parts) at += typeof part === 'string' ? bytes.write(part, at) : part.copy(bytes, at)
  return { bytes, revisionOffset: Buffer.byteLength(start) }
}

function keyMembers(key: Buffer): string {
  const text = `"key":${JSON.stringify(key.toString())}`
  return isUtf8(key) ? text : `${text},"keyBytes":"${key.toString('base64')}"`
}

function valueMember(value: Buffer): readonly (string | Buffer)[] {
  const json = compactJson(value)
  if (json !== null) return ['"value":', json]
  return [isUtf8(value) ? `"text":${JSON.stringify(value.toString())}` : `"bytes":"${value.toString('base64')}"`]
}
