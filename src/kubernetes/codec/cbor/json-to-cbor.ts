/**
 * Writes JSON as the CBOR of Kubernetes: strings and keys are byte strings, an integer of 64 bits is an integer, any
 * other number is a float in the smallest width that keeps its value. All lengths come first, and each document begins
 * with the tag of self-described CBOR.
 *
 * Source: k8s.io/apimachinery 0.37, pkg/runtime/serializer/cbor, and its case-sensitive JSON decoder that keeps integers.
 */
import { encode, Token, Type } from 'cborg'
import { endOfString, endOfValue } from '../../../support/json-walk.js'
import { MAX_JSON_DEPTH } from '../json-scan.js'
import { type Json, JsonNumber, parseJsonTree } from '../json-tree.js'
import { CBOR_MAGIC } from './cbor-to-json.js'

/** The levels that an answer adds around an object: a row of a Table is three deep. */
const MAX_DEPTH = MAX_JSON_DEPTH + 8
const MAX_INT64 = 2n ** 63n - 1n
const MIN_INT64 = -(2n ** 63n)

const UINT = 0
const NEGINT = 1
const BYTES = 2
const ARRAY = 4
const MAP = 5

/** @param json one JSON value. */
export function encodeCbor(json: Buffer): Buffer {
  const writer = new Writer(json.length + CBOR_MAGIC.length)
  writer.copy(CBOR_MAGIC)
  writer.value(parseJsonTree(json, MAX_DEPTH).value)
  return writer.written()
}

/** Writes an object with long lists in parts that are cut only between the items of its lists. */
export class CborWriter {
  readonly #members: Buffer[] = []
  #memberCount = 0
  #hasStarted = false
  /** The list that is being read. */
  #list: { readonly key: Buffer; readonly items: Buffer[]; count: number } | null = null;

  /** Takes another part; a step after each item. */
  *push(part: Buffer): Generator<void, void, void> {
    let at = this.#hasStarted ? 0 : 1
    this.#hasStarted = true
    const writer = new Writer(part.length)
    while (at < part.length) {
      const byte = part[at]
      if (byte === COMMA || byte === CLOSE_BRACE) at++
      else if (this.#list === null) at = this.#pushMember(part, at)
      else if (byte === CLOSE_BRACKET) {
        this.#list.items.push(writer.take())
        this.#endList(this.#list)
        at++
      } else {
        const end = endOfValue(part, at)
        writer.value(parseJsonTree(part.subarray(at, end), MAX_DEPTH).value)
        this.#list.count++
        at = end
        yield
      }
    }
    this.#list?.items.push(writer.take())
  }

  /** @returns the document in parts, once all of it has been pushed. */
  finish(): Buffer[] {
    const writer = new Writer(16)
    writer.copy(CBOR_MAGIC)
    writer.head(MAP, this.#memberCount)
    return [writer.written(), ...this.#members]
  }

  /** @returns the place after the member, or after the bracket that opens its list. */
  #pushMember(part: Buffer, at: number): number {
    const keyEnd = endOfString(part, at)
    const start = keyEnd + 1
    const writer = new Writer(64)
    writer.value(parseJsonTree(part.subarray(at, keyEnd)).value)
    this.#memberCount++
    if (part[start] === OPEN_BRACKET) {
      this.#list = { key: writer.written(), items: [], count: 0 }
      return start + 1
    }
    const end = endOfValue(part, start)
    writer.value(parseJsonTree(part.subarray(start, end), MAX_DEPTH).value)
    this.#members.push(writer.written())
    return end
  }

  #endList({ key, items, count }: { readonly key: Buffer; readonly items: readonly Buffer[]; count: number }): void {
    const head = new Writer(key.length + 9)
    head.copy(key)
    head.head(ARRAY, count)
    this.#members.push(head.written(), ...items)
    this.#list = null
  }
}

const COMMA = 0x2c
const CLOSE_BRACE = 0x7d
const OPEN_BRACKET = 0x5b
const CLOSE_BRACKET = 0x5d

class Writer {
  #bytes: Buffer
  #length = 0

