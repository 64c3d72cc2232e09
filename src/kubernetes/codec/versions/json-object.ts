/**
 * A JSON object whose members can be moved, renamed and replaced while the value of each keeps its bytes. Only
 * inspected values are parsed, one level at a time, so numbers keep every digit and a CRD's schemas are never read.
 *
 * The text must be valid JSON, as returned by `scanObject` and the protobuf decoder. The last of duplicate names
 * counts.
 */
import { decodeString } from '../../../engine/facts/json-strings.js'
import { endOfString, endOfValue, skipSpace } from '../../../support/json-walk.js'

const OPEN_BRACE = 0x7b
const OPEN_BRACKET = 0x5b
const QUOTE = 0x22
const CLOSE_BRACE = 0x7d
const CLOSE_BRACKET = 0x5d
const COMMA = 0x2c

export type JsonValue = Buffer | string | JsonObject | readonly JsonObject[]

export class JsonObject {
  private constructor(private readonly members: Map<string, Buffer>) {}

  static empty(): JsonObject {
    return new JsonObject(new Map())
  }

  /** Returns null for anything but an object. */
  static parse(json: Buffer): JsonObject | null {
    let at = skipSpace(json, 0)
    if (json[at] !== OPEN_BRACE) return null
    const members = new Map<string, Buffer>()
    at = skipSpace(json, at + 1)
    while (json[at] === QUOTE) {
      const nameEnd = endOfString(json, at)
      const name = decodeString(json, at, nameEnd)
      // Skips the colon.
      const start = skipSpace(json, skipSpace(json, nameEnd) + 1)
      const end = endOfValue(json, start)
      members.set(name, json.subarray(start, end))
      at = skipSpace(json, end)
      if (json[at] !== COMMA) break
      at = skipSpace(json, at + 1)
    }
    return json[at] === CLOSE_BRACE ? new JsonObject(members) : null
  }

  has(name: string): boolean {
    return this.members.has(name)
  }

  names(): readonly string[] {
    return [...this.members.keys()]
  }

  /** Returns the member's JSON unchanged. */
  get(name: string): Buffer | undefined {
    return this.members.get(name)
  }

  /** Returns '' when the member is absent or not a string. */
  text(name: string): string {
    const value = this.members.get(name)
    return value?.[0] === QUOTE ? decodeString(value, 0, value.length) : ''
  }

  /** Returns null when the member is absent or not an object. */
  object(name: string): JsonObject | null {
    const value = this.members.get(name)
    return value === undefined ? null : JsonObject.parse(value)
  }

  /** Returns the objects of an array and skips its other items. null when the member is absent or not an array. */
  objects(name: string): JsonObject[] | null {
    const value = this.members.get(name)
    return value === undefined ? null : parseArray(value)
  }

  /** Replaces the member of that name, or appends it. A string becomes a JSON string. */
  set(name: string, value: JsonValue): this {
    this.members.set(name, encode(value))
    return this
  }

  /** Does nothing for undefined. */
  setIfAny(name: string, value: JsonValue | undefined): this {
    return value === undefined ? this : this.set(name, value)
  }

  delete(name: string): this {
    this.members.delete(name)
    return this
  }

  /** Renames a member, which keeps its position. */
  rename(from: string, to: string): this {
    const entries = [...this.members].map(([name, value]) => [name === from ? to : name, value] as const)
    this.members.clear()
    for (const [name, value] of entries) this.members.set(name, value)
    return this
  }

  toBuffer(): Buffer {
    const parts: Buffer[] = []
    for (const [name, value] of this.members) {
      parts.push(Buffer.from(`${parts.length === 0 ? '{' : ','}${JSON.stringify(name)}:`, 'utf8'), value)
    }
    parts.push(Buffer.from(parts.length === 0 ? '{}' : '}', 'latin1'))
    return Buffer.concat(parts)
  }
}

/** Returns the objects of a JSON array, null for any other value. */
export function parseArray(json: Buffer): JsonObject[] | null {
  let at = skipSpace(json, 0)
  if (json[at] !== OPEN_BRACKET) return null
  const items: JsonObject[] = []
  at = skipSpace(json, at + 1)
  while (at < json.length && json[at] !== CLOSE_BRACKET) {
    const end = endOfValue(json, at)
    const item = JsonObject.parse(json.subarray(at, end))
    if (item !== null) items.push(item)
    at = skipSpace(json, end)
    if (json[at] !== COMMA) break
    at = skipSpace(json, at + 1)
  }
  return items
}

function encode(value: JsonValue): Buffer {
  if (Buffer.isBuffer(value)) return value
  if (typeof value === 'string') return Buffer.from(JSON.stringify(value), 'utf8')
  if (value instanceof JsonObject) return value.toBuffer()
  return Buffer.from(`[${value.map((item) => item.toBuffer().toString('utf8')).join(',')}]`, 'utf8')
}
