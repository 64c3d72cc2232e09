/**
 * Turns a value from etcd into the object that the cache keeps. JSON objects are checked and compacted once.
 * Kubernetes' protobuf envelope is kept as it is, and its CBOR is turned into JSON once. Any other value among
 * Kubernetes' objects counts as unreadable and is never replaced by something else. A value of a declared prefix is
 * wrapped in an object built from its key, unless whole objects are declared: then the object's own name must match its
 * key, because clients rely on it.
 */
import { crc32 } from 'node:zlib'
import { LRUCache } from 'lru-cache'
import { inOwnMemory, type KeyValue, keyToText } from '../../engine/model/event.js'
import { type ObjectName, type ApiResource, apiVersion, nameOfKey, resourceId } from '../model/api-resource.js'
import { type Ingest, LooseObject, type StoredObject, type Unservable } from '../../engine/model/stored-object.js'
import type { Scratch } from '../../support/scratch.js'
import { startsWith } from '../../support/buffer-of.js'
import { CBOR_MAGIC, cborToJson } from './cbor/cbor-to-json.js'
import { isProtobuf } from './protobuf/envelope.js'
import { CodecError } from './protobuf/codec-error.js'
import { readJson, readProtobuf } from './read-defaults.js'
import { openStored } from './protobuf/resource-version-splice.js'
import type { LeftOutFields } from './left-out-fields.js'
import { extractFacts, planFacts } from '../../engine/facts/json-facts.js'
import { NAME_PATH, NAMESPACE_PATH } from './fact-paths.js'
import { type ScannedObject, type Spliceable, scanObject } from './json-scan.js'

export interface IngestOptions {
  readonly resource: ApiResource
  /** The size above which a value cannot be served. etcd's default request limit is 1.5 MiB. */
  readonly maxValueBytes: number
  /** Builds an object from a key and a value that is not an object. */
  readonly wrap: (resource: ApiResource, name: ObjectName, keyValue: KeyValue) => Spliceable
  /** The fields that no object keeps. Default: none are left out. */
  readonly leftOut?: LeftOutFields | null
  /**
   * Whether the values of a declared prefix are also kept exactly as stored, whatever their size, because clients of
   * etcd's own API read them. Default: false.
   */
  readonly keepsRaw?: boolean
}

const ENCRYPTED_MAGIC = Buffer.from('k8s:enc:', 'latin1')
const OPEN_BRACE = 0x7b

export function createIngest(options: IngestOptions): Ingest {
  const { resource, maxValueBytes, wrap, leftOut = null, keepsRaw = false } = options
  const { holds } = resource
  const wrapped = (keyValue: KeyValue, name: ObjectName): StoredObject => {
    const { bytes, revisionOffset } = wrap(resource, name, keyValue)
    const { kind } = resource
    const content = { encoding: 'json', apiVersion: apiVersion(resource), kind, bytes, revisionOffset } as const
    return stored(keyValue, name, keepsRaw ? { ...content, raw: inOwnMemory(keyValue).value } : content)
  }
  const unreadable = (unservable: string): Unservable =>
    holds === 'kubernetes' ? { unservable, withholds: 'unreadable' } : { unservable }
  return (keyValue, scratch) => {
    const { value, key } = keyValue
    const name = nameOfKey(resource, key)
    if (name === null)
      return { unservable: `the key ${JSON.stringify(keyToText(key))} is not a key of ${resource.plural}` }
    if (keyValue.sealed !== undefined)
      return { unservable: keyValue.sealed, withholds: 'sealed', encryptionKey: encryptionKeyOf(value) }
    if (value.length > maxValueBytes && !keepsRaw)
      return unreadable(`its ${value.length} bytes exceed the limit of ${maxValueBytes}`)
    if (holds === 'values') return wrapped(keyValue, name)
    if (holds === 'kubernetes') {
      if (isEncrypted(value))
        return {
          unservable: 'it is encrypted at rest',
          withholds: 'encrypted',
          encryptionKey: encryptionKeyOf(value),
        }
      if (isCbor(value)) return ingestCbor(keyValue, name, leftOut, scratch)
      if (isProtobuf(value)) return ingestProtobuf(keyValue, name, leftOut, scratch)
    }
    const isLikely = looksLikeObject(value)
    const scanned = isLikely ? scanObject(value, scratch) : null
    if (scanned !== null && scanned.revisionOffset >= 0) {
      const problem = holds === 'objects' ? problemOf(scanned, resource, name) : null
      if (problem !== null) return { unservable: problem }
      const read = holds === 'kubernetes' ? readJson(scanned) : scanned
      return stored(keyValue, name, { encoding: 'json', ...read, ...without(leftOut, keyValue, read) })
    }
    const isNeither =
      holds === 'kubernetes'
        ? 'it is neither a JSON object with metadata nor protobuf'
        : 'it is not a JSON object with metadata'
    const orNumber = isLikely && scanned === null ? ', or it has a number that does not fit a 64-bit float' : ''
    return unreadable(isNeither + orNumber)
  }
}

const NAME_PLAN = planFacts([NAME_PATH, NAMESPACE_PATH])

