/**
 * Processes a JSON value once, when it arrives. The value must be exactly one JSON object (RFC 8259, UTF-8). The scan
 * removes insignificant white space and finds where to insert `metadata.resourceVersion` when the object is served.
 * It removes a resourceVersion in the stored text, because etcd's mod revision is the true one. Every other byte
 * stays as written: numbers, escapes, duplicate keys, order.
 *
 * The scan is one pass over the bytes with an explicit stack of bits, without a tree or recursion. `JSON.parse` was
 * rejected, because it changes integers above 2^53 and serializing its tree gives a different text. A second, simpler
 * loop removes white space. It runs only when the first has seen some, and API servers write none.
 */
import { isUtf8 } from 'node:buffer'

import type { Revision } from '../../engine/model/revision.js'
import { formatResourceVersion } from '../model/resource-version.js'
import type { Scratch } from '../../support/scratch.js'
import { decodeString } from '../../engine/facts/json-strings.js'
import { MAX_JSON_DEPTH } from '../model/limits.js'

export interface ScannedObject {
  /** An exactly sized copy without white space between tokens and without `metadata.resourceVersion`. */
  readonly bytes: Buffer
  /** Index in `bytes` just after the `{` of the top-level `metadata`; -1 when there is none or it is not an object. */
  readonly revisionOffset: number
  /** '' when the member is absent or not a string. */
  readonly apiVersion: string
  /** '' when the member is absent or not a string. */
  readonly kind: string
}

const QUOTE = 0x22
const COMMA = 0x2c
const COLON = 0x3a
const BACKSLASH = 0x5c
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d
const OPEN_BRACKET = 0x5b
const CLOSE_BRACKET = 0x5d

/** Passed instead of a bracket to accept either kind of container. */
const ANY = 0

/** The token that the scanner expects next. */
const VALUE = 0
const VALUE_OR_END = 1
const KEY = 2
const KEY_OR_END = 3
const COMMA_OR_END = 4

/** The current member, at depth 1 (the first three) or directly in metadata (the last). */
const OTHER = 0
const METADATA = 1
const API_VERSION = 2
const KIND = 3
const RESOURCE_VERSION = 4

const IN_ARRAY = 0
const IN_OBJECT = 1

/** Scratch space for the containers, indexed by depth. Only one scan runs at a time. */
const containers = new Uint8Array(MAX_JSON_DEPTH + 1)

/**
 * `float64` refuses numbers beyond a double (`1e400`), because a single such number makes kubectl and other Go
 * clients refuse a whole list.
 */
export type JsonNumbers = 'any' | 'float64'

/**
 * Returns null when the value is not exactly one JSON object in UTF-8, nests deeper than `MAX_JSON_DEPTH`, or holds a
 * refused number.
 *
 * The last of duplicate `kind`, `apiVersion` and `metadata` members wins, as in JSON.parse. Every `resourceVersion`
 * directly in a top-level `metadata` object is removed.
 * @param scratch optional memory for the bytes.
 */
export function scanObject(value: Buffer, scratch?: Scratch, numbers: JsonNumbers = 'float64'): ScannedObject | null {
  return scan(value, OPEN_BRACE, numbers, scratch)
}

/**
 * Returns a value of any type without white space between tokens and otherwise unchanged. If there is no such white
 * space, the result is the input buffer. Returns null when the value is not exactly one JSON value in UTF-8, when it
 * nests so deeply that an object with this member would exceed `MAX_JSON_DEPTH`, or when it holds a refused number.
 */
export function compactJson(value: Buffer, numbers: JsonNumbers = 'float64'): Buffer | null {
  let start = 0
  while (start < value.length && isSpace(value[start]!)) start++
  const first = value[start]
  if (first === undefined) return null
  if (first === OPEN_BRACE || first === OPEN_BRACKET) return scan(value, ANY, numbers)?.bytes ?? null
  const end = first === QUOTE ? endOfCheckedString(value, start) : endOfScalar(value, start, numbers)
  if (end === -1) return null
  for (let i = end; i < value.length; i++) if (!isSpace(value[i]!)) return null
  const bytes = value.subarray(start, end)
  return isUtf8(bytes) ? bytes : null
}

/**
 * @param opening the bracket with which the value must begin. `ANY` allows either bracket; then the members of an
 * object are not inspected, and nothing is removed.
 */
