/**
 * Random objects of a schema in two forms: encoded by a plain encoder, and as the JSON that Go's rules give. The
 * decoder is compared with it, so it is written the simple way: trees of values, one rule after the other, sharing only
 * the schema with the decoder.
 */
import type { Field, Message, Schema } from '../../src/kubernetes/codec/protobuf/schema.js'

/** Uniform in [0, 1). */
export type RandomNumber = () => number

/** A small seeded generator: the same seed gives the same object on every machine. */
export function seededRandom(seed: number): RandomNumber {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

type Json = null | boolean | number | bigint | string | Json[] | Map<string, Json>

export interface Sample {
  readonly bytes: Buffer
  /** JSON text with sorted members, so that texts can be compared. */
  readonly json: string
}

interface Part {
  readonly bytes: Buffer
  readonly json: Json
  /** Whether the value is empty in Go's sense, for `omitempty`. */
  readonly isEmpty: boolean
}

const STRUCTS = new Set(['time', 'microtime', 'duration', 'quantity', 'intorstring', 'json', 'message'])

export function sampleObject(schema: Schema, apiVersion: string, kind: string, random: RandomNumber): Sample {
  const message = schema.messageOfKind(apiVersion, kind)!
  const body = sampleMessage(schema, message, random, 0)
  const json = body.json as Map<string, Json>
  if (message.isKind) {
    json.set('kind', kind)
    json.set('apiVersion', apiVersion)
  }
  const typeMeta = Buffer.concat([lengthDelimited(1, Buffer.from(apiVersion)), lengthDelimited(2, Buffer.from(kind))])
  const parts = [
    lengthDelimited(1, typeMeta),
    lengthDelimited(2, body.bytes),
    lengthDelimited(3, NONE),
    lengthDelimited(4, NONE),
  ]
  return { bytes: Buffer.concat([Buffer.from('k8s\0', 'latin1'), ...parts]), json: sortedText(json) }
}

const NONE = Buffer.alloc(0)

function sampleMessage(schema: Schema, message: Message, random: RandomNumber, depth: number): Part {
  const encoded: Buffer[] = []
  const members = new Map<string, Json>()
  const parts = new Map<Field, Part | null>()
  for (const field of message.fields) {
    // Deeper levels are sparser; otherwise objects would never end.
    const isThere = random() < (depth < 3 ? 0.7 : depth < 6 ? 0.35 : 0.05)
    const part = isThere ? sampleField(schema, field, random, depth) : null
    parts.set(field, part)
    if (part !== null) encoded.push(part.bytes)
    if (message.form === 'object') addMember(schema, members, field, part)
  }
  // Encoders need not keep the order of field numbers.
  if (random() < 0.3) encoded.reverse()
  const bytes = Buffer.concat(encoded)
  if (message.form === 'object') return { bytes, json: members, isEmpty: false }
  const last = message.fields.at(-1)!
  const chosen = parts.get(last) !== null ? last : message.fields[0]!
  const part = parts.get(chosen) ?? null
  const json =
    part?.json ?? (chosen.label === 'repeated' ? [] : chosen.label === 'pointer' ? null : zero(schema, chosen))
  return { bytes, json, isEmpty: bytes.length === 0 }
}

/** Go's rule for one member of a struct. */
function addMember(schema: Schema, members: Map<string, Json>, field: Field, part: Part | null): void {
  if (field.jsonName === '') {
    const inline = part?.json ?? (field.label === 'pointer' ? null : zero(schema, field))
    if (inline instanceof Map) for (const [name, value] of inline) members.set(name, value)
    return
  }
  const isStruct = STRUCTS.has(field.type)
  if (field.label === 'value') {
    const items = isStruct && field.type === 'message' && schema.message(field.messageName)!.form === 'items'
    if (items && (part === null || part.isEmpty)) {
      if (!field.isOmittedWhenEmpty) members.set(field.jsonName, null)
      return
    }
    if (part === null && !isStruct && field.type === 'bytes' && !field.isOmittedWhenEmpty) {
      members.set(field.jsonName, null)
      return
    }
    const isZero = field.isOmittedWhenZero && (part === null || part.json === null)
    const isEmpty = isZero || (!isStruct && (part === null || part.isEmpty))
    if (field.isOmittedWhenEmpty && isEmpty) return
    members.set(field.jsonName, part === null ? zero(schema, field) : part.json)
    return
  }
  if (part === null) {
    if (!field.isOmittedWhenEmpty) members.set(field.jsonName, null)
  } else members.set(field.jsonName, part.json)
}

/** Go's zero value. */
function zero(schema: Schema, field: Field): Json {
  switch (field.type) {
    case 'string':
      return ''
    case 'bool':
      return false
    case 'duration':
      return '0s'
    case 'quantity':
      return '0'
    case 'time':
    case 'microtime':
    case 'json':
    case 'bytes':
      return null
    case 'message':
      return zeroMessage(schema, schema.message(field.messageName)!)
    default:
      return 0
  }
}

function zeroMessage(schema: Schema, message: Message): Json {
  if (message.form === 'items') return []
  if (message.form === 'either') {
    const [first] = message.fields
    return first!.label === 'pointer' ? null : zero(schema, first!)
  }
  const members = new Map<string, Json>()
  for (const field of message.fields) addMember(schema, members, field, null)
  return members
}

function sampleField(schema: Schema, field: Field, random: RandomNumber, depth: number): Part {
  if (field.label === 'repeated') {
    const items = Array.from({ length: 1 + Math.floor(random() * 2) }, () => sampleValue(schema, field, random, depth))
    return {
      bytes: Buffer.concat(items.map((item) => tagged(field, item.bytes))),
      json: items.map((item) => item.json),
      isEmpty: false,
    }
  }
  if (field.label === 'map') {
    const json = new Map<string, Json>()
    const encoded: Buffer[] = []
    for (let count = 1 + Math.floor(random() * 3); count > 0; count--) {
      const key = sampleText(random)
      const value = sampleValue(schema, field, random, depth)
      encoded.push(
        lengthDelimited(
          field.number,
          Buffer.concat([lengthDelimited(1, Buffer.from(key)), tagged({ ...field, number: 2 }, value.bytes)]),
        ),
      )
      json.set(key, field.type === 'message' && value.isEmpty && isItems(schema, field) ? [] : value.json)
    }
    return { bytes: Buffer.concat(encoded), json, isEmpty: false }
  }
  const value = sampleValue(schema, field, random, depth)
  return { ...value, bytes: tagged(field, value.bytes) }
}

function isItems(schema: Schema, field: Field): boolean {
  return schema.message(field.messageName)!.form === 'items'
}

/** Returns the value without its tag, but with its length. */
function sampleValue(schema: Schema, field: Field, random: RandomNumber, depth: number): Part {
  const delimited = (content: Buffer, json: Json): Part => ({
    bytes: Buffer.concat([varint(BigInt(content.length)), content]),
    json,
    isEmpty: content.length === 0,
  })
  switch (field.type) {
    case 'string': {
      const text = sampleText(random)
      return delimited(Buffer.from(text), text)
    }
    case 'bytes': {
      const content = Buffer.from(Array.from({ length: Math.floor(random() * 6) }, () => Math.floor(random() * 256)))
      return delimited(content, content.toString('base64'))
    }
    case 'bool': {
      const value = random() < 0.5
      return { bytes: varint(value ? 1n : 0n), json: value, isEmpty: !value }
    }
    case 'int32': {
      const value = pick(random, [0n, 1n, -1n, 7n, 2_147_483_647n, -2_147_483_648n])
      return { bytes: varint(BigInt.asUintN(64, value)), json: value, isEmpty: value === 0n }
    }
    case 'int64': {
      const value = pick(random, [
        0n,
        1n,
        -1n,
        9_007_199_254_740_993n,
        9_223_372_036_854_775_807n,
        -9_223_372_036_854_775_808n,
      ])
      return { bytes: varint(BigInt.asUintN(64, value)), json: value, isEmpty: value === 0n }
    }
    case 'double': {
      const value = pick(random, [0, 0.5, -1e300, 1e-7])
      const bytes = Buffer.alloc(8)
      bytes.writeDoubleLE(value)
      return { bytes, json: value, isEmpty: value === 0 }
    }
    case 'time':
    case 'microtime': {
      const isNone = random() < 0.2
      const micros = field.type === 'microtime' ? Math.floor(random() * 1e6) : 0
      const seconds = Math.floor((random() - 0.3) * 4e9)
      const text = new Date(seconds * 1000).toISOString().slice(0, 19)
      const json = isNone ? null : `${text}${field.type === 'time' ? '' : `.${String(micros).padStart(6, '0')}`}Z`
      const content = Buffer.concat([
        Buffer.from([0x08]),
        varint(BigInt.asUintN(64, BigInt(seconds))),
        Buffer.from([0x10]),
        varint(BigInt(micros * 1000)),
      ])
      return delimited(isNone ? NONE : content, json)
    }
    case 'duration':
      return pick(random, [
        delimited(NONE, '0s'),
        delimited(Buffer.concat([Buffer.from([0x08]), varint(90_000_000_000n)]), '1m30s'),
        delimited(Buffer.concat([Buffer.from([0x08]), varint(1_500_000n)]), '1.5ms'),
      ])
    case 'quantity': {
      const text = pick(random, ['', '0', '100m', '1Gi'])
      return delimited(text === '' ? NONE : lengthDelimited(1, Buffer.from(text)), text === '' ? '0' : text)
    }
    case 'intorstring': {
      const isText = random() < 0.5
      const text = sampleText(random)
      const head = Buffer.from([0x08, isText ? 1 : 0, 0x10])
      const number = BigInt(Math.floor(random() * 70_000) - 1000)
      const content = Buffer.concat([head, varint(BigInt.asUintN(64, number)), lengthDelimited(3, Buffer.from(text))])
      return delimited(content, isText ? text : number)
    }
    case 'json': {
      const [text, json] = pick<[string, Json]>(random, [
        ['', null],
        ['null', null],
        ['{"a": [1, "x\\u0041 y"]}', new Map([['a', [1, 'xA y']]])],
        ['[ ]', []],
        ['"k8s"', 'k8s'],
      ])
      return delimited(text === '' ? NONE : lengthDelimited(1, Buffer.from(text)), json)
    }
    case 'message': {
      const part = sampleMessage(schema, schema.message(field.messageName)!, random, depth + 1)
      return { ...delimited(part.bytes, part.json), isEmpty: part.isEmpty }
    }
    default:
      throw new Error(`${field.type} is not a type of Kubernetes`)
  }
}

function sampleText(random: RandomNumber): string {
  return pick(random, [
    '',
    'a',
    'web-0',
    'with "quotes" and \\',
    'line\nbreak\u0001',
    'größe €',
    '😀',
    '<&>',
    '__proto__',
  ])
}

function pick<T>(random: RandomNumber, choices: readonly T[]): T {
  return choices[Math.floor(random() * choices.length)]!
}

export function varint(value: bigint): Buffer {
  const bytes: number[] = []
  let rest = value
  for (; rest >= 128n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128)
  bytes.push(Number(rest))
  return Buffer.from(bytes)
}

export function lengthDelimited(fieldNumber: number, content: Buffer): Buffer {
  return Buffer.concat([varint(BigInt((fieldNumber << 3) | 2)), varint(BigInt(content.length)), content])
}

function tagged(field: Pick<Field, 'number' | 'type'>, value: Buffer): Buffer {
  const wireType = field.type === 'double' ? 1 : ['bool', 'int32', 'int64'].includes(field.type) ? 0 : 2
  return Buffer.concat([varint(BigInt((field.number << 3) | wireType)), value])
}

/** Numbers unchanged to the last digit; members sorted. */
export function sortedText(value: Json): string {
  if (value instanceof Map) {
    const members = [...value].sort(([a], [b]) => (a < b ? -1 : 1))
    return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${sortedText(member)}`).join(',')}}`
  }
  if (Array.isArray(value)) return `[${value.map(sortedText).join(',')}]`
  return typeof value === 'bigint' ? String(value) : JSON.stringify(value)
}

/** Reformats JSON text with its members sorted and its numbers untouched. */
export function sortMembers(text: string): string {
  // Numbers become strings that look like no other string of a sample, so that none is rounded.
  const quoted = text.replace(/"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?/gi, (token) =>
    token.startsWith('"') ? token : `"\\u0000${token}"`,
  )
  const toMap = (value: unknown): Json => {
    if (Array.isArray(value)) return value.map(toMap)
    if (value === null || typeof value !== 'object') return value as Json
    return new Map(Object.entries(value).map(([name, member]) => [name, toMap(member)]))
  }
  return sortedText(toMap(JSON.parse(quoted))).replace(/"\\u0000([^"]*)"/g, '$1')
}
