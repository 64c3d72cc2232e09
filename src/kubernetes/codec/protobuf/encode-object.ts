/**
 * Encodes a whole object from JSON, for clients that read only protobuf: an object that is stored as JSON, or the answer
 * to a write.
 *
 * It uses the same table as the decoder. Members missing from the table are dropped, as in Go.
 */
import { isNumber, isRecord, type Json, type JsonRecord, jsonText, textMember } from '../json-tree.js'
import { CodecError } from './codec-error.js'
import { encodeEnvelope } from './resource-version.js'
import type { Field, Message, Schema } from './schema.js'
import { FIXED64, LENGTH, VARINT, varintLength, writeVarint } from './wire.js'

/** The units of durations in Go. */
const NANOSECONDS: Readonly<Record<string, number>> = { ns: 1, us: 1e3, µs: 1e3, ms: 1e6, s: 1e9, m: 6e10, h: 3.6e12 }

/**
 * Returns the object in its envelope; null for a kind missing from the table.
 * @throws CodecError when a member has another type than the table says.
 */
export function encodeObject(object: JsonRecord, schema: Schema): Buffer | null {
  const apiVersion = textMember(object, 'apiVersion')
  const kind = textMember(object, 'kind')
  const message = schema.messageOfKind(apiVersion, kind)
  if (message === undefined) return null
  const bytes = messageBytes(object, message, schema)
  return encodeEnvelope(apiVersion, kind, bytes.length, (out, offset) => offset + bytes.copy(out, offset))
}

function messageBytes(value: Json, message: Message, schema: Schema): Buffer {
  const [first, second] = message.fields
  if (message.form === 'items') return fieldBytes({ [first!.jsonName]: value }, first!, schema)
  if (message.form === 'either') return eitherBytes(value, first!, second!, schema)
  if (!isRecord(value)) throw wrongType(message.fullName)
  return Buffer.concat(message.fields.map((field) => fieldBytes(value, field, schema)))
}

/** JSONSchemaPropsOrArray, …OrBool and …OrStringArray: the second field if the JSON has its type. */
function eitherBytes(value: Json, first: Field, second: Field, schema: Schema): Buffer {
  if (second.label === 'repeated' ? !Array.isArray(value) : typeof value === 'boolean')
    return single(value, first, schema)
  if (second.label === 'repeated') return fieldBytes({ [second.jsonName]: value }, second, schema)
  return Buffer.concat([first.type === 'bool' ? single(true, first, schema) : EMPTY, single(value, second, schema)])
}

function fieldBytes(holder: JsonRecord, field: Field, schema: Schema): Buffer {
  // An inlined message has its members in its parent.
  if (field.jsonName === '') return single(holder, field, schema)
  const value = holder[field.jsonName]
  if (field.label === 'repeated') {
    if (value === undefined || value === null) return EMPTY
    if (!Array.isArray(value)) throw wrongType(field.jsonName)
    return Buffer.concat(value.map((item) => single(item, field, schema)))
  }
  if (field.label === 'map') {
    if (value === undefined || value === null) return EMPTY
    if (!isRecord(value)) throw wrongType(field.jsonName)
    // Go writes maps in the order of their keys.
    const keys = Object.keys(value).sort()
    return Buffer.concat(keys.map((key) => entry(field, key, value[key]!, schema)))
  }
  if (value === undefined || value === null) return field.label === 'pointer' ? EMPTY : zero(field, schema)
  return single(value, field, schema)
}

function entry(field: Field, key: string, value: Json, schema: Schema): Buffer {
  const bytes = single(value, { ...field, number: 2 }, schema)
  const length = lengthOfText(1, key) + bytes.length
  const out = Buffer.allocUnsafe(lengthOfHead(field.number, length) + length)
  const start = writeText(out, writeHead(out, 0, field.number, length), 1, key)
  bytes.copy(out, start)
  return out
}

/** Go writes members that are not pointers even if empty. */
function zero(field: Field, schema: Schema): Buffer {
  const { number, type } = field
  switch (type) {
    case 'message': {
      const message = schema.message(field.messageName)
      if (message === undefined || message.form !== 'object') return lengthDelimited(number, EMPTY)
      return lengthDelimited(number, messageBytes({}, message, schema))
    }
    case 'string':
    case 'enum':
      return lengthDelimited(number, EMPTY)
    case 'bytes':
      return EMPTY
    case 'quantity':
    case 'json':
    case 'time':
    case 'microtime':
      return lengthDelimited(number, EMPTY)
    case 'intorstring':
      return single(0, field, schema)
    case 'duration':
      return single('0s', field, schema)
    case 'bool':
      return single(false, field, schema)
    default:
      return single(0, field, schema)
  }
}

