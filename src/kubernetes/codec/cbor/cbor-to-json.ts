/**
 * Turns a custom resource that an API server stored as CBOR into the JSON that it serves. The bytes come from other
 * programs, so depth and size are limited. Integers keep all their digits. Members are sorted by name, and numbers
 * and strings are spelled as Go's JSON encoder spells those of a map.
 *
 * Source: k8s.io/apimachinery 0.37, pkg/runtime/serializer/cbor/internal/modes, which writes strings as byte strings.
 * Like its decoder, this one refuses repeated keys, NaN, infinities, big numbers, and simple values other than
 * booleans and null. Its encoder writes neither time tags nor strings of indefinite length, so this decoder refuses
 * those as well.
 */
import { isUtf8 } from 'node:buffer'
import { type Token, Tokenizer, Type } from 'cborg'
import { escapedForPages } from '../json-tree.js'
import { CodecError } from '../protobuf/codec-error.js'
import { JsonWriter } from '../protobuf/json-writer.js'
import { CLOSE_BRACE, CLOSE_BRACKET, COMMA, OPEN_BRACE, OPEN_BRACKET } from '../../../support/json-walk.js'
import { MAX_JSON_DEPTH } from '../../model/limits.js'

/** The tag of self-described CBOR (RFC 8949, 3.4.6), with which API servers begin all their CBOR. */
export const CBOR_MAGIC = Buffer.from([0xd9, 0xd9, 0xf7])

/** Tags that request a text encoding for a byte string (RFC 8949, 3.4.5.2). */
const SHOWN_AS: ReadonlyMap<number | bigint, BufferEncoding> = new Map([
  [21, 'base64url'],
  [22, 'base64'],
  [23, 'hex'],
])
const TIME_TEXT = 0
const BIG_NEGATIVE = 3
const MAX_INT64 = 2n ** 63n - 1n
const MIN_INT64 = -(2n ** 63n)

const COLON = 0x3a

/** Only one value is read at a time, so its buffer is reused. */
const writer = new JsonWriter()

/** @throws CodecError */
export function cborToJson(cbor: Buffer): Buffer {
  writer.reset()
  new Reader(cbor).whole()
  const json = writer.copy()
  const isSafe = ['<', '>', '&', '\u2028', '\u2029'].every((sign) => !json.includes(sign))
  return isSafe ? json : Buffer.from(escapedForPages(json.toString()), 'utf8')
}

interface Member {
  readonly key: Uint8Array
  /** Offsets in the JSON: where the member's text begins, and the end of its comma. */
  readonly start: number
  readonly end: number
}

class Reader {
  readonly #tokens: Tokenizer
  readonly #cbor: Buffer

  constructor(cbor: Buffer) {
    this.#cbor = cbor
    this.#tokens = new Tokenizer(cbor, { retainStringBytes: true, allowBigInt: true })
  }

