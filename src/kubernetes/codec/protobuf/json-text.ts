/**
 * Copies JSON stored as bytes inside a protobuf message (RawExtension, FieldsV1, a CRD's defaults). It is checked and
 * copied without insignificant white space, because an event is one line and one bad value must not spoil a whole list.
 * The check is one pass with an explicit stack; numbers and escapes stay as written.
 */
import { isUtf8 } from 'node:buffer'

import { CodecError } from './codec-error.js'
import type { JsonWriter } from './json-writer.js'

/** Deeper than any API object; the stack has this size. */
const MAX_DEPTH = 512

const VALUE = 0
const VALUE_OR_END = 1
const KEY = 2
const KEY_OR_END = 3
const COMMA_OR_END = 4

const QUOTE = 0x22
const COMMA = 0x2c
const COLON = 0x3a
const BACKSLASH = 0x5c

/** Scratch space: 1 for an object, 0 for an array. Only one check runs at a time. */
const stack = new Uint8Array(MAX_DEPTH + 1)

/**
 * The bytes that end a run of plain characters in a string: quotes, backslashes, and control characters, which are not
 * allowed.
 */
const ENDS_RUN = new Uint8Array(256)
ENDS_RUN.fill(1, 0, 0x20)
ENDS_RUN[QUOTE] = 1
ENDS_RUN[BACKSLASH] = 1

/** The one-byte escapes that may follow a backslash. */
const ONE_BYTE_ESCAPE = new Uint8Array(256)
for (const letter of '"\\/bfnrt') ONE_BYTE_ESCAPE[letter.charCodeAt(0)] = 1

/** @throws CodecError when the bytes are not exactly one JSON value in UTF-8. */
export function copyJson(source: Buffer, start: number, end: number, writer: JsonWriter): void {
  const hasSpace = checkJson(source, start, end)
  writer.ensure(end - start)
  if (hasSpace) writer.length = copyCompact(source, start, end, writer.bytes, writer.length)
  else {
    source.copy(writer.bytes, writer.length, start, end)
    writer.length += end - start
  }
}

/** Returns whether there is white space between tokens. */
function checkJson(source: Buffer, start: number, end: number): boolean {
  let hasSpace = false
  let depth = 0
  let state = VALUE
  let highBits = 0
  let i = start
  while (i < end) {
    const byte = source[i]!
    if (byte === QUOTE && state !== COMMA_OR_END) {
      i++
      for (;;) {
        let inner = 0
        while (i < end && ENDS_RUN[(inner = source[i]!)] === 0) {
          highBits |= inner
          i++
        }
        if (i >= end || inner < 0x20) throw malformed(i)
        i++
        if (inner === QUOTE) break
        i += escapeLength(source, i, end)
      }
      if (state === VALUE || state === VALUE_OR_END) {
        state = COMMA_OR_END
        continue
      }
      while (i < end && isSpace(source[i]!)) {
        hasSpace = true
        i++
      }
      if (i >= end || source[i] !== COLON) throw malformed(i)
      i++
      state = VALUE
    } else if (byte === 0x7b || byte === 0x5b) {
      if (state !== VALUE && state !== VALUE_OR_END) throw malformed(i)
      if (depth === MAX_DEPTH) throw new CodecError('too-deep', `JSON nests deeper than ${MAX_DEPTH}`, i)
      stack[++depth] = byte === 0x7b ? 1 : 0
      state = byte === 0x7b ? KEY_OR_END : VALUE_OR_END
      i++
    } else if (byte === 0x7d || byte === 0x5d) {
      const isObject = byte === 0x7d
      const canEnd = state === COMMA_OR_END || state === (isObject ? KEY_OR_END : VALUE_OR_END)
      if (depth === 0 || !canEnd || stack[depth] !== (isObject ? 1 : 0)) throw malformed(i)
      depth--
      state = COMMA_OR_END
      i++
    } else if (byte === COMMA) {
      if (state !== COMMA_OR_END || depth === 0) throw malformed(i)
      state = stack[depth] === 1 ? KEY : VALUE
      i++
    } else if (isSpace(byte)) {
      hasSpace = true
      i++
    } else {
      if (state !== VALUE && state !== VALUE_OR_END) throw malformed(i)
      i = endOfScalar(source, i, end)
      state = COMMA_OR_END
    }
  }
  if (depth !== 0 || state !== COMMA_OR_END) throw malformed(end)
  if (highBits >= 0x80 && !isUtf8(source.subarray(start, end))) throw malformed(start)
  return hasSpace
}

/** Copies text already known to be JSON. Returns the offset after the copy. */
function copyCompact(source: Buffer, start: number, end: number, out: Buffer, offset: number): number {
  let to = offset
  let inString = false
  for (let i = start; i < end; i++) {
    const byte = source[i]!
    if (!inString && isSpace(byte)) continue
    out[to++] = byte
    if (byte === QUOTE) inString = !inString
    else if (byte === BACKSLASH) out[to++] = source[++i]!
  }
  return to
}

function malformed(at: number): CodecError {
  return new CodecError('malformed', 'embedded JSON is not valid', at)
}

function isSpace(byte: number): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09
}

/** Returns how many bytes after a backslash belong to its escape. */
function escapeLength(source: Buffer, at: number, end: number): number {
  const letter = at < end ? source[at]! : 0
  if (ONE_BYTE_ESCAPE[letter] === 1) return 1
  if (letter !== 0x75 || at + 5 > end) throw malformed(at)
  if (!/^[0-9a-fA-F]{4}$/.test(source.toString('latin1', at + 1, at + 5))) throw malformed(at)
  return 5
}

function endOfScalar(source: Buffer, start: number, end: number): number {
  let at = start
  for (; at < end; at++) {
    const byte = source[at]!
    const isNumberOrLetter =
      (byte >= 0x30 && byte <= 0x39) ||
      (byte >= 0x61 && byte <= 0x7a) ||
      byte === 0x2d ||
      byte === 0x2e ||
      byte === 0x2b ||
      byte === 0x45
    if (!isNumberOrLetter) break
  }
  const text = source.toString('latin1', start, at)
  const isScalar =
    text === 'true' ||
    text === 'false' ||
    text === 'null' ||
    /^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$/.test(text)
  if (!isScalar) throw malformed(start)
  return at
}
