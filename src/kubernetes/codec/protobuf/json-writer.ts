/**
 * Writes compact JSON text into a growing buffer that is reused for the next object. A comma is written after each
 * member and element, and closing a container overwrites its last comma. This takes one test per container instead of
 * one per member. The input is protobuf bytes, and literals prepared when a schema is compiled, so no JavaScript
 * string is created.
 */
import { isUtf8 } from 'node:buffer'

import { CodecError } from './codec-error.js'

/**
 * The limit for the JSON of one object. Empty messages take two bytes each on the wire and many more in JSON, but no
 * real object of 1.5 MiB (etcd's limit for a request) grows past this size.
 */
const MAX_JSON_BYTES = 64 * 1024 * 1024
const FIRST_SIZE = 64 * 1024
/** A larger buffer is released after use, so that one huge object does not stay in memory. */
const KEPT_SIZE = 2 * 1024 * 1024

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const HEX = Buffer.from('0123456789abcdef', 'latin1')
const REPLACEMENT = Buffer.from('\ufffd', 'utf8')

/**
 * 0 means that the byte is written unchanged, 1 that it takes six characters; any other value is the letter after the
 * backslash.
 */
const ESCAPES = new Uint8Array(256)
ESCAPES.fill(1, 0, 0x20)
for (const [code, letter] of [
  [0x08, 'b'],
  [0x09, 't'],
  [0x0a, 'n'],
  [0x0c, 'f'],
  [0x0d, 'r'],
  [QUOTE, '"'],
  [BACKSLASH, '\\'],
] as const) {
  ESCAPES[code] = letter.charCodeAt(0)
}

export class JsonWriter {
  bytes = Buffer.allocUnsafeSlow(FIRST_SIZE)
  length = 0

  reset(): void {
    this.length = 0
    if (this.bytes.length > KEPT_SIZE) this.bytes = Buffer.allocUnsafeSlow(FIRST_SIZE)
  }

  /** Returns an exactly sized copy of what has been written. */
  copy(): Buffer {
    const out = Buffer.allocUnsafeSlow(this.length)
    this.bytes.copy(out, 0, 0, this.length)
    return out
  }

  ensure(more: number): void {
    const needed = this.length + more
    if (needed <= this.bytes.length) return
    if (needed > MAX_JSON_BYTES) throw new CodecError('too-large', `its JSON is larger than ${MAX_JSON_BYTES} bytes`)
    const grown = Buffer.allocUnsafeSlow(Math.max(needed, this.bytes.length * 2))
    this.bytes.copy(grown, 0, 0, this.length)
    this.bytes = grown
  }

  byte(value: number): void {
    if (this.length === this.bytes.length) this.ensure(1)
    this.bytes[this.length++] = value
  }

  /** Writes prepared text. It is short, so a loop beats a copy. */
  raw(text: Uint8Array): void {
    const size = text.length
    if (this.length + size > this.bytes.length) this.ensure(size)
    const out = this.bytes
    let pos = this.length
    for (let i = 0; i < size; i++) out[pos++] = text[i]!
    this.length = pos
  }

  ascii(text: string): void {
    this.ensure(text.length)
    this.length += this.bytes.write(text, this.length, 'latin1')
  }

  /**
   * Replaces the comma after the last element by `bracket`, or writes `bracket` after `open` when there was no element.
   */
  close(open: number, bracket: number): void {
    if (this.length > open && this.bytes[this.length - 1] === COMMA) this.bytes[this.length - 1] = bracket
    else this.byte(bracket)
  }

  /** Writes a string of the source, quoted and escaped. Bytes that are not UTF-8 each become U+FFFD, as in Go. */
  string(source: Buffer, start: number, end: number): void {
    // No escape is longer than six bytes; room for all of them is reserved only when one occurs.
    if (this.length + (end - start) + 2 > this.bytes.length) this.ensure(end - start + 2)
    const open = this.length
    let out = this.bytes
    let pos = open
    let highBits = 0
    out[pos++] = QUOTE
    for (let i = start; i < end; i++) {
      const byte = source[i]!
      const escape = ESCAPES[byte]!
      if (escape === 0) {
        highBits |= byte
        out[pos++] = byte
        continue
      }
      this.length = pos
      this.ensure(6 + (end - i) + 1)
      out = this.bytes
      out[pos++] = BACKSLASH
      if (escape !== 1) {
        out[pos++] = escape
        continue
      }
      out[pos++] = 0x75
      out[pos++] = 0x30
      out[pos++] = 0x30
      out[pos++] = HEX[byte >>> 4]!
      out[pos++] = HEX[byte & 15]!
    }
    out[pos++] = QUOTE
    this.length = pos
    if (highBits >= 0x80 && !isUtf8(source.subarray(start, end))) {
      this.length = open
      this.invalidString(source, start, end)
    }
  }

  private invalidString(source: Buffer, start: number, end: number): void {
    const valid = Buffer.allocUnsafe((end - start) * REPLACEMENT.length)
    let length = 0
    for (let i = start; i < end;) {
      const size = sequenceLength(source, i, end)
      if (size === 0) {
        valid.set(REPLACEMENT, length)
        length += REPLACEMENT.length
        i++
      }
      for (const stop = i + size; i < stop; i++) valid[length++] = source[i]!
    }
    this.string(valid, 0, length)
  }

  /** Writes an integer given in two halves, unsigned or in two's complement, with all its digits. */
  integer(low: number, high: number, isSigned: boolean): void {
    if (high === 0) {
      this.unsigned(low)
      return
    }
    if (isSigned && high === 0xffffffff && low >= 0x80000000) {
      this.byte(0x2d)
      this.unsigned(0x100000000 - low)
      return
    }
    const value = (BigInt(high) << 32n) | BigInt(low)
    this.ascii((isSigned ? BigInt.asIntN(64, value) : value).toString())
  }

  /** Writes an integer of at most 2^53. */
  unsigned(value: number): void {
    if (value < 10) {
      this.byte(0x30 + value)
      return
    }
    this.ensure(16)
    if (value >= 0x80000000) {
      this.length += this.bytes.write(String(value), this.length, 'latin1')
      return
    }
    let digits = 2
    for (let bound = 100; value >= bound && digits < 10; bound *= 10) digits++
    let rest = value
    for (let pos = this.length + digits - 1; pos >= this.length; pos--) {
      const tenth = (rest / 10) | 0
      this.bytes[pos] = 0x30 + rest - tenth * 10
      rest = tenth
    }
    this.length += digits
  }

  base64(source: Buffer, start: number, end: number): void {
    this.ensure(Math.ceil((end - start) / 3) * 4 + 2)
    this.bytes[this.length++] = QUOTE
    this.length += this.bytes.write(source.toString('base64', start, end), this.length, 'latin1')
    this.bytes[this.length++] = QUOTE
  }
}

/** Returns the length of the well-formed UTF-8 sequence at `at`, or 0. A call of `isUtf8` for each would take too long. */
function sequenceLength(source: Buffer, at: number, end: number): number {
  const first = source[at]!
  if (first < 0x80) return 1
  if (first < 0xc2 || first > 0xf4) return 0
  const size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2
  if (at + size > end) return 0
  // The second byte excludes overlong forms, surrogates, and what is above U+10FFFF.
  const low = first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80
  const high = first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf
  if (source[at + 1]! < low || source[at + 1]! > high) return 0
  for (let i = at + 2; i < at + size; i++) if ((source[i]! & 0xc0) !== 0x80) return 0
  return size
}
