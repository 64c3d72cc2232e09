/**
 * A JSON object whose members can be moved, renamed and replaced while the value of each keeps its bytes. Only
 * inspected values are parsed, one level at a time, so numbers keep every digit and a CRD's schemas are never read.
 *
 * The text must be valid JSON, as returned by `scanObject` and the protobuf decoder. The last of duplicate names
 * counts.
 */
import { decodeString } from '../../../engine/facts/json-strings.js'
import { eachElement, eachMember } from '../../../support/json-members.js'
import { skipSpace } from '../../../support/json-walk.js'

const OPEN_BRACE = 0x7b
const OPEN_BRACKET = 0x5b
const QUOTE = 0x22

export type JsonValue = Buffer | string | JsonObject | readonly JsonObject[]

export class JsonObject {
  private constructor(private readonly members: Map<string, Buffer>) {}

  static empty(): JsonObject {
    return new JsonObject(new Map())
  }

  /** Returns null for anything but an object. */
  static parse(json: Buffer): JsonObject | null {
    if (json[skipSpace(json, 0)] !== OPEN_BRACE) return null
    const members = new Map<string, Buffer>()
    eachMember(json, 0, (name, start, end) => {
      members.set(name, json.subarray(start, end))
      return true
    })
    return new JsonObject(members)
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

  /** Changes the object that is a member; does nothing if there is none. */
  change(name: string, change: (inner: JsonObject) => JsonObject): this {
    const inner = this.object(name)
    return inner === null ? this : this.set(name, change(inner))
  }

  /** Changes each object of an array, and drops its other items; does nothing if there is no array. */
  changeEach(name: string, change: (item: JsonObject) => JsonObject): this {
    return this.setIfAny(name, this.objects(name)?.map(change))
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

/** Removes annotations, and the member that holds them if none is left. */
export function withoutAnnotations(object: JsonObject, names: readonly string[]): JsonObject {
  return object.change('metadata', (metadata) => {
    const annotations = metadata.object('annotations')
    for (const name of names) annotations?.delete(name)
    if (annotations === null || annotations.names().length === 0) return metadata.delete('annotations')
    return metadata.set('annotations', annotations)
  })
}

/** Returns the objects of a JSON array, null for any other value. */
export function parseArray(json: Buffer): JsonObject[] | null {
  if (json[skipSpace(json, 0)] !== OPEN_BRACKET) return null
  const items: JsonObject[] = []
  eachElement(json, 0, (start, end) => {
    const item = JsonObject.parse(json.subarray(start, end))
    if (item !== null) items.push(item)
  })
  return items
}

function encode(value: JsonValue): Buffer {
  if (Buffer.isBuffer(value)) return value
  if (typeof value === 'string') return Buffer.from(JSON.stringify(value), 'utf8')
  if (value instanceof JsonObject) return value.toBuffer()
  return Buffer.from(`[${value.map((item) => item.toBuffer().toString('utf8')).join(',')}]`, 'utf8')
}
