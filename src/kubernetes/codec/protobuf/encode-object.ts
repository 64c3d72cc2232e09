/**
 * Encodes a whole object from JSON, for clients that read only protobuf: an object that is stored as JSON, or the answer
 * to a write.
 *
 * It uses the same table as the decoder. Members missing from the table are dropped, as in Go.
 */
import { isNumber, isRecord, type Json, type JsonRecord, jsonText, record, textMember } from '../json-tree.js'
import { BackwardWriter } from './backward-writer.js'
import { CodecError } from './codec-error.js'
import { encodeEnvelope } from './resource-version.js'
import type { Field, Message, Schema } from './schema.js'
import { FIXED64, VARINT } from './wire.js'

/** The units of durations in Go. */
const NANOSECONDS: Readonly<Record<string, number>> = { ns: 1, us: 1e3, µs: 1e3, ms: 1e6, s: 1e9, m: 6e10, h: 3.6e12 }

const NOTHING: JsonRecord = Object.freeze(record())

/**
 * Returns the object in its envelope; null for a kind missing from the table.
 * @throws CodecError when a member has another type than the table says.
 */
export function encodeObject(object: JsonRecord, schema: Schema): Buffer | null {
  const apiVersion = textMember(object, 'apiVersion')
  const kind = textMember(object, 'kind')
  const message = schema.messageOfKind(apiVersion, kind)
  if (message === undefined) return null
  const encoder = new Encoder(schema)
  encoder.message(object, message)
  const bytes = encoder.out.finish()
  return encodeEnvelope(apiVersion, kind, bytes.length, (out, offset) => offset + bytes.copy(out, offset))
}

/** Everything is written from the end: the last field first, and the last item of a list. */
class Encoder {
  readonly out = new BackwardWriter()

  constructor(private readonly schema: Schema) {}

  message(value: Json, { form, fields, fullName }: Message): void {
    const [first, second] = fields
    if (form === 'items') return this.#items(value, first!)
    if (form === 'either') return this.#either(value, first!, second!)
    if (!isRecord(value)) throw wrongType(fullName)
    for (let i = fields.length - 1; i >= 0; i--) this.#field(value, fields[i]!)
  }

