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
import { CodecError } from '../protobuf/codec-error.js'
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

/** @param maxBytes the limit on the size of the JSON. @throws CodecError */
export function cborToJson(cbor: Buffer, maxBytes: number): Buffer {
  const reader = new Reader(cbor, maxBytes)
  reader.value(0)
  return reader.end()
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
  readonly #maxBytes: number
  #json: Buffer
  #length = 0

  constructor(cbor: Buffer, maxBytes: number) {
    this.#cbor = cbor
    this.#maxBytes = maxBytes
    this.#json = Buffer.allocUnsafe(2 * cbor.length + 64)
    this.#tokens = new Tokenizer(cbor, { retainStringBytes: true, allowBigInt: true })
  }

  value(depth: number): void {
    this.#valueOf(this.#next(), depth)
  }

  /** @returns the JSON of everything read. @throws CodecError when more bytes follow. */
  end(): Buffer {
    if (!this.#tokens.done()) throw this.#fault('more data follows its end')
    return this.#json.subarray(0, this.#length)
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
        if (shownAs !== undefined) return this.#ascii(`"${Buffer.from(bytesOf(token)).toString(shownAs)}"`)
        return this.#string(bytesOf(token))
      case Type.string:
        return this.#string(this.#textOf(token))
      case Type.uint:
      case Type.negint:
        return this.#ascii(this.#integer(token.value as number | bigint))
      case Type.float:
        return this.#ascii(this.#float(token.value as number))
      case Type.true:
        return this.#ascii('true')
      case Type.false:
        return this.#ascii('false')
      case Type.null:
        return this.#ascii('null')
      default:
        throw this.#fault(`${token.type.name} is not a JSON value`)
    }
  }

  #map({ value: length }: Token, depth: number): void {
    this.#checkDepth(depth)
    this.#ascii('{')
    const members: Member[] = []
    let isSorted = true
    for (let i = 0; i < length; i++) {
      const token = this.#next()
      if (token.type === Type.break && length === Infinity) break
      if (token.type !== Type.bytes && token.type !== Type.string)
        throw this.#fault(`${token.type.name} cannot be the key of an object`)
      const key = token.type === Type.bytes ? bytesOf(token) : this.#textOf(token)
      const start = this.#length
      this.#string(key)
      this.#ascii(':')
      this.value(depth)
      this.#ascii(',')
      const last = members.at(-1)
      if (last !== undefined && compareBytes(last.key, key) >= 0) isSorted = false
      members.push({ key, start, end: this.#length })
    }
    if (!isSorted) this.#sort(members)
    this.#close(members.length, '}')
  }

  /** Sorts the members just written by the bytes of their keys, as Go does. */
  #sort(members: Member[]): void {
    const origin = members[0]!.start
    members.sort((a, b) => compareBytes(a.key, b.key))
    const repeated = members.find(({ key }, i) => i > 0 && compareBytes(members[i - 1]!.key, key) === 0)
    if (repeated !== undefined)
      throw this.#fault(`the key ${JSON.stringify(Buffer.from(repeated.key).toString('utf8', 0, 64))} is repeated`)
    const written = Uint8Array.prototype.slice.call(this.#json, origin, this.#length)
    let at = origin
    for (const { start, end } of members) {
      for (let i = start - origin; i < end - origin; i++) this.#json[at++] = written[i]!
    }
  }

  #array({ value: length }: Token, depth: number): void {
    this.#checkDepth(depth)
    this.#ascii('[')
    let count = 0
    for (; count < length; count++) {
      const token = this.#next()
      if (token.type === Type.break && length === Infinity) break
      this.#valueOf(token, depth)
      this.#ascii(',')
    }
    this.#close(count, ']')
  }

  /** Closes a list or an object. The bracket overwrites the last comma. */
  #close(count: number, bracket: string): void {
    if (count > 0) this.#length--
    this.#ascii(bracket)
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

  #ascii(text: string): void {
    this.#ensure(text.length)
    for (let i = 0; i < text.length; i++) this.#json[this.#length++] = text.charCodeAt(i)
  }

  /** Writes a string as Go's JSON encoder does, with the escapes that let web pages embed it. */
  #string(bytes: Uint8Array): void {
    const text = isUtf8(bytes) ? bytes : goText(bytes)
    this.#ensure(text.length + 2)
    this.#json[this.#length++] = QUOTE
    for (let i = 0; i < text.length; i++) {
      const byte = text[i]!
      const isSeparator = byte === 0xe2 && text[i + 1] === 0x80 && (text[i + 2]! & 0xfe) === 0xa8
      const escape = isSeparator ? SEPARATORS[text[i + 2]! & 1] : ESCAPES[byte]
      if (escape === undefined) this.#json[this.#length++] = byte
      else {
        this.#ascii(escape)
        if (isSeparator) i += 2
        this.#ensure(text.length - i)
      }
    }
    this.#json[this.#length++] = QUOTE
  }

  #ensure(more: number): void {
    const needed = this.#length + more
    if (needed > this.#maxBytes) throw this.#fault('its JSON is too large', 'too-large')
    if (needed <= this.#json.length) return
    const grown = Buffer.allocUnsafe(Math.max(2 * this.#json.length, needed))
    this.#json.copy(grown, 0, 0, this.#length)
    this.#json = grown
  }

  #checkDepth(depth: number): void {
    if (depth > MAX_JSON_DEPTH) throw this.#fault(`it is nested more than ${MAX_JSON_DEPTH} deep`, 'too-deep')
  }

  #fault(message: string, code: CodecError['code'] = 'malformed'): CodecError {
    return new CodecError(code, message, Math.min(this.#tokens.pos(), this.#cbor.length))
  }
}

const NOTHING = new Uint8Array(0)
const QUOTE = 0x22

/** The escape sequence of each byte in a string; undefined for bytes that are written unchanged. */
const ESCAPES: readonly (string | undefined)[] = Array.from({ length: 256 }, (_, byte) => {
  const sign = String.fromCharCode(byte)
  if ('<>&'.includes(sign)) return `\\u00${byte.toString(16)}`
  return byte < 0x20 || sign === '"' || sign === '\\' ? JSON.stringify(sign).slice(1, -1) : undefined
})
/** The two line separators of Unicode. They differ only in their last bit. */
const SEPARATORS = ['\\u2028', '\\u2029']

/** Compares like `Buffer.compare`, which takes longer for the few bytes of a key. */
function compareBytes(a: Uint8Array, b: Uint8Array): number {
  const length = Math.min(a.length, b.length)
  for (let i = 0; i < length; i++) if (a[i] !== b[i]) return a[i]! - b[i]!
  return a.length - b.length
}

function bytesOf(token: Token): Uint8Array {
  return token.value as Uint8Array
}

/** Replaces each byte that is not UTF-8 with U+FFFD, as Go does. Web decoders replace several at once. */
function goText(bytes: Uint8Array): Uint8Array {
  const text = Buffer.allocUnsafe(3 * bytes.length)
  let length = 0
  for (let at = 0; at < bytes.length;) {
    const size = sizeOfSign(bytes, at)
    if (size === 0) {
      text[length++] = 0xef
      text[length++] = 0xbf
      text[length++] = 0xbd
      at++
    }
    for (const end = at + size; at < end; at++) text[length++] = bytes[at]!
  }
  return text.subarray(0, length)
}

/** @returns the number of bytes of the UTF-8 character that begins at `at`; 0 if none does (RFC 3629, 4). */
function sizeOfSign(bytes: Uint8Array, at: number): number {
  const first = bytes[at]!
  if (first < 0x80) return 1
  if (first < 0xc2 || first > 0xf4) return 0
  const second = bytes[at + 1] ?? 0
  const lowest = first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80
  const highest = first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf
  if (second < lowest || second > highest) return 0
  const size = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4
  for (let i = 2; i < size; i++) if (((bytes[at + i] ?? 0) & 0xc0) !== 0x80) return 0
  return size
}
