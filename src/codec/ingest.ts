/**
 * A value from etcd as the cache will keep it. JSON objects are checked and made compact once; Kubernetes' protobuf
 * envelope is kept as it is; anything else is wrapped as a `KeyValue` object, so that any prefix can be served.
 */
import { type KeyValue, keyToText } from '../model/event.js'
import { type ObjectName, type Resource, nameOfKey } from '../model/resource.js'
import { StoredObject, type Unservable } from '../model/stored-object.js'
import { type Spliceable, scanObject } from './json-scan.js'

export interface IngestOptions {
  readonly resource: Resource
  /** Larger values are unservable. etcd's own default limit of a request is 1.5 MiB. */
  readonly maxValueBytes: number
  /** A KeyValue object for a value that is no object. */
  readonly wrap: (resource: Resource, name: ObjectName, keyValue: KeyValue) => Spliceable
}

const PROTOBUF_MAGIC = Buffer.from('k8s\0', 'latin1')
const ENCRYPTED_MAGIC = Buffer.from('k8s:enc:', 'latin1')
const OPEN_BRACE = 0x7b

export function createIngest({
  resource,
  maxValueBytes,
  wrap,
}: IngestOptions): (kv: KeyValue) => StoredObject | Unservable {
  return (keyValue) => {
    const { value, key } = keyValue
    const name = nameOfKey(resource, key)
    if (name === null)
      return { unservable: `the key ${JSON.stringify(keyToText(key))} has not the shape of ${resource.plural}` }
    if (value.length > maxValueBytes)
      return { unservable: `its ${value.length} bytes exceed the limit of ${maxValueBytes}` }
    if (startsWith(value, ENCRYPTED_MAGIC)) return { unservable: 'it is encrypted at rest' }
    if (startsWith(value, PROTOBUF_MAGIC)) {
      const bytes = Buffer.allocUnsafeSlow(value.length)
      value.copy(bytes)
      return stored(keyValue, name, 'protobuf', bytes, -1)
    }
    const scanned = looksLikeObject(value) ? scanObject(value) : null
    if (scanned !== null && scanned.metadataOffset >= 0) {
      return stored(keyValue, name, 'json', scanned.bytes, scanned.metadataOffset)
    }
    const wrapped = wrap(resource, name, keyValue)
    return stored(keyValue, name, 'json', wrapped.bytes, wrapped.metadataOffset)
  }
}

function stored(
  keyValue: KeyValue,
  { namespace, name }: ObjectName,
  encoding: 'json' | 'protobuf',
  bytes: Buffer,
  metadataOffset: number,
): StoredObject {
  const { key, createRevision, modRevision, version, leaseId } = keyValue
  return new StoredObject(
    key,
    namespace,
    name,
    createRevision,
    modRevision,
    version,
    leaseId,
    encoding,
    bytes,
    metadataOffset,
  )
}

function startsWith(value: Buffer, magic: Buffer): boolean {
  return value.length >= magic.length && value.compare(magic, 0, magic.length, 0, magic.length) === 0
}

/** Cheap refusal of what cannot be an object, before the scan. */
function looksLikeObject(value: Buffer): boolean {
  for (let i = 0; i < value.length; i++) {
    const byte = value[i]!
    if (byte === OPEN_BRACE) return true
    if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return false
  }
  return false
}
