/**
 * JSON as a tree that can be changed and serialized without loss, for writes and patches. Objects that are only served
 * are never parsed (`json-scan.ts`).
 *
 * A number that JavaScript would write differently (an integer above 2^53, `1.0`, `1e3`, `-0`) is a `JsonNumber` with
 * its text. Other numbers are plain, so that a schema validator can read them. Objects have no prototype, so
 * `__proto__` is a member like any other. The last of duplicate members wins, and the paths of duplicates are
 * reported.
 */
import { isUtf8 } from 'node:buffer'
import { OPEN_BRACE, OPEN_BRACKET, QUOTE } from '../../support/json-walk.js'
import { JsonCursor } from './json-cursor.js'
import { type JsonNumbers } from './json-scan.js'
import { decodeString } from '../../engine/facts/json-strings.js'
import { encodedNumber, goNumber } from '../../engine/facts/numbers.js'
import { MAX_JSON_DEPTH } from '../model/limits.js'

/** A value that is written as it was read. */
class JsonText {
  constructor(readonly text: string) {}

  toString(): string {
    return this.text
  }
}

/** A number whose text cannot be restored from its value. */
export class JsonNumber extends JsonText {}

export interface JsonRecord {
  [name: string]: Json
}

export type Json = null | boolean | number | string | JsonText | Json[] | JsonRecord

export interface ParsedJson {
  readonly value: Json
  /** The duplicate members, as the API server's strict decoder reports them: `duplicate field "spec.replicas"`. */
  readonly duplicates: readonly string[]
}

export function isRecord(value: unknown): value is JsonRecord {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof JsonText)
}

export function isNumber(value: unknown): value is number | JsonNumber {
  return typeof value === 'number' || value instanceof JsonNumber
}

/** Returns an object of a tree, with the given members. */
export function record(members: Readonly<Record<string, Json>> = {}): JsonRecord {
  return Object.assign(Object.create(null) as JsonRecord, members)
}

/** Returns the tree's form of a number: a JsonNumber if JavaScript would write it differently. */
export function numberFromText(text: string): number | JsonNumber {
  const value = Number(text)
  return String(value) === text && Number.isFinite(value) ? value : new JsonNumber(text)
}

/** Returns the number as Go stores it: integers of 64 bits with all their digits, others as doubles, and no `-0`. */
export function storedNumber(number: JsonNumber): number | JsonNumber {
  const text = encodedNumber(goNumber(number))
  return numberFromText(text === '-0' ? '0' : text)
}

/** Writes all numbers and text inside as Go does, which knows no halves of surrogate pairs. @param value is changed. */
export function goJson(value: JsonRecord | Json[]): void {
  if (Array.isArray(value)) value.forEach((item, i) => (value[i] = goOne(item)))
  else {
    for (const name of Object.keys(value)) {
      const member = goOne(value[name]!)
      const text = name.toWellFormed()
      if (text !== name) delete value[name]
      value[text] = member
    }
  }
}

function goOne(value: Json): Json {
  if (typeof value === 'string') return value.toWellFormed()
  if (value instanceof JsonNumber) return storedNumber(value)
  if (Array.isArray(value) || isRecord(value)) goJson(value)
  return value
}

/**
 * Finds numbers that may print differently from how they are written: a fraction, an exponent, many digits, a negative
 * zero.
 */