  /** Writes everything that is read. @throws CodecError also when more bytes follow. */
  whole(): void {
    this.#valueOf(this.#next(), 0)
    if (!this.#tokens.done()) throw this.#fault('more data follows its end')
  }

  #valueOf(first: Token, depth: number): void {
    let token = first
    let shownAs: BufferEncoding | undefined
    let level = depth
    while (token.type === Type.tag) {
      const tag = token.value as number | bigint
      if (tag >= TIME_TEXT && tag <= BIG_NEGATIVE)
        throw this.#fault(`tag ${tag} is not one that API servers write`, 'unsupported')
      shownAs = SHOWN_AS.get(tag)
      this.#checkDepth(++level)
      token = this.#next()
    }
    switch (token.type) {
      case Type.map:
        return this.#map(token, level + 1)
      case Type.array:
        return this.#array(token, level + 1)
      case Type.bytes:
        if (shownAs !== undefined) return writer.ascii(`"${Buffer.from(bytesOf(token)).toString(shownAs)}"`)
        return this.#string(bytesOf(token))
      case Type.string:
        return this.#string(this.#textOf(token))
      case Type.uint:
      case Type.negint:
        return writer.ascii(this.#integer(token.value as number | bigint))
      case Type.float:
        return writer.ascii(this.#float(token.value as number))
      case Type.true:
        return writer.ascii('true')
      case Type.false:
        return writer.ascii('false')
      case Type.null:
        return writer.ascii('null')
      default:
        throw this.#fault(`${token.type.name} is not a JSON value`)
    }
  }

  #map({ value: length }: Token, depth: number): void {
    this.#checkDepth(depth)
    writer.byte(OPEN_BRACE)
    const open = writer.length
    const members: Member[] = []
    let isSorted = true
    for (let i = 0; i < length; i++) {
      const token = this.#next()
      if (token.type === Type.break && length === Infinity) break
      if (token.type !== Type.bytes && token.type !== Type.string)
        throw this.#fault(`${token.type.name} cannot be the key of an object`)
      const key = token.type === Type.bytes ? bytesOf(token) : this.#textOf(token)
      const start = writer.length
      this.#string(key)
      writer.byte(COLON)
      this.#valueOf(this.#next(), depth)
      writer.byte(COMMA)
      const last = members.at(-1)
      if (last !== undefined && compareBytes(last.key, key) >= 0) isSorted = false
      members.push({ key, start, end: writer.length })
    }
    if (!isSorted) this.#sort(members)
    writer.close(open, CLOSE_BRACE)
  }

  /** Sorts the members just written by the bytes of their keys, as Go does. */
  #sort(members: Member[]): void {
    const origin = members[0]!.start
    members.sort((a, b) => compareBytes(a.key, b.key))
    const repeated = members.find(({ key }, i) => i > 0 && compareBytes(members[i - 1]!.key, key) === 0)
    if (repeated !== undefined)
      throw this.#fault(`the key ${JSON.stringify(Buffer.from(repeated.key).toString('utf8', 0, 64))} is repeated`)
    const written = Uint8Array.prototype.slice.call(writer.bytes, origin, writer.length)
    let at = origin
    for (const { start, end } of members) {
      for (let i = start - origin; i < end - origin; i++) writer.bytes[at++] = written[i]!
    }
  }

  #array({ value: length }: Token, depth: number): void {
    this.#checkDepth(depth)
    writer.byte(OPEN_BRACKET)
    const open = writer.length
    for (let i = 0; i < length; i++) {
      const token = this.#next()
      if (token.type === Type.break && length === Infinity) break
      this.#valueOf(token, depth)
      writer.byte(COMMA)
    }
    writer.close(open, CLOSE_BRACKET)
  }

  #next(): Token {
    if (this.#tokens.done()) throw this.#fault('it ends before its value does', 'truncated')
    try {
      return this.#tokens.next()
    } catch (error) {
      throw this.#fault(error instanceof Error ? error.message : String(error))
    }
  }

  #textOf(token: Token): Uint8Array {
    // A token without bytes is an empty text string.
    const bytes = token.byteValue ?? NOTHING
    if (!isUtf8(bytes)) throw this.#fault('a text string is not UTF-8')
    return bytes
  }

  #integer(value: number | bigint): string {
    if (value > MAX_INT64 || value < MIN_INT64) throw this.#fault(`the integer ${value} has more than 64 bits`)
    return String(value)
  }

  #float(value: number): string {
    if (!Number.isFinite(value)) throw this.#fault(`${value} is not a JSON number`)
    return Object.is(value, -0) ? '-0' : String(value)
  }

  /** @param bytes those of the token that was read last. */
  #string(bytes: Uint8Array): void {
    const end = this.#tokens.pos()
    writer.string(this.#cbor, end - bytes.length, end)
  }

  #checkDepth(depth: number): void {
    if (depth > MAX_JSON_DEPTH) throw this.#fault(`it is nested more than ${MAX_JSON_DEPTH} deep`, 'too-deep')
  }

  #fault(message: string, code: CodecError['code'] = 'malformed'): CodecError {
    return new CodecError(code, message, Math.min(this.#tokens.pos(), this.#cbor.length))
  }
}

const NOTHING = new Uint8Array(0)

/** Compares like `Buffer.compare`, which takes longer for the few bytes of a key. */
function compareBytes(a: Uint8Array, b: Uint8Array): number {
  const length = Math.min(a.length, b.length)
  for (let i = 0; i < length; i++) if (a[i] !== b[i]) return a[i]! - b[i]!
  return a.length - b.length
}

function bytesOf(token: Token): Uint8Array {
  return token.value as Uint8Array
}