function scan(value: Buffer, opening: number, numbers: JsonNumbers, scratch?: Scratch): ScannedObject | null {
  const end = value.length
  let spaces = 0
  let i = 0
  while (i < end && isSpace(value[i]!)) i++
  const first = value[i]
  if (i >= end || (first !== OPEN_BRACE && first !== OPEN_BRACKET)) return null
  if (opening !== ANY && first !== opening) return null
  const readsMembers = opening !== ANY
  const maxDepth = readsMembers ? MAX_JSON_DEPTH : MAX_JSON_DEPTH - 1
  spaces = i
  i++

  let depth = 1
  let state = first === OPEN_BRACE ? KEY_OR_END : VALUE_OR_END
  let role = OTHER
  let inMetadata = false
  let metadataStart = -1
  let kindStart = -1
  let kindEnd = -1
  let apiVersionStart = -1
  let apiVersionEnd = -1
  // The start of the current member of metadata, and the end of the last kept member.
  let memberStart = 0
  let keptEnd = 0
  let removed: number[] | null = null
  let hasHighBytes = 0
  containers[1] = first === OPEN_BRACE ? IN_OBJECT : IN_ARRAY

  while (depth > 0) {
    if (i >= end) return null
    const byte = value[i]!
    if (byte <= 0x20) {
      if (!isSpace(byte)) return null
      spaces++
      i++
      continue
    }
    switch (state) {
      case KEY_OR_END:
      case KEY: {
        if (byte === QUOTE) {
          const start = i
          i++
          let escaped = false
          for (;;) {
            if (i >= end) return null
            const inner = value[i]!
            if (inner === QUOTE) break
            if (inner < 0x20) return null
            hasHighBytes |= inner
            if (inner === BACKSLASH) {
              escaped = true
              i = endOfEscape(value, i)
              if (i === -1) return null
            } else {
              i++
            }
          }
          i++
          if (depth === 1) {
            if (readsMembers) role = topLevelRole(value, start, i, escaped)
          } else if (depth === 2 && inMetadata) {
            memberStart = start
            role = isResourceVersion(value, start, i, escaped) ? RESOURCE_VERSION : OTHER
          }
          while (i < end && isSpace(value[i]!)) {
            i++
            spaces++
          }
          if (i >= end || value[i] !== COLON) return null
          i++
          state = VALUE
          continue
        }
        if (byte !== CLOSE_BRACE || state === KEY) return null
        break
      }
      case VALUE_OR_END:
      case VALUE: {
        if (byte === QUOTE) {
          const start = i
          i++
          for (;;) {
            if (i >= end) return null
            const inner = value[i]!
            if (inner === QUOTE) break
            if (inner < 0x20) return null
            hasHighBytes |= inner
            if (inner === BACKSLASH) {
              i = endOfEscape(value, i)
              if (i === -1) return null
            } else {
              i++
            }
          }
          i++
          if (depth === 1) {
            if (role === KIND) {
              kindStart = start
              kindEnd = i
            } else if (role === API_VERSION) {
              apiVersionStart = start
              apiVersionEnd = i
            } else if (role === METADATA) metadataStart = -1
          }
          state = COMMA_OR_END
          continue
        }
        if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
          if (depth === maxDepth) return null
          if (depth === 1) {
            if (role === METADATA) {
              inMetadata = byte === OPEN_BRACE
              metadataStart = inMetadata ? i + 1 : -1
              keptEnd = i + 1
              role = OTHER
            } else if (role === KIND) kindStart = -1
            else if (role === API_VERSION) apiVersionStart = -1
          }
          depth++
          i++
          containers[depth] = byte === OPEN_BRACE ? IN_OBJECT : IN_ARRAY
          state = byte === OPEN_BRACE ? KEY_OR_END : VALUE_OR_END
          continue
        }
        if (byte === CLOSE_BRACKET) {
          if (state === VALUE) return null
          break
        }
        if (depth === 1) {
          if (role === METADATA) metadataStart = -1
          else if (role === KIND) kindStart = -1
          else if (role === API_VERSION) apiVersionStart = -1
        }
        i = endOfScalar(value, i, numbers)
        if (i === -1) return null
        state = COMMA_OR_END
        continue
      }
      default: {
        if (depth === 2 && inMetadata) {
          if (role !== RESOURCE_VERSION) {
            if (byte === COMMA || byte === CLOSE_BRACE) keptEnd = i
          } else {
            removed ??= []
            if (byte === COMMA) {
              removed.push(memberStart, i + 1)
            } else {
              // When the last members are removed, the comma before them is removed too.
              while (removed.length > 0 && removed[removed.length - 2]! >= keptEnd) removed.length -= 2
              removed.push(keptEnd, i)
            }
            role = OTHER
          }
        }
        if (byte === COMMA) {
          i++
          state = containers[depth] === IN_OBJECT ? KEY : VALUE
          continue
        }
      }
    }
    // Only a closing bracket is possible here.
    if (byte !== (containers[depth] === IN_OBJECT ? CLOSE_BRACE : CLOSE_BRACKET)) return null
    if (depth === 2 && inMetadata) inMetadata = false
    depth--
    i++
    state = COMMA_OR_END
  }
  const stop = i
  while (i < end && isSpace(value[i]!)) i++
  if (i < end) return null
  spaces += i - stop
  if (hasHighBytes >= 0x80 && !isUtf8(value)) return null

  if (!readsMembers && spaces === 0) return { bytes: value, revisionOffset: -1, apiVersion: '', kind: '' }
  const kind = kindStart === -1 ? '' : decodeString(value, kindStart, kindEnd)
  const apiVersion = apiVersionStart === -1 ? '' : decodeString(value, apiVersionStart, apiVersionEnd)
  const compact = copyCompact(value, removed ?? NOTHING, spaces > 0, metadataStart, scratch)
  return { bytes: compact.bytes, revisionOffset: compact.offset, apiVersion, kind }
}

