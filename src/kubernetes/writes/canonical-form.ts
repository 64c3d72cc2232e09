/**
 * Turns an object of a built-in kind into the JSON that an API server would return after reading it into its Go
 * types. A null in a map or list becomes the zero value of its type. Any other null disappears, and so does any empty
 * member that may be omitted. Members that Go always writes (`status: {}`) are added. Members are in the order of the
 * Go types. Quantities, times, bytes, numbers and text are written as Go writes them. Of a custom resource, only the
 * metadata has Go types; everything else has only Go's numbers and text.
 */
import { goText } from '../codec/go-formats.js'
import { goQuantity, isQuantity } from '../codec/go-quantity.js'
import {
  goJson,
  isEmptyRecord,
  isNumber,
  isRecord,
  type Json,
  JsonNumber,
  type JsonRecord,
  record,
  storedNumber,
} from '../codec/json-tree.js'
import { type Field, type Message, OBJECT_META, type Schema } from '../codec/protobuf/schema.js'
import { isStruct, zeroOf } from '../codec/protobuf/zero-value.js'

/** The only packages with maps of quantities that are no `v1.ResourceList`. */
const DEVICES = 'k8s.io.api.resource.'
const MILLI = -3

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

  /** `settle` for an object of a kind without Go types. */
  settleCustom(object: JsonRecord): void {
    goJson(object)
    this.settleMetadata(object)
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
      const member = this.#member(value[field.jsonName] ?? null, field, message)
      if (member !== undefined) settled[field.jsonName] = member
    }
    return settled
  }

  /** @returns undefined for a member that is left out. */
  #member(value: Json, field: Field, holder: Message): Json | undefined {
    const { label, isOmittedWhenEmpty, isOmittedWhenZero } = field
    const isEmptyList = (Array.isArray(value) && value.length === 0) || (isRecord(value) && isEmptyRecord(value))
    if (label !== 'value' && (value === null || (label !== 'pointer' && isEmptyList))) {
      return isOmittedWhenEmpty ? undefined : null
    }
    if (label === 'repeated') return Array.isArray(value) ? value.map((item) => this.#one(item, field)) : value
    if (label === 'map') return isRecord(value) ? this.#map(value, field, holder) : value
    const one = this.#one(value, field)
    if (label === 'pointer') return one
    if (isOmittedWhenZero && (one === null || (isRecord(one) && isEmptyRecord(one)))) return undefined
    return isOmittedWhenEmpty && isZeroScalar(one) && !isStruct(field) ? undefined : one
  }

  #map(value: JsonRecord, field: Field, holder: Message): JsonRecord {
    const settled = record()
    const isList = field.type === 'quantity' && !holder.fullName.startsWith(DEVICES)
    for (const name in value) {
      const one = this.#one(value[name]!, field)
      settled[name.toWellFormed()] = isList && typeof one === 'string' ? inThousandths(one) : one
    }
    return settled
  }

  /** An item of a list, a value of a map, or the member itself. */
  #one(value: Json, field: Field): Json {
    if (field.type !== 'message') return value === null ? zeroOf(field) : asWritten(value, field)
    const message = this.schema.message(field.messageName)
    switch (message?.form) {
      case 'object':
        return value === null || isRecord(value) ? this.#object(value ?? record(), message) : value
      case 'items':
        return this.#member(value, message.fields[0]!, message) ?? null
      default:
        return value
    }
  }
}

/** The API server rounds the quantities of a `v1.ResourceList` up. */
function inThousandths(quantity: string): string {
  return isQuantity(quantity) ? goQuantity(quantity, MILLI) : quantity
}

/** Writes a scalar as Go does. One of a wrong type stays; `member-types.ts` refuses it. */
function asWritten(value: Json, { type }: Field): Json {
  if (type === 'json') return value
  if (typeof value === 'string') return goText(type, value)
  if (type === 'quantity' && isNumber(value)) return goText(type, String(value))
  return value instanceof JsonNumber ? storedNumber(value) : value
}

function isZeroScalar(value: Json): boolean {
  return value === null || value === '' || value === 0 || value === false
}