const SUSPECT_NUMBER = /(?:"\s*:|[,[])\s*((?:-0|-?\d{16}|-?\d+[.eE])[\d.eE+-]*)/g

/** Whether `JSON.stringify` prints each number exactly as written in this JSON. */
export function hasUsualNumbers(json: string): boolean {
  for (const [, number] of json.matchAll(SUSPECT_NUMBER)) if (String(Number(number)) !== number) return false
  return true
}

/**
 * @param numbers `float64` refuses numbers that no double can hold, because Go clients cannot read a list with one.
 * @throws SyntaxError when the bytes are not one JSON value in UTF-8, or nest too deeply.
 */
export function parseJsonTree(bytes: Buffer, numbers: JsonNumbers = 'any'): ParsedJson {
  if (!isUtf8(bytes)) throw new SyntaxError('it is not UTF-8')
  // `JSON.parse` only checks the grammar here, because the parser below assumes valid JSON.
  JSON.parse(bytes.toString('utf8'))
  const reader = new Reader(bytes, MAX_JSON_DEPTH, MAX_DUPLICATES, numbers === 'float64')
  const value = reader.value()
  return { value, duplicates: [...reader.duplicates] }
}

/**
 * Reads bytes that are known to be one JSON value in UTF-8, such as those of an object in the cache. It takes half as
 * long as `parseJsonTree`.
 * @param unread the names of members whose objects and lists become a `JsonText`.
 * @throws SyntaxError when it nests too deeply.
 */
export function readJsonTree(bytes: Buffer, maxDepth = MAX_JSON_DEPTH, unread?: ReadonlySet<string>): Json {
  return new Reader(bytes, maxDepth, 0, false, unread).value()
}

/**
 * Like `readJsonTree`, but takes a fraction of the time if JavaScript can represent every number exactly. The objects may have a prototype, so the caller must not change
 * them, nor read members with the names of those that every JavaScript object inherits.
 */
export function readPlainTree(bytes: Buffer): Json {
  const text = bytes.toString('utf8')
  return hasUsualNumbers(text) ? (JSON.parse(text) as Json) : readJsonTree(bytes)
}

/** Returns null, as for the JSON `null`, for text that is not JSON. */
export function parseJsonText(text: string): Json {
  try {
    return parseJsonTree(Buffer.from(text)).value
  } catch {
    return null
  }
}

/**
 * The API server's limit for distinct duplicates. Here repeated ones count as well, because each needs the text of
 * its path, which can be as long as the body.
 */
export const MAX_DUPLICATES = 100

export function duplicateField(path: string): string {
  return `duplicate field ${JSON.stringify(path)}`
}

const MAX_SHOWN_DIGITS = 40

class Reader extends JsonCursor {
  readonly duplicates = new Set<string>()
  private readonly path: string[] = []

  /** @param duplicatesLeft the most duplicates to report. */
  constructor(
    json: Buffer,
    private readonly maxDepth: number,
    private duplicatesLeft: number,
    private readonly refusesBeyondDouble = false,
    private readonly unread?: ReadonlySet<string>,
  ) {
    super(json)
  }

  value(): Json {
    const { json } = this
    switch (this.peek()) {
      case OPEN_BRACE:
        return this.object()
      case OPEN_BRACKET: {
        const items: Json[] = []
        for (let i = 0; this.next(); i++) items.push(this.child(`[${i}]`))
        return items
      }
      case QUOTE:
        return decodeString(json, this.pass(), this.at)
      default: {
        const text = json.toString('latin1', this.pass(), this.at)
        return text === 'null' ? null : text === 'true' ? true : text === 'false' ? false : this.number(text)
      }
    }
  }

  private number(text: string): number | JsonNumber {
    const number = numberFromText(text)
    if (this.refusesBeyondDouble && number instanceof JsonNumber && !Number.isFinite(Number(text))) {
      const shown = text.length > MAX_SHOWN_DIGITS ? `${text.slice(0, MAX_SHOWN_DIGITS)}…` : text
      const where = this.path.length === 0 ? '' : ` at ${joinPath(this.path)}`
      throw new SyntaxError(`the number ${shown}${where} is beyond a 64-bit float`)
    }
    return number
  }

  private object(): JsonRecord {
    const members = record()
    while (this.next()) {
      const key = this.name()
      if (this.duplicatesLeft > 0 && Object.hasOwn(members, key)) {
        this.duplicatesLeft--
        this.duplicates.add(duplicateField(joinPath([...this.path, key])))
      }
      members[key] = this.unread?.has(key) === true && this.isContainer() ? this.text() : this.child(key)
    }
    return members
  }

  private isContainer(): boolean {
    const first = this.peek()
    return first === OPEN_BRACE || first === OPEN_BRACKET
  }

  private text(): JsonText {
    return new JsonText(this.json.toString('utf8', this.pass(), this.at))
  }

  private child(name: string): Json {
    if (this.path.length >= this.maxDepth) throw new SyntaxError(`it is nested more than ${this.maxDepth} deep`)
    this.path.push(name)
    const value = this.value()
    this.path.pop()
    return value
  }
}

/**
 * The longest path in a message. Names can be as long as the body, and a hundred problems may share one as their
 * prefix.
 */
const MAX_PATH_LENGTH = 2_048

/** Returns a path such as `spec.containers[0].image` for a message, cut at 2,048 characters. */
export function joinPath(names: readonly string[]): string {
  let path = ''
  for (const name of names) path = extendPath(name.startsWith('[') || path === '' ? path : extendPath(path, '.'), name)
  return path
}

/** Appends to a path in a message, with the same limit. */
export function extendPath(path: string, step: string): string {
  const left = MAX_PATH_LENGTH - path.length
  if (left < 0) return path
  // Only the step is cut: a slice of the joined text would keep the whole text in memory.
  return step.length <= left ? path + step : `${path}${step.slice(0, left)}…`
}

export function encodeJsonTree(value: Json): Buffer {
  return Buffer.from(jsonText(value), 'utf8')
}

/** Matches text without anything that JSON escapes. The test takes less time than escaping. */
const UNESCAPED = /^[ !#-[\]-~]*$/

function quoted(text: string): string {
  return UNESCAPED.test(text) ? `"${text}"` : JSON.stringify(text)
}

export function jsonText(value: Json): string {
  if (typeof value === 'string') return quoted(value)
  if (value instanceof JsonText) return value.text
  if (Array.isArray(value)) return `[${value.map(jsonText).join(',')}]`
  if (!isRecord(value)) return JSON.stringify(value)
  let text = '{'
  for (const name in value) {
    text += `${text.length === 1 ? '' : ','}${quoted(name)}:${jsonText(value[name]!)}`
  }
  return `${text}}`
}

export function goJsonText(value: Json): string {
  return escapedForPages(jsonText(value))
}

/** Also escapes the characters that Go's encoder escapes in every text, so that web pages can embed the JSON. */
export function escapedForPages(json: string): string {
  return json.replace(/[<>&\u2028\u2029]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** Returns the same text for equal trees, so that one can be looked up among many. */
export function canonicalText(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(canonicalText).join(',')}]`
  if (!isRecord(value)) return jsonText(value)
  const members = Object.keys(value)
    .sort()
    .map((name) => `${JSON.stringify(name)}:${canonicalText(value[name]!)}`)
  return `{${members.join(',')}}`
}

/** Whether containers are nested more than `levels` deep. */
export function isDeeperThan(value: Json, levels: number): boolean {
  if (Array.isArray(value)) return levels === 0 || value.some((item) => isDeeperThan(item, levels - 1))
  if (!isRecord(value)) return false
  if (levels === 0) return true
  for (const name in value) if (isDeeperThan(value[name]!, levels - 1)) return true
  return false
}

/** Copies a tree deeply. Numbers are shared, since they never change. */
export function cloneTree<T extends Json>(value: T): T
export function cloneTree(value: Json): Json {
  if (Array.isArray(value)) return value.map((item) => cloneTree(item))
  if (!isRecord(value)) return value
  const copy = record()
  for (const name in value) copy[name] = cloneTree(value[name]!)
  return copy
}

/** Compares by value: the order of members does not matter, the text of a number does. */
export function equalTrees(a: Json | undefined, b: Json | undefined): boolean {
  if (a === b) return true
  if (a instanceof JsonText || b instanceof JsonText) {
    return a instanceof JsonText && b instanceof JsonText && a.text === b.text
  }
  if (Array.isArray(a)) {
    return Array.isArray(b) && a.length === b.length && a.every((item, i) => equalTrees(item, b[i]))
  }
  if (!isRecord(a) || !isRecord(b)) return false
  const names = Object.keys(a)
  return (
    names.length === Object.keys(b).length &&
    names.every((name) => Object.hasOwn(b, name) && equalTrees(a[name], b[name]))
  )
}

/** Converts plain JavaScript values, such as those from `JSON.parse`, `exact-json.ts` or our own tables. */
export function treeFrom(value: unknown): Json {
  if (Array.isArray(value)) return value.map(treeFrom)
  if (typeof value === 'number' || typeof value === 'bigint') return numberFromText(String(value))
  if (typeof value === 'boolean' || typeof value === 'string' || value instanceof JsonNumber) return value
  if (typeof value !== 'object' || value === null) return null
  const copy = record()
  for (const [name, member] of Object.entries(value)) if (member !== undefined) copy[name] = treeFrom(member)
  return copy
}

/** Returns a member of an object of the tree; undefined when there is none, or when the value is not an object. */
export function member(value: Json | undefined, ...path: readonly string[]): Json | undefined {
  let at = value
  for (const name of path) {
    if (!isRecord(at) || !Object.hasOwn(at, name)) return undefined
    at = at[name]
  }
  return at
}

/** Returns '' for anything but a string. */
export function textMember(value: Json | undefined, ...path: readonly string[]): string {
  const found = member(value, ...path)
  return typeof found === 'string' ? found : ''
}

/** Returns null for anything but an object. */
export function recordAt(value: Json | undefined, ...path: readonly string[]): JsonRecord | null {
  const found = member(value, ...path)
  return isRecord(found) ? found : null
}

/** Returns the objects of a list, without its other items. */
export function recordsAt(value: Json | undefined, ...path: readonly string[]): JsonRecord[] {
  const found = member(value, ...path)
  return Array.isArray(found) ? found.filter(isRecord) : []
}

/** Whether it has no members, or is absent. */
export function isEmptyRecord(value: JsonRecord | null): boolean {
  for (const _name in value) return false
  return true
}

export function renameMember(object: JsonRecord, from: string, to: string): void {
  const value = object[from]
  if (value === undefined) return
  delete object[from]
  object[to] = value
}

/** Sets a member, and creates the missing objects along the path. */
export function setMember(root: JsonRecord, path: readonly string[], value: Json): void {
  let at = root
  for (const name of path.slice(0, -1)) at = ensureRecord(at, name)
  at[path.at(-1)!] = value
}

/** Returns the object at `name`, created if there is none (or something else). */
export function ensureRecord(parent: JsonRecord, name: string): JsonRecord {
  const present = parent[name]
  if (isRecord(present)) return present
  return (parent[name] = record())
}
