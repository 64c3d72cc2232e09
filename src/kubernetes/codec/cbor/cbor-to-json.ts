/**
 * Turns a custom resource that an API server stored as CBOR into the JSON that it serves. The bytes are the work of
 * others, so depth and size are limited. Integers keep all their digits; members are in the order of their names, and
 * numbers and strings are spelled as in Go's JSON, where all members of a Go map are.
 *
 * Source: k8s.io/apimachinery 0.37, pkg/runtime/serializer/cbor/internal/modes. Strings are byte strings there. What that
 * decoder refuses is refused here: repeated keys, NaN, infinities, big numbers, other simple values. Its encoder writes
 * neither time tags nor strings of indefinite length, so they are refused as well.
 */
import { isUtf8 } from 'node:buffer'
import { type Token, Tokenizer, Type } from 'cborg'
import { MAX_JSON_DEPTH } from '../json-scan.js'
import { CodecError } from '../protobuf/codec-error.js'

/** The tag of self-described CBOR (RFC 8949, 3.4.6), with which API servers begin all their CBOR. */
export const CBOR_MAGIC = Buffer.from([0xd9, 0xd9, 0xf7])

/** The tags of byte strings that are shown in a text encoding (RFC 8949, 3.4.5.2). */
const SHOWN_AS: ReadonlyMap<number | bigint, BufferEncoding> = new Map([
  [21, 'base64url'],
  [22, 'base64'],
  [23, 'hex'],
])
const TIME_TEXT = 0
const BIG_NEGATIVE = 3
const MAX_INT64 = 2n ** 63n - 1n
const MIN_INT64 = -(2n ** 63n)

/** @param maxBytes the size of the JSON above which it is refused. @throws CodecError */
export function cborToJson(cbor: Buffer, maxBytes: number): Buffer {
  const reader = new Reader(cbor, maxBytes)
  const text = reader.value(0)
  reader.end()
  return Buffer.from(text)
}

class Reader {
  readonly #tokens: Tokenizer
  readonly #cbor: Buffer
  #bytesLeft: number

  constructor(cbor: Buffer, maxBytes: number) {
    this.#cbor = cbor
    this.#bytesLeft = maxBytes
    this.#tokens = new Tokenizer(cbor, { retainStringBytes: true, allowBigInt: true })
  }

  value(depth: number): string {
    return this.#valueOf(this.#next(), depth)
  }

  /** @throws CodecError when anything follows. */
  end(): void {
    if (!this.#tokens.done()) throw this.#fault('there is more after its end')
  }

  #valueOf(first: Token, depth: number): string {
    let token = first
    let shownAs: BufferEncoding | undefined
    let level = depth
    while (token.type === Type.tag) {
      const tag = token.value as number | bigint
      if (tag >= TIME_TEXT && tag <= BIG_NEGATIVE)
        throw this.#fault(`tag ${tag} is not among those of API servers`, 'unsupported')
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
      case Type.string:
        return this.#counted(goString(this.#textOf(token, shownAs)))
      case Type.uint:
      case Type.negint:
        return this.#counted(this.#integer(token.value as number | bigint))
      case Type.float:
        return this.#counted(this.#float(token.value as number))
      case Type.true:
        return this.#counted('true')
      case Type.false:
        return this.#counted('false')
      case Type.null:
        return this.#counted('null')
      default:
        throw this.#fault(`${token.type.name} is no JSON value`)
    }
  }

  #map({ value: length }: Token, depth: number): string {
    this.#checkDepth(depth)
    const members: [key: string, text: string][] = []
    for (let i = 0; i < length; i++) {
      const token = this.#next()
      if (token.type === Type.break && length === Infinity) break
      if (token.type !== Type.bytes && token.type !== Type.string)
        throw this.#fault(`${token.type.name} is no key of an object`)
      const key = this.#textOf(token)
      const name = this.#counted(`${goString(key)}:`)
      members.push([key, name + this.value(depth)])
    }
    members.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
    const repeated = members.find(([key], index) => index > 0 && members[index - 1]![0] === key)
    if (repeated !== undefined) throw this.#fault(`the key ${JSON.stringify(repeated[0].slice(0, 64))} is repeated`)
    this.#count(members.length + 2)
    return `{${members.map(([, text]) => text).join()}}`
  }

  #array({ value: length }: Token, depth: number): string {
    this.#checkDepth(depth)
    const items: string[] = []
    for (let i = 0; i < length; i++) {
      const token = this.#next()
      if (token.type === Type.break && length === Infinity) break
      items.push(this.#valueOf(token, depth))
    }
    this.#count(items.length + 2)
    return `[${items.join()}]`
  }

  #next(): Token {
    if (this.#tokens.done()) throw this.#fault('it ends within a value', 'truncated')
    try {
      return this.#tokens.next()
    } catch (error) {
      throw this.#fault(error instanceof Error ? error.message : String(error))
    }
  }

  #textOf(token: Token, shownAs?: BufferEncoding): string {
    const isBytes = token.type === Type.bytes
    // An empty text string has no bytes of its own.
    const { buffer, byteOffset, length } = (isBytes ? (token.value as Uint8Array) : token.byteValue) ?? NOTHING
    const bytes = Buffer.from(buffer, byteOffset, length)
    if (isBytes && shownAs !== undefined) return bytes.toString(shownAs)
    if (isUtf8(bytes)) return bytes.toString('utf8')
    if (!isBytes) throw this.#fault('a text string is not UTF-8')
    return goText(bytes)
  }

  #integer(value: number | bigint): string {
    if (value > MAX_INT64 || value < MIN_INT64) throw this.#fault(`the integer ${value} has more than 64 bits`)
    return String(value)
  }

  #float(value: number): string {
    if (!Number.isFinite(value)) throw this.#fault(`${value} is no JSON number`)
    return Object.is(value, -0) ? '-0' : String(value)
  }

  #counted(text: string): string {
    this.#count(text.length)
    return text
  }

  #count(bytes: number): void {
    this.#bytesLeft -= bytes
    if (this.#bytesLeft < 0) throw this.#fault('its JSON is too large', 'too-large')
  }

  #checkDepth(depth: number): void {
    if (depth > MAX_JSON_DEPTH) throw this.#fault(`it is nested more than ${MAX_JSON_DEPTH} deep`, 'too-deep')
  }

  #fault(message: string, code: CodecError['code'] = 'malformed'): CodecError {
    return new CodecError(code, message, Math.min(this.#tokens.pos(), this.#cbor.length))
  }
}

const NOTHING = new Uint8Array(0)

/** Spells a string as Go's JSON does, which pages may embed. */
function goString(text: string): string {
  return JSON.stringify(text).replaceAll(
    /[<>&\u2028\u2029]/g,
    (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/** Replaces each byte that is not UTF-8, as Go does; decoders for the web replace several at once. */
function goText(bytes: Buffer): string {
  let text = ''
  for (let at = 0; at < bytes.length;) {
    const first = bytes[at]!
    const length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4
    const sign = bytes.subarray(at, at + length)
    const isSign = sign.length === length && isUtf8(sign)
    text += isSign ? sign.toString('utf8') : '\ufffd'
    at += isSign ? length : 1
  }
  return text
}