/** Returns why an object does not match its key. Without this check, two keys could look like one object to clients. */
function problemOf(scanned: ScannedObject, resource: ApiResource, { namespace, name }: ObjectName): string | null {
  const facts = extractFacts(scanned.bytes, NAME_PLAN)
  const is = (what: string, found: string, wanted: string): string | null =>
    found === wanted ? null : `its ${what} is ${JSON.stringify(found)}, but its key says ${JSON.stringify(wanted)}`
  const named =
    is(NAME_PATH, facts.field(NAME_PATH), name) ?? is(NAMESPACE_PATH, facts.field(NAMESPACE_PATH), namespace)
  if (named !== null) return named
  const isTyped = scanned.apiVersion === '' || scanned.apiVersion === apiVersion(resource)
  if (isTyped && (scanned.kind === '' || scanned.kind === resource.kind)) return null
  return `it is a ${scanned.kind} of ${scanned.apiVersion}, but ${resourceId(resource)} are declared as ${resource.kind} of ${apiVersion(resource)}`
}

export function isEncrypted(value: Buffer): boolean {
  return startsWith(value, ENCRYPTED_MAGIC)
}

/** The longest key name that is shown. */
const MAX_KEY_NAME = 64

/** Every encrypted value begins with `k8s:enc:PROVIDER:VERSION:KEY:`; for a plugin, its name takes the place of KEY. */
function encryptionKeyOf(value: Buffer): string {
  if (!isEncrypted(value)) return 'identity'
  const [provider = '', version = '', name = ''] = value.toString('latin1', ENCRYPTED_MAGIC.length, 256).split(':', 3)
  return [provider, version, name.replace(/[^\x20-\x7e]/g, '?')].map((part) => part.slice(0, MAX_KEY_NAME)).join(':')
}

export function isCbor(value: Buffer): boolean {
  return startsWith(value, CBOR_MAGIC)
}

/**
 * Opens the envelope, so that a broken one is detected at once. The object inside is decoded only when a client needs
 * it.
 */
function ingestProtobuf(
  keyValue: KeyValue,
  name: ObjectName,
  leftOut: LeftOutFields | null,
  scratch: Scratch | undefined,
): StoredObject | Unservable {
  try {
    const { apiVersion, kind } = openStored(keyValue.value)
    const whole = readProtobuf(keyValue.value, apiVersion, kind)
    const value = leftOut?.fromProtobuf(whole) ?? whole
    const bytes = scratch?.take(value.length) ?? Buffer.allocUnsafeSlow(value.length)
    value.copy(bytes)
    const wholeChecksum = value === whole ? 0 : checksumOf(keyValue)
    return stored(keyValue, name, { encoding: 'protobuf', apiVersion, kind, bytes, revisionOffset: -1, wholeChecksum })
  } catch (error) {
    if (!(error instanceof CodecError)) throw error
    return { unservable: `it cannot be read as protobuf: ${error.message}`, withholds: 'unreadable' }
  }
}

function ingestCbor(
  keyValue: KeyValue,
  name: ObjectName,
  leftOut: LeftOutFields | null,
  scratch: Scratch | undefined,
): StoredObject | Unservable {
  const unreadable = (why: string): Unservable => ({
    unservable: `it cannot be read as CBOR: ${why}`,
    withholds: 'unreadable',
  })
  try {
    const scanned = scanObject(cborToJson(keyValue.value), scratch)
    if (scanned === null || scanned.revisionOffset < 0) return unreadable('it is not an object with metadata')
    const read = readJson(scanned)
    return stored(keyValue, name, { encoding: 'json', ...read, ...without(leftOut, keyValue, read) })
  } catch (error) {
    if (!(error instanceof CodecError)) throw error
    return unreadable(error.message)
  }
}

/** Returns the members of an object that change when fields are left out. */
function without(
  leftOut: LeftOutFields | null,
  keyValue: KeyValue,
  object: Spliceable,
): (Spliceable & { readonly wholeChecksum: number }) | null {
  const rest = leftOut?.fromJson(object) ?? object
  if (rest === object) return null
  return { bytes: rest.bytes, revisionOffset: rest.revisionOffset, wholeChecksum: checksumOf(keyValue) }
}

/** Returns a small integer, which takes no memory of its own; never 0. */
function checksumOf({ value }: KeyValue): number {
  return crc32(value) | 0 || 1
}

type Content = Pick<StoredObject, 'encoding'> &
  ScannedObject & { readonly wholeChecksum?: number; readonly raw?: Buffer }

function stored(keyValue: KeyValue, { namespace, name }: ObjectName, content: Content): StoredObject {
  const { key, createRevision, modRevision, version, leaseId } = keyValue
  const { encoding, apiVersion, kind, bytes, revisionOffset, wholeChecksum = 0, raw } = content
  return new LooseObject({
    key,
    scope: shared(namespace),
    name,
    createRevision,
    modRevision,
    version,
    leaseId,
    encoding,
    schemaVersion: shared(apiVersion),
    typeName: shared(kind),
    bytes,
    revisionOffset,
    wholeChecksum,
    ...(raw === undefined ? {} : { raw }),
  })
}

/** Thousands of objects share a few namespaces and kinds, so each is kept as one string, up to a limit. */
const strings = new LRUCache<string, string>({ max: 10_000 })
/** No valid name is longer. */
const MAX_SHARED_LENGTH = 512

function shared(text: string): string {
  const known = strings.get(text)
  if (known !== undefined) return known
  if (text.length <= MAX_SHARED_LENGTH) strings.set(text, text)
  return text
}

/** A cheap check that rules out most values before the scan. */
function looksLikeObject(value: Buffer): boolean {
  for (let i = 0; i < value.length; i++) {
    const byte = value[i]!
    if (byte === OPEN_BRACE) return true
    if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return false
  }
  return false
}
