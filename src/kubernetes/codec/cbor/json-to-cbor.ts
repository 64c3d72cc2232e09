/**
 * Writes compact JSON as Kubernetes' CBOR. Strings and keys are byte strings. Integers of up to 64 bits stay
 * integers, and any other number is a float in the smallest width that keeps its value. Each document begins with the
 * tag of self-described CBOR. Lengths come first, except for a list that is too long to hold until its last item.
 *
 * The encoder makes one pass over the bytes, in steps of at most about a millisecond. It writes the head of an array
 * or object when it reaches the end. Building a tree was rejected, because it takes three times as long and cannot be
 * cut into steps.
 *
 * Source: k8s.io/apimachinery 0.37, pkg/runtime/serializer/cbor, and its case-sensitive JSON decoder that keeps
 * integers.
 */
import { encode, Token, Type } from 'cborg'
import { decodeString } from '../../../engine/facts/json-strings.js'
import { endOfString, endOfValue } from '../../../support/json-walk.js'
import { MAX_JSON_DEPTH } from '../json-scan.js'
import { type Json, JsonText, readJsonTree } from '../json-tree.js'
import { CBOR_MAGIC } from './cbor-to-json.js'

/** The depth of an object plus the levels that a response adds around it. An item of a list is two levels deep. */
const MAX_DEPTH = MAX_JSON_DEPTH + 8
const MAX_INT64 = 2n ** 63n - 1n
const MIN_INT64 = -(2n ** 63n)
const STEP_BYTES = 16 * 1024

const UINT = 0
const NEGINT = 1
const BYTES = 2
const ARRAY = 4
const MAP = 5

/** Heads of arrays and objects of indefinite length, and their end (RFC 8949, 3.2.2). */
const OPEN_ARRAY = Buffer.from([0x9f])
const OPEN_MAP = Buffer.from([0xbf])
const BREAK = Buffer.from([0xff])

/** @param json one JSON value. */
export function encodeCbor(json: Buffer): Buffer {
  return lastOf(cborSteps(json))
}

/** Encodes one JSON value in steps, so that other work can run between them. */
export function* cborSteps(json: Buffer): Generator<void, Buffer, void> {
  const writer = new Writer(json.length + CBOR_MAGIC.length)
  writer.copy(CBOR_MAGIC)
  yield* transcode(json, 0, writer)
  return writer.written()
}

/** Writes an object with long lists in parts. Each part but the last ends after a whole item of a list. */
export class CborWriter {
  #hasStarted = false
  #isInList = false;

  /** Yields after each step. @returns the CBOR of this part. */
  *push(part: Buffer): Generator<void, Buffer, void> {
    const writer = new Writer(part.length)
    let at = 0
    if (!this.#hasStarted) {
      writer.copy(CBOR_MAGIC)
      writer.copy(OPEN_MAP)
      this.#hasStarted = true
      at = 1
    }
    while (at < part.length) {
      const byte = part[at]
      if (byte === COMMA) at++
      else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
        this.#isInList = false
        writer.copy(BREAK)
        at++
      } else if (this.#isInList) at = yield* transcode(part, at, writer)
      else at = yield* this.#member(part, at, writer)
    }
    return writer.written()
  }

  /** @returns the index after the member, or after the bracket that opens its list. */
  *#member(part: Buffer, at: number, writer: Writer): Generator<void, number, void> {
    const start = endOfString(part, at) + 1
    writer.string(part, at, start - 1)
    if (part[start] !== OPEN_BRACKET) return yield* transcode(part, start, writer)
    this.#isInList = true
    writer.copy(OPEN_ARRAY)
    return start + 1
  }
}

const QUOTE = 0x22
const COMMA = 0x2c
const COLON = 0x3a
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d
const OPEN_BRACKET = 0x5b
const CLOSE_BRACKET = 0x5d

/** An array or object whose end has not been reached. */
interface Container {
  /** Where the container begins in the JSON. */
  readonly jsonAt: number
  /** Where its head goes in the CBOR. */
  readonly cborAt: number
  /** Null for an array. */
  readonly keys: Set<string> | null
  /** The number of items, or of keys and values together. */
  count: number
  hasRepeated: boolean
}