/** Writes one value: an item of a list, a value of a map, or the member itself. */
function single(value: Json, field: Field, schema: Schema): Buffer {
  const { number, type } = field
  switch (type) {
    case 'message': {
      const message = schema.message(field.messageName)
      if (message === undefined) throw wrongType(field.messageName)
      return lengthDelimited(number, value === null ? EMPTY : messageBytes(value, message, schema))
    }
    case 'string':
    case 'enum':
      return textBytes(number, textOf(value, field))
    case 'bytes':
      return lengthDelimited(number, Buffer.from(textOf(value, field), 'base64'))
    case 'bool':
      if (typeof value !== 'boolean') throw wrongType(field.jsonName)
      return varint(number, value ? 1n : 0n)
    case 'double': {
      const out = Buffer.alloc(8)
      out.writeDoubleLE(Number(numberOf(value, field)))
      return Buffer.concat([tag(number, FIXED64), out])
    }
    case 'int32':
    case 'int64':
    case 'uint32':
    case 'uint64':
      return varint(number, integerOf(value, field))
    case 'time':
    case 'microtime':
      return lengthDelimited(number, value === null ? EMPTY : timestamp(textOf(value, field)))
    case 'quantity':
      return lengthDelimited(
        number,
        lengthDelimited(1, Buffer.from(isNumber(value) ? String(value) : textOf(value, field))),
      )
    case 'intorstring': {
      const isText = typeof value === 'string'
      const parts = [varint(1, isText ? 1n : 0n), varint(2, isText ? 0n : integerOf(value, field))]
      return lengthDelimited(number, Buffer.concat([...parts, lengthDelimited(3, Buffer.from(isText ? value : ''))]))
    }
    case 'duration':
      return lengthDelimited(number, varint(1, nanoseconds(textOf(value, field))))
    case 'json':
      return lengthDelimited(number, lengthDelimited(1, Buffer.from(jsonText(value))))
    default:
      throw new CodecError('malformed', `no field of Kubernetes has the type ${type}`, 0)
  }
}

const EMPTY = Buffer.alloc(0)

function timestamp(text: string): Buffer {
  const milliseconds = Date.parse(text)
  if (Number.isNaN(milliseconds)) throw new CodecError('malformed', `${text} is not a time`, 0)
  const fraction = /[.,](\d+)/.exec(text)?.[1] ?? ''
  const nanos = BigInt(fraction.slice(0, 9).padEnd(9, '0'))
  return Buffer.concat([varint(1, BigInt(Math.floor(milliseconds / 1_000))), varint(2, nanos)])
}

/** Reads a duration as Go writes it: `1h2m3.5s`. */
function nanoseconds(text: string): bigint {
  let sum = 0
  for (const [, amount, unit] of text.matchAll(/(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)/g))
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

function integerOf(value: Json, field: Field): bigint {
  const text = numberOf(value, field)
  if (!/^-?\d{1,20}$/.test(text)) throw wrongType(field.jsonName)
  return BigInt(text)
}

function wrongType(name: string): CodecError {
  return new CodecError('wire-type', `${name} has another type in JSON`, 0)
}

function tag(number: number, wireType: number): Buffer {
  return bareVarint(BigInt(number * 8 + wireType))
}

function varint(number: number, value: bigint): Buffer {
  return Buffer.concat([tag(number, VARINT), bareVarint(BigInt.asUintN(64, value))])
}

function lengthDelimited(number: number, bytes: Buffer): Buffer {
  const out = Buffer.allocUnsafe(lengthOfHead(number, bytes.length) + bytes.length)
  bytes.copy(out, writeHead(out, 0, number, bytes.length))
  return out
}

function textBytes(number: number, text: string): Buffer {
  const out = Buffer.allocUnsafe(lengthOfText(number, text))
  writeText(out, 0, number, text)
  return out
}

function lengthOfText(number: number, text: string): number {
  const length = Buffer.byteLength(text)
  return lengthOfHead(number, length) + length
}

/** @returns the place after the text. */
function writeText(out: Buffer, at: number, number: number, text: string): number {
  const start = writeHead(out, at, number, Buffer.byteLength(text))
  return start + out.write(text, start)
}

/** The length of a field's tag and length. */
function lengthOfHead(number: number, length: number): number {
  return varintLength(number * 8 + LENGTH) + varintLength(length)
}

/** @returns the place after the tag and length of a field. */
function writeHead(out: Buffer, at: number, number: number, length: number): number {
  return writeVarint(length, out, writeVarint(number * 8 + LENGTH, out, at))
}

function bareVarint(value: bigint): Buffer {
  const bytes: number[] = []
  let rest = value
  while (rest > 0x7fn) {
    bytes.push(Number(rest & 0x7fn) | 0x80)
    rest >>= 7n
  }
  bytes.push(Number(rest))
  return Buffer.from(bytes)
}