/** The parts of a scanned object that are needed to serve it. */
export type Spliceable = Pick<ScannedObject, 'bytes' | 'revisionOffset'>

/**
 * Returns the object's JSON as served, with its resourceVersion as the first member of metadata:
 * `…"metadata":{"resourceVersion":"N",…`.
 * @param scratch optional memory for it.
 *
 * @throws RangeError when the object has no metadata object. Such a value is served wrapped instead.
 */
export function spliceResourceVersion(object: Spliceable, revision: Revision, scratch?: Scratch): Buffer {
  const { bytes, revisionOffset } = object
  const member = insertion(bytes, revisionOffset, revision)
  const length = bytes.length + member.length
  const target = scratch === undefined ? Buffer.allocUnsafe(length) : scratch.take(length)
  bytes.copy(target, 0, 0, revisionOffset)
  target.write(member, revisionOffset, 'latin1')
  bytes.copy(target, revisionOffset + member.length, revisionOffset)
  return target
}

function insertion(bytes: Buffer, revisionOffset: number, revision: Revision): string {
  if (revisionOffset < 0) throw new RangeError('no metadata object to put a resourceVersion into')
  const member = `"resourceVersion":"${formatResourceVersion(revision)}"`
  return bytes[revisionOffset] === CLOSE_BRACE ? member : `${member},`
}

const NOTHING: readonly number[] = []

/**
 * @param removed ranges [start, end) of `value` to omit, ascending.
 * @param metadataStart an index of `value`, or -1; `offset` is the same place in the copy.
 */
function copyCompact(
  value: Buffer,
  removed: readonly number[],
  hasSpaces: boolean,
  metadataStart: number,
  scratch: Scratch | undefined,
): { bytes: Buffer; offset: number } {
  if (hasSpaces) return copyWithoutSpaces(value, removed, metadataStart)
  let length = value.length
  let offset = metadataStart
  for (let r = 0; r < removed.length; r += 2) {
    const gone = removed[r + 1]! - removed[r]!
    length -= gone
    if (removed[r]! < metadataStart) offset -= gone
  }
  // The buffer does not come from the pool, because a pooled slice would keep 8 KB alive as long as the object is
  // stored.
  const bytes = scratch?.take(length) ?? Buffer.allocUnsafeSlow(length)
  let from = 0
  let to = 0
  for (let r = 0; r < removed.length; r += 2) {
    to += value.copy(bytes, to, from, removed[r]!)
    from = removed[r + 1]!
  }
  value.copy(bytes, to, from)
  return { bytes, offset }
}

function copyWithoutSpaces(
  value: Buffer,
  removed: readonly number[],
  metadataStart: number,
): { bytes: Buffer; offset: number } {
  const end = value.length
  const scratch = Buffer.allocUnsafeSlow(end)
  let offset = -1
  let next = 0
  let nextRemoved = removed.length > 0 ? removed[0]! : end
  let to = 0
  let i = 0
  while (i < end) {
    if (i === metadataStart) offset = to
    if (i === nextRemoved) {
      i = removed[next + 1]!
      next += 2
      nextRemoved = next < removed.length ? removed[next]! : end
      continue
    }
    const byte = value[i]!
    if (byte === QUOTE) {
      scratch[to++] = QUOTE
      i++
      for (;;) {
        const inner = value[i++]!
        scratch[to++] = inner
        if (inner === QUOTE) break
        if (inner === BACKSLASH) scratch[to++] = value[i++]!
      }
      continue
    }
    if (byte > 0x20) scratch[to++] = byte
    i++
  }
  const bytes = Buffer.allocUnsafeSlow(to)
  scratch.copy(bytes, 0, 0, to)
  return { bytes, offset }
}

function isSpace(byte: number): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09
}

