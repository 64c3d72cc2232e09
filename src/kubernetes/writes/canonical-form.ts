/**
 * Turns an object of a built-in kind into the JSON that an API server would return after reading it into its Go
 * types. A null in a map or list becomes the zero value of its type. Any other null disappears, and so does any empty
 * member that may be omitted. Members that Go always writes (`status: {}`) are added. Members are in the order of the
 * Go types. Quantities and times stay as written.
 */
import { isEmptyRecord, isRecord, type Json, type JsonRecord, record } from '../codec/json-tree.js'
import { type Field, type Message, OBJECT_META, type Schema } from '../codec/protobuf/schema.js'
import { isStruct, zeroOf } from '../codec/protobuf/zero-value.js'

export class CanonicalForm {
  constructor(private readonly schema: Pick<Schema, 'messageOfKind' | 'message'>) {}

  /** Does nothing for a kind missing from the schema. @param object is changed; members of wrong types stay. */
  settle(apiVersion: string, kind: string, object: JsonRecord): void {
    const message = this.schema.messageOfKind(apiVersion, kind)
    if (message?.form !== 'object') return
    const settled = this.#object(object, message)
    const head = { kind: object['kind'] ?? kind, apiVersion: object['apiVersion'] ?? apiVersion }
    for (const name of Object.keys(object)) delete object[name]
    Object.assign(object, head, settled)
  }

  /** `settle` for the metadata of any object. */
  settleMetadata(object: JsonRecord): void {
    const message = this.schema.message(OBJECT_META)
    const metadata = object['metadata']
    if (message !== undefined && isRecord(metadata)) object['metadata'] = this.#object(metadata, message)
  }

  /** Returns an object of the kind with no members set. */
  empty(apiVersion: string, kind: string): JsonRecord {
    const object = record()
    this.settle(apiVersion, kind, object)
    return object
  }

  #object(value: JsonRecord, message: Message): JsonRecord {
    const settled = record()
    for (const field of message.fields) {
      if (field.jsonName === '') {
        const inlined = this.schema.message(field.messageName)
        if (inlined !== undefined) Object.assign(settled, this.#object(value, inlined))
        continue
      }
      const member = this.#member(value[field.jsonName] ?? null, field)
      if (member !== undefined) settled[field.jsonName] = member
    }
    return settled
  }

  /** @returns undefined for a member that is left out. */
  #member(value: Json, field: Field): Json | undefined {
    const { label, isOmittedWhenEmpty, isOmittedWhenZero } = field
    const isEmptyList = (Array.isArray(value) && value.length === 0) || (isRecord(value) && isEmptyRecord(value))
    if (label !== 'value' && (value === null || (label !== 'pointer' && isEmptyList))) {
      return isOmittedWhenEmpty ? undefined : null
    }
    if (label === 'repeated') return Array.isArray(value) ? value.map((item) => this.#one(item, field)) : value
    if (label === 'map') return isRecord(value) ? this.#map(value, field) : value
    const one = this.#one(value, field)
    if (label === 'pointer') return one
    if (isOmittedWhenZero && (one === null || (isRecord(one) && isEmptyRecord(one)))) return undefined
    return isOmittedWhenEmpty && isZeroScalar(one) && !isStruct(field) ? undefined : one
  }

  #map(value: JsonRecord, field: Field): JsonRecord {
    const settled = record()
    for (const name in value) settled[name] = this.#one(value[name]!, field)
    return settled
  }

  /** An item of a list, a value of a map, or the member itself. */
  #one(value: Json, field: Field): Json {
    if (field.type !== 'message') return value ?? zeroOf(field)
    const message = this.schema.message(field.messageName)
    switch (message?.form) {
      case 'object':
        return value === null || isRecord(value) ? this.#object(value ?? record(), message) : value
      case 'items':
        return this.#member(value, message.fields[0]!) ?? null
      default:
        return value
    }
  }
}

function isZeroScalar(value: Json): boolean {
  return value === null || value === '' || value === 0 || value === false
}