  /** @param length the expected length. */
  constructor(length: number) {
    this.#bytes = Buffer.allocUnsafe(length)
  }

  written(): Buffer {
    return this.#bytes.subarray(0, this.#length)
  }

  /** Returns a copy of what was written, and starts again. */
  take(): Buffer {
    const bytes = Buffer.from(this.written())
    this.#length = 0
    return bytes
  }

  value(value: Json): void {
    if (value === null) this.#byte(0xf6)
    else if (value === true) this.#byte(0xf5)
    else if (value === false) this.#byte(0xf4)
    else if (typeof value === 'string') this.#string(value)
    else if (typeof value === 'number') this.#number(value)
    else if (value instanceof JsonNumber) this.#numberOf(value.text)
    else if (Array.isArray(value)) {
      this.head(ARRAY, value.length)
      for (const item of value) this.value(item)
    } else {
      const keys = Object.keys(value)
      this.head(MAP, keys.length)
      for (const key of keys) {
        this.#string(key)
        this.value(value[key]!)
      }
    }
  }

  copy(bytes: Uint8Array): void {
    this.#ensure(bytes.length)
    this.#bytes.set(bytes, this.#length)
    this.#length += bytes.length
  }

  /** Writes a major type with its argument, in the fewest bytes (RFC 8949, 3). */
  head(major: number, argument: number | bigint): void {
    this.#ensure(9)
    const [bytes, first, at] = [this.#bytes, major << 5, this.#length + 1]
    let size = 0
    if (argument < 24) bytes[at - 1] = first | Number(argument)
    else if (argument <= 0xff) {
      bytes[at - 1] = first | 24
      size = bytes.writeUInt8(Number(argument), at) - at
    } else if (argument <= 0xffff) {
      bytes[at - 1] = first | 25
      size = bytes.writeUInt16BE(Number(argument), at) - at
    } else if (argument <= 0xffff_ffff) {
      bytes[at - 1] = first | 26
      size = bytes.writeUInt32BE(Number(argument), at) - at
    } else {
      bytes[at - 1] = first | 27
      size = bytes.writeBigUInt64BE(BigInt(argument), at) - at
    }
    this.#length = at + size
  }

  #string(text: string): void {
    const length = Buffer.byteLength(text)
    this.head(BYTES, length)
    this.#ensure(length)
    this.#length += this.#bytes.write(text, this.#length, 'utf8')
  }

  /** Plain numbers above 2^53 are floats: those that JSON spells as integers are texts. */
  #number(value: number): void {
    if (Number.isSafeInteger(value)) this.#integer(value)
    else if (Number.isInteger(value)) this.#numberOf(String(value))
    else this.#float(value)
  }

  #numberOf(text: string): void {
    const integer = /^-?\d+$/.test(text) ? BigInt(text) : null
    if (integer === null || integer > MAX_INT64 || integer < MIN_INT64) this.#float(Number(text))
    else this.#integer(integer)
  }

  #integer(value: number | bigint): void {
    if (value >= 0) this.head(UINT, value)
    else this.head(NEGINT, typeof value === 'bigint' ? -1n - value : -1 - value)
  }

  #float(value: number): void {
    this.copy(encode(value, FLOATS))
  }

  #byte(byte: number): void {
    this.#ensure(1)
    this.#bytes[this.#length++] = byte
  }

  #ensure(more: number): void {
    if (this.#length + more <= this.#bytes.length) return
    const grown = Buffer.allocUnsafe(Math.max(this.#bytes.length * 2, this.#length + more))
    this.#bytes.copy(grown, 0, 0, this.#length)
    this.#bytes = grown
  }
}

/** The library writes a whole number as an integer unless told otherwise. */
const FLOATS = { typeEncoders: { number: (value: number) => new Token(Type.float, value) } }