/** @param at the backslash. @returns the index after the escape, or -1 if it is invalid. */
function endOfEscape(value: Buffer, at: number): number {
  if (at + 1 >= value.length) return -1
  switch (value[at + 1]) {
    case QUOTE:
    case BACKSLASH:
    case 0x2f:
    case 0x62:
    case 0x66:
    case 0x6e:
    case 0x72:
    case 0x74:
      return at + 2
    case 0x75: {
      if (at + 6 > value.length) return -1
      for (let i = at + 2; i < at + 6; i++) if (!isHexDigit(value[i]!)) return -1
      return at + 6
    }
    default:
      return -1
  }
}

/** @param at the opening quote. @returns the index after the closing one, or -1 if the string is invalid. */
function endOfCheckedString(value: Buffer, at: number): number {
  let i = at + 1
  while (i !== -1 && i < value.length) {
    const byte = value[i]!
    if (byte === QUOTE) return i + 1
    if (byte < 0x20) return -1
    i = byte === BACKSLASH ? endOfEscape(value, i) : i + 1
  }
  return -1
}

function isHexDigit(byte: number): boolean {
  return (byte >= 0x30 && byte <= 0x39) || (byte >= 0x41 && byte <= 0x46) || (byte >= 0x61 && byte <= 0x66)
}

function isDigit(byte: number): boolean {
  return byte >= 0x30 && byte <= 0x39
}

/** Reads true, false, null or a number that is not refused. @returns the index after it, or -1 if there is none. */
function endOfScalar(value: Buffer, at: number, numbers: JsonNumbers): number {
  switch (value[at]) {
    case 0x74:
      return matches(value, at, 'true')
    case 0x66:
      return matches(value, at, 'false')
    case 0x6e:
      return matches(value, at, 'null')
    default:
      return endOfNumber(value, at, numbers)
  }
}

function matches(value: Buffer, at: number, word: string): number {
  if (at + word.length > value.length) return -1
  for (let i = 1; i < word.length; i++) if (value[at + i] !== word.charCodeAt(i)) return -1
  return at + word.length
}

function endOfNumber(value: Buffer, at: number, numbers: JsonNumbers): number {
  const end = value.length
  let i = value[at] === 0x2d ? at + 1 : at
  if (i >= end) return -1
  if (value[i] === 0x30) {
    i++
  } else {
    const afterDigits = endOfDigits(value, i)
    if (afterDigits === -1) return -1
    i = afterDigits
  }
  if (i < end && value[i] === 0x2e) {
    i = endOfDigits(value, i + 1)
    if (i === -1) return -1
  }
  if (i < end && (value[i] === 0x65 || value[i] === 0x45)) {
    i++
    if (i < end && (value[i] === 0x2b || value[i] === 0x2d)) i++
    i = endOfDigits(value, i)
    return i === -1 || (numbers === 'float64' && isBeyondDouble(value, at, i)) ? -1 : i
  }
  return numbers === 'float64' && i - at >= DOUBLE_DIGITS && isBeyondDouble(value, at, i) ? -1 : i
}

/** The digits of the largest double. A shorter number without an exponent is smaller. */
const DOUBLE_DIGITS = 309

function isBeyondDouble(value: Buffer, start: number, end: number): boolean {
  return Math.abs(Number(value.toString('latin1', start, end))) === Infinity
}

/** Reads at least one digit. */
function endOfDigits(value: Buffer, at: number): number {
  let i = at
  while (i < value.length && isDigit(value[i]!)) i++
  return i === at ? -1 : i
}

const METADATA_KEY = Buffer.from('"metadata"')
const API_VERSION_KEY = Buffer.from('"apiVersion"')
const KIND_KEY = Buffer.from('"kind"')
const RESOURCE_VERSION_KEY = Buffer.from('"resourceVersion"')

function topLevelRole(value: Buffer, start: number, end: number, escaped: boolean): number {
  if (escaped) {
    // One character takes at most 6 bytes, so a longer literal cannot be any of these keys.
    if (end - start > 6 * API_VERSION_KEY.length) return OTHER
    const text = decodeString(value, start, end)
    return text === 'metadata' ? METADATA : text === 'apiVersion' ? API_VERSION : text === 'kind' ? KIND : OTHER
  }
  if (isKey(value, start, end, METADATA_KEY)) return METADATA
  if (isKey(value, start, end, API_VERSION_KEY)) return API_VERSION
  return isKey(value, start, end, KIND_KEY) ? KIND : OTHER
}

function isResourceVersion(value: Buffer, start: number, end: number, escaped: boolean): boolean {
  if (!escaped) return isKey(value, start, end, RESOURCE_VERSION_KEY)
  return end - start <= 6 * RESOURCE_VERSION_KEY.length && decodeString(value, start, end) === 'resourceVersion'
}

function isKey(value: Buffer, start: number, end: number, key: Buffer): boolean {
  if (end - start !== key.length) return false
  for (let i = 1; i < key.length; i++) if (value[start + i] !== key[i]) return false
  return true
}
