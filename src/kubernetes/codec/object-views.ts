/**
 * The JSON of a stored object in one version of its resource. Stored bytes that already have that form are used
 * directly. Otherwise they are decoded from protobuf, converted between versions, or changed by the schema of their
 * definition. An LRU with a byte limit keeps the results. Decoding is lazy: objects of a resource that only protobuf
 * clients watch are never decoded here.
 */
import type { ObjectNotes, StoredObject } from '../../engine/model/stored-object.js'
import { ByteCache } from '../../support/byte-cache.js'
import { type Spliceable, scanObject } from './json-scan.js'
import { CodecError } from './protobuf/codec-error.js'
import { type DecodedObject, decodeObject } from './protobuf/decode.js'
import type { Schema } from './protobuf/schema.js'
import { unknownFields } from './protobuf/unknown-fields.js'
import type { ReadRules } from './read-rules.js'
import { canConvert, convert, withApiVersion } from './versions/convert.js'

export interface ViewTarget {
  /** The served version. */
  readonly apiVersion: string
  /** Whether versions differ only in name, as for custom resources without a conversion. */
  readonly convertsByName: boolean
  /** How the objects of a definition are read; null when objects are shown as stored. */
  readonly rules: ReadRules | null
}

export interface ObjectViewsOptions {
  readonly schema: Schema
  readonly maxBytes: number
  /** Called once per object version and target when a value has no JSON form here. */
  readonly onUnreadable: (object: StoredObject, reason: string) => void
  /**
   * Called once per object version with the fields that are not in the schema. JSON clients do not see those fields.
   */
  readonly onUnknownFields: (object: StoredObject, fields: readonly string[]) => void
}

interface View extends ViewTarget {
  /** null when the object cannot be shown in that version. */
  readonly json: Spliceable | null
}

/** The memory that a view takes in addition to its bytes: mostly its buffer, and its entry in the cache. */
const VIEW_OVERHEAD_BYTES = 750
const NO_FIELDS: readonly string[] = []

export class ObjectViews {
  readonly #options: ObjectViewsOptions
  readonly #views: ByteCache<ObjectNotes, readonly View[]>
  readonly #unknown = new WeakMap<ObjectNotes, readonly string[]>()

  constructor(options: ObjectViewsOptions) {
    this.#options = options
    this.#views = new ByteCache({
      maxBytes: options.maxBytes,
      sizeOf: (views) => views.reduce((bytes, { json }) => bytes + VIEW_OVERHEAD_BYTES + (json?.bytes.length ?? 0), 0),
    })
  }

  /** Changes the limit, and drops the least recently used beyond it at once. */
  resize(maxBytes: number): void {
    this.#views.resize(maxBytes)
  }

  /** Returns null when the object has no JSON in that version; `onUnreadable` has then been called. */
  json(object: StoredObject, target: ViewTarget): Spliceable | null {
    // A value without a version is assumed to have the served one.
    const isThatVersion = object.schemaVersion === target.apiVersion || object.schemaVersion === ''
    const rules = isThatVersion || target.convertsByName ? rulesFor(object, target) : null
    if (object.encoding === 'json' && isThatVersion && (rules === null || object.notes.conformsTo === rules))
      return object
    const { notes } = object
    const views = this.#views.get(notes) ?? []
    const known = views.find((view) => isSameVersion(view, target))
    if (known !== undefined && known.rules === rules) return known.json
    const json = this.#make(object, target, rules)
    if (json === object) {
      notes.conformsTo = rules
      return json
    }
    const { apiVersion, convertsByName } = target
    const others = views.filter((view) => view !== known)
    this.#views.set(notes, [...others, { apiVersion, convertsByName, rules, json }])
    return json
  }

  /**
   * Returns the fields of an object that have no JSON form, named as in protobuf's `unknownFields`; computed once per
   * object version. Empty for an unreadable value.
   */
  unknownFields(object: StoredObject): readonly string[] {
    const { schema, onUnknownFields } = this.#options
    if (object.encoding !== 'protobuf') return NO_FIELDS
    const { notes } = object
    if (notes.conformsTo === schema) return NO_FIELDS
    const known = this.#unknown.get(notes)
    if (known !== undefined) return known
    const found = this.#findUnknown(object)
    if (found.length === 0) notes.conformsTo = schema
    else {
      this.#unknown.set(notes, found)
      onUnknownFields(object, found)
    }
    return found
  }

  #findUnknown({ bytes }: StoredObject): readonly string[] {
    try {
      return unknownFields(bytes, this.#options.schema)
    } catch (error) {
      if (!(error instanceof CodecError)) throw error
      return NO_FIELDS
    }
  }

  /** Whether objects stored in this kind and version can be shown in the target version at all. */
  canShow(object: Pick<StoredObject, 'encoding' | 'schemaVersion' | 'typeName'>, target: ViewTarget): boolean {
    if (
      object.encoding === 'protobuf' &&
      this.#options.schema.messageOfKind(object.schemaVersion, object.typeName) === undefined
    ) {
      return false
    }
    return (
      target.convertsByName ||
      object.schemaVersion === '' ||
      canConvert(object.schemaVersion, target.apiVersion, object.typeName)
    )
  }

  #make(object: StoredObject, target: ViewTarget, rules: ReadRules | null): Spliceable | null {
    try {
      const decoded: Spliceable = object.encoding === 'json' ? object : this.#decode(object)
      const read = rules === null ? null : rules.readJson(decoded.bytes, object.schemaVersion, target.apiVersion)
      if (read !== null) return read
      if (object.schemaVersion === target.apiVersion || object.schemaVersion === '') return decoded
      const converted = target.convertsByName
        ? withApiVersion(decoded.bytes, target.apiVersion)
        : convert(decoded.bytes, object.schemaVersion, target.apiVersion, object.typeName)
      const scanned = converted === null ? null : scanObject(converted, undefined, 'any')
      if (scanned !== null && scanned.revisionOffset >= 0) return scanned
      this.#options.onUnreadable(
        object,
        `${object.typeName} of ${object.schemaVersion} cannot be converted to ${target.apiVersion}`,
      )
    } catch (error) {
      if (!(error instanceof CodecError)) throw error
      this.#options.onUnreadable(object, error.message)
    }
    return null
  }

  #decode(object: StoredObject): DecodedObject {
    const decoded = decodeObject(object.bytes, this.#options.schema)
    if (decoded.unknownFields > 0) this.unknownFields(object)
    else object.notes.conformsTo = this.#options.schema
    if (decoded.revisionOffset < 0) throw new CodecError('malformed', `${decoded.kind} has no metadata`)
    return decoded
  }
}

/** Also returns null when the definition does not cover such an object. */
function rulesFor(object: StoredObject, { rules }: ViewTarget): ReadRules | null {
  return rules?.appliesTo(object) === true ? rules : null
}

function isSameVersion(a: ViewTarget, b: ViewTarget): boolean {
  return a.apiVersion === b.apiVersion && a.convertsByName === b.convertsByName
}