/** @returns the index after the value that begins at `start`. @throws SyntaxError when it nests too deeply. */
function* transcode(json: Buffer, start: number, writer: Writer): Generator<void, number, void> {
  const outer: Container[] = []
  let container: Container | null = null
  let at = start
  let stepEnd = start + STEP_BYTES
  while (at < json.length) {
    const byte = json[at]!
    if (byte === COMMA || byte === COLON || byte <= 0x20) {
      at++
      continue
    }
    if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
      if (container !== null) outer.push(container)
      if (outer.length >= MAX_DEPTH) throw new SyntaxError(`it is nested more than ${MAX_DEPTH} deep`)
      const keys = byte === OPEN_BRACE ? new Set<string>() : null
      container = { jsonAt: at, cborAt: writer.open(), keys, count: 0, hasRepeated: false }
      at++
      continue
    }
    if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
      const { jsonAt, cborAt, keys, count, hasRepeated }: Container = container!
      at++
      if (hasRepeated) writer.replace(cborAt, readJsonTree(json.subarray(jsonAt, at), MAX_DEPTH))
      else if (keys === null) writer.close(cborAt, ARRAY, count)
      else writer.close(cborAt, MAP, count / 2)
      container = outer.pop() ?? null
    } else if (byte === QUOTE) {
      const end = endOfString(json, at)
      if (container?.keys != null && container.count % 2 === 0) {
        const known = container.keys.size
        if (container.keys.add(decodeString(json, at, end)).size === known) container.hasRepeated = true
      }
      writer.string(json, at, end)
      at = end
    } else {
      const end = endOfValue(json, at)
      writer.scalar(json.toString('latin1', at, end))
      at = end
    }
    if (container === null) return at
    container.count++
    if (at >= stepEnd) {
      yield
      stepEnd = at + STEP_BYTES
    }
  }
  throw new SyntaxError('it ends before its value does')
}

function lastOf<T>(steps: Generator<void, T, void>): T {
  while (true) {
    const step = steps.next()
    if (step.done) return step.value
  }
}

class Writer {
  #bytes: Buffer
  #length = 0

  /** @param length the expected number of bytes. */
  constructor(length: number) {
    this.#bytes = Buffer.allocUnsafe(length)
  }

  written(): Buffer {
    return this.#bytes.subarray(0, this.#length)
  }

  copy(bytes: Uint8Array): void {
    this.#ensure(bytes.length)
    this.#bytes.set(bytes, this.#length)
    this.#length += bytes.length
  }

  /** Reserves the first byte of a head that is written later. @returns its index. */
  open(): number {
    this.#ensure(1)
    return this.#length++
  }

  /** Writes the head at `at`, in front of everything written since. */
  close(at: number, major: number, count: number): void {
    const end = this.#length
    this.#head(major, count)
    const size = this.#length - end
    if (size > 1) this.#bytes.copyWithin(at + size, at + 1, end)
    this.#length = at
    this.#head(major, count)
    this.#length = end + size - 1
  }

  /** Replaces everything written since `at` with a value. */
  replace(at: number, value: Json): void {
    this.#length = at
    this.#value(value)
  }

  /** @param start the index of the opening quote. @param end the index after the closing one. */
  string(json: Buffer, start: number, end: number): void {
    if (json.subarray(start, end).includes(BACKSLASH)) return this.#string(decodeString(json, start, end))
    const length = end - start - 2
    this.#head(BYTES, length)
    this.#ensure(length)
    json.copy(this.#bytes, this.#length, start + 1, end - 1)
    this.#length += length
  }

  /** Writes a number or a constant. */
  scalar(text: string): void {
    if (text === 'null') this.#byte(0xf6)
    else if (text === 'true') this.#byte(0xf5)
    else if (text === 'false') this.#byte(0xf4)
    else this.#number(text)
  }

  #value(value: Json): void {
    if (value === null || typeof value === 'boolean') this.scalar(String(value))
    else if (typeof value === 'string') this.#string(value)
    else if (typeof value === 'number' || value instanceof JsonText) this.#number(String(value))
    else if (Array.isArray(value)) {
      this.#head(ARRAY, value.length)
      for (const item of value) this.#value(item)
    } else {
      const keys = Object.keys(value)
      this.#head(MAP, keys.length)
      for (const key of keys) {
        this.#string(key)
        this.#value(value[key]!)
      }
    }
  }

  /** Writes a major type with its argument, in the fewest bytes (RFC 8949, 3). */
  #head(major: number, argument: number | bigint): void {
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
    this.#head(BYTES, length)
    this.#ensure(length)
    this.#length += this.#bytes.write(text, this.#length, 'utf8')
  }

  /**
   * A number beyond all floats becomes a string, because Kubernetes' decoders refuse a document with an infinity in
   * it.
   */
  #number(text: string): void {
    const value = Number(text)
    const integer = !/^-?\d+$/.test(text) ? null : Number.isSafeInteger(value) ? value : BigInt(text)
    if (integer !== null && integer <= MAX_INT64 && integer >= MIN_INT64) this.#integer(integer)
    else if (Number.isFinite(value)) this.copy(encode(value, FLOATS))
    else this.#string(text)
  }

  #integer(value: number | bigint): void {
    if (value >= 0) this.#head(UINT, value)
    else this.#head(NEGINT, typeof value === 'bigint' ? -1n - value : -1 - value)
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

const BACKSLASH = 0x5c

/** By default the library writes a whole number as an integer. */
const FLOATS = { typeEncoders: { number: (value: number) => new Token(Type.float, value) } }