  /** JSONSchemaPropsOrArray, …OrBool and …OrStringArray: the second field if the JSON has its type. */
  #either(value: Json, first: Field, second: Field): void {
    if (second.label === 'repeated' ? !Array.isArray(value) : typeof value === 'boolean')
      return this.#single(value, first)
    if (second.label === 'repeated') return this.#items(value, second)
    this.#single(value, second)
    if (first.type === 'bool') this.#single(true, first)
  }

  #field(holder: JsonRecord, field: Field): void {
    // An inlined message has its members in its parent.
    if (field.jsonName === '') return this.#single(holder, field)
    const value = holder[field.jsonName] ?? null
    if (field.label === 'repeated') return this.#items(value, field)
    if (field.label === 'map') return this.#entries(value, field)
    if (value !== null) return this.#single(value, field)
    // Go writes members that are not pointers even if empty.
    if (field.label !== 'pointer') this.#empty(field)
  }

  #items(value: Json, field: Field): void {
    if (value === null) return
    if (!Array.isArray(value)) throw wrongType(field.jsonName)
    for (let i = value.length - 1; i >= 0; i--) this.#single(value[i]!, field)
  }

  #entries(value: Json, field: Field): void {
    if (value === null) return
    if (!isRecord(value)) throw wrongType(field.jsonName)
    // Go writes maps in the order of their keys.
    const keys = Object.keys(value).sort()
    for (let i = keys.length - 1; i >= 0; i--) {
      const end = this.out.length
      this.#single(value[keys[i]!]!, field, 2)
      this.#text(1, keys[i]!)
      this.out.head(field.number, end)
    }
  }

  #empty(field: Field): void {
    switch (field.type) {
      case 'message': {
        const message = this.schema.message(field.messageName)
        const end = this.out.length
        if (message?.form === 'object') this.message(NOTHING, message)
        return this.out.head(field.number, end)
      }
      case 'bytes':
        return
      case 'string':
      case 'enum':
      case 'quantity':
      case 'json':
      case 'time':
      case 'microtime':
        return this.out.head(field.number, this.out.length)
      case 'duration':
        return this.#single('0s', field)
      case 'bool':
        return this.#single(false, field)
      default:
        return this.#single(0, field)
    }
  }

  /** Writes one value: an item of a list, a value of a map, or the member itself. */
  #single(value: Json, field: Field, number = field.number): void {
    const { out } = this
    const end = out.length
    switch (field.type) {
      case 'message': {
        const message = this.schema.message(field.messageName)
        if (message === undefined) throw wrongType(field.messageName)
        if (value !== null) this.message(value, message)
        return out.head(number, end)
      }
      case 'string':
      case 'enum':
        return this.#text(number, textOf(value, field))
      case 'bytes':
        out.bytes(Buffer.from(textOf(value, field), 'base64'))
        return out.head(number, end)
      case 'bool':
        if (typeof value !== 'boolean') throw wrongType(field.jsonName)
        return this.#integer(number, value ? 1 : 0)
      case 'double': {
        const bytes = Buffer.alloc(8)
        bytes.writeDoubleLE(Number(numberOf(value, field)))
        out.bytes(bytes)
        return out.tag(number, FIXED64)
      }
      case 'int32':
      case 'int64':
      case 'uint32':
      case 'uint64':
        return this.#integer(number, integerOf(value, field))
      case 'time':
      case 'microtime':
        if (value !== null) this.#time(textOf(value, field))
        return out.head(number, end)
      case 'quantity':
        this.#text(1, isNumber(value) ? String(value) : textOf(value, field))
        return out.head(number, end)
      case 'intorstring': {
        const isText = typeof value === 'string'
        this.#text(3, isText ? value : '')
        this.#integer(2, isText ? 0 : integerOf(value, field))
        this.#integer(1, isText ? 1 : 0)
        return out.head(number, end)
      }
      case 'duration':
        this.#integer(1, nanoseconds(textOf(value, field)))
        return out.head(number, end)
      case 'json':
        this.#text(1, jsonText(value))
        return out.head(number, end)
      default:
        throw new CodecError('malformed', `no field of Kubernetes has the type ${field.type}`, 0)
    }
  }

  #text(number: number, text: string): void {
    const end = this.out.length
    this.out.text(text)
    this.out.head(number, end)
  }

  #integer(number: number, value: number | bigint): void {
    if (typeof value === 'number') this.out.varint(value)
    else this.out.longVarint(value)
    this.out.tag(number, VARINT)
  }

  #time(text: string): void {
    const milliseconds = Date.parse(text)
    if (Number.isNaN(milliseconds)) throw new CodecError('malformed', `${text} is not a time`, 0)
    const fraction = /[.,](\d+)/.exec(text)?.[1] ?? ''
    this.#integer(2, Number(fraction.slice(0, 9).padEnd(9, '0')))
    this.#integer(1, BigInt(Math.floor(milliseconds / 1_000)))
  }
}

/** Reads a duration as Go writes it: `1h2m3.5s`. */
function nanoseconds(text: string): bigint {
  let sum = 0
  for (const [, amount, unit] of text.matchAll(/(\d+(?:\.\d+)?)(ns|us|\u00b5s|ms|s|m|h)/g))
    sum += Number(amount) * NANOSECONDS[unit!]!
  return BigInt(Math.round(text.startsWith('-') ? -sum : sum))
}

function textOf(value: Json, { jsonName }: Field): string {
  if (value === null) return ''
  if (typeof value !== 'string') throw wrongType(jsonName)
  return value
}

function numberOf(value: Json, { jsonName }: Field): string {
  if (!isNumber(value)) throw wrongType(jsonName)
  return String(value)
}

function integerOf(value: Json, field: Field): number | bigint {
  if (typeof value === 'number' && value >= 0 && Number.isSafeInteger(value)) return value
  const text = numberOf(value, field)
  if (!/^-?\d{1,20}$/.test(text)) throw wrongType(field.jsonName)
  return BigInt(text)
}

function wrongType(name: string): CodecError {
  return new CodecError('wire-type', `${name} has another type in JSON`, 0)
}
