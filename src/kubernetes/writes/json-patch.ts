/**
 * Applies a JSON Patch to a tree as the API server does, which deviates from RFC 6902 in these ways:
 *
 * - A missing member reads as null, so "test" finds null there, and "replace" and "copy" create one.
 * - A missing value is null.
 * - A pointer need not begin with a slash.
 * - An index may count from the end of its array (`-1` is the last item).
 * - Numbers are equal if their text is.
 *
 * `test/reference/patches.ts` has recorded the API server's responses.
 *
 * A body of a few kilobytes must not cost seconds of work. The number of operations and of copied bytes has the API
 * server's limits. Every other value that an operation visits or moves counts as work, and the work of one patch is
 * limited. A library was rejected, because it compared arrays by their edit distance, in time and memory quadratic in
 * their length.
 */
import {
  cloneTree,
  isDeeperThan,
  isRecord,
  type Json,
  JsonNumber,
  jsonText,
  type JsonRecord,
  MAX_DUPLICATES,
  record,
} from '../codec/json-tree.js'
import { BadRequestError, InvalidError, RequestEntityTooLargeError } from '../model/status.js'
import { MAX_COPIED_BYTES, MAX_JSON_DEPTH, MAX_PATCH_OPERATIONS, MAX_PATCH_WORK } from '../model/limits.js'

/** One native call shifts the items of an array. Shifting this many items costs as much as visiting one value. */
const SHIFTED_PER_WORK = 64
const MEMBERS: ReadonlySet<string> = new Set(['op', 'path', 'from', 'value'])

/**
 * @param maxWork how many values may be visited.
 * @returns a new tree that shares nothing with the object or the patch.
 * @throws BadRequestError when `patch` is not a JSON Patch; InvalidError when it cannot be applied;
 * RequestEntityTooLargeError
 */
export function applyJsonPatch(object: JsonRecord, patch: Json, maxWork = MAX_PATCH_WORK): JsonRecord {
  const operations = operationsOf(patch)
  if (operations.length > MAX_PATCH_OPERATIONS) {
    throw new RequestEntityTooLargeError(
      `The allowed maximum operations in a JSON patch is ${MAX_PATCH_OPERATIONS}, got ${operations.length}`,
    )
  }
  const document = new PatchedDocument(object, maxWork)
  for (const operation of operations) document.apply(operation)
  return document.finish()
}

/** Returns the first unknown members of operations. @throws BadRequestError when a member has a wrong type. */
export function unknownPatchMembers(patch: Json): readonly string[] {
  const unknown: string[] = []
  for (const [i, operation] of operationsOf(patch).entries()) {
    for (const [name, value] of Object.entries(operation)) {
      if (!MEMBERS.has(name)) {
        if (unknown.length < MAX_DUPLICATES) unknown.push(`[${i}].${name}`)
      } else if (name !== 'value' && typeof value !== 'string' && value !== null) {
        throw new BadRequestError(`error decoding patch: ${name} of operation ${i} must be a string`)
      }
    }
  }
  return unknown
}

/** As in Go, a null patch is an empty patch, and a null operation has no members. @throws BadRequestError */
function operationsOf(patch: Json): readonly JsonRecord[] {
  if (patch === null) return []
  if (!Array.isArray(patch))
    throw new BadRequestError('error decoding patch: a JSON patch must be an array of operations')
  return patch.map((operation) => {
    if (operation === null) return record()
    if (isRecord(operation)) return operation
    throw new BadRequestError(
      `error decoding patch: ${jsonText(operation).slice(0, 100)} is not an operation of a JSON patch`,
    )
  })
}

class PatchedDocument {
  #document: JsonRecord
  #copiedBytes = 0
  #work = 0

  constructor(
    object: JsonRecord,
    private readonly maxWork: number,
  ) {
    this.#document = cloneTree(object)
  }

  apply(operation: JsonRecord): void {
    const value = (): Json => cloneTree(operation['value'] ?? null)
    const path = (): string => pointerOf(operation, 'path')
    const from = (): string => pointerOf(operation, 'from')
    switch (operation['op']) {
      case 'add':
        return this.#add(path(), value())
      case 'replace':
        return this.#replace(path(), value())
      case 'remove':
        return this.#remove(path())
      case 'move': {
        const moved = this.#get(from()) ?? null
        this.#remove(from())
        return this.#add(path(), moved)
      }
      case 'copy':
        return this.#add(path(), this.#copy(this.#get(from()) ?? null, 0))
      case 'test':
        return this.#test(path(), operation['value'])
      default:
        throw unprocessable(`${jsonText(operation['op'] ?? null).slice(0, 100)} is not an operation of a JSON patch`)
    }
  }

  /** @throws InvalidError for an object that is nested too deeply to be read again. */
  finish(): JsonRecord {
    if (isDeeperThan(this.#document, MAX_JSON_DEPTH)) throw tooDeep()
    return this.#document
  }

  /** Returns undefined for a missing member. */
  #get(pointer: string): Json | undefined {
    const { parent, name } = this.#placeOf(pointer)
    return valueIn(parent, name, pointer)
  }

  #add(pointer: string, value: Json): void {
    const { parent, name } = this.#placeOf(pointer)
    if (!Array.isArray(parent)) parent[name] = value
    else if (name === '-') parent.push(value)
    else {
      const index = indexIn(name, parent.length + 1, pointer)
      this.#spendShift(parent.length - index)
      parent.splice(index, 0, value)
    }
  }

  #replace(pointer: string, value: Json): void {
    if (pointer === '') {
      if (!isRecord(value)) throw unprocessable('the result is not an object')
      this.#document = value
      return
    }
    const { parent, name } = this.#placeOf(pointer)
    if (Array.isArray(parent)) parent[indexIn(name, parent.length, pointer)] = value
    else parent[name] = value
  }

  #remove(pointer: string): void {
    const { parent, name } = this.#placeOf(pointer)
    if (Array.isArray(parent)) {
      const index = indexIn(name, parent.length, pointer)
      this.#spendShift(parent.length - index)
      parent.splice(index, 1)
    } else if (Object.hasOwn(parent, name)) delete parent[name]
    else throw unprocessable(`there is no ${quote(pointer)}`)
  }

  /** @param wanted undefined if no value was given. */
  #test(pointer: string, wanted: Json | undefined): void {
    const value = pointer === '' ? this.#document : (this.#get(pointer) ?? null)
    const isEqual = wanted === undefined ? value === null : this.#equals(value, wanted)
    if (!isEqual) throw unprocessable(`testing value ${quote(pointer)} failed`)
  }

  #placeOf(pointer: string): { readonly parent: Json[] | JsonRecord; readonly name: string } {
    // Text before the first slash is ignored.
    const [, ...names] = pointer.split('/')
    const last = names.pop()
    let parent: Json | undefined = this.#document
    for (const name of names) {
      parent = valueIn(parent, unescapeName(name), pointer)
      if (!Array.isArray(parent) && !isRecord(parent)) throw unprocessable(`there is no ${quote(pointer)}`)
    }
    if (last === undefined) throw unprocessable(`${quote(pointer)} is not a path in the object`)
    return { parent, name: unescapeName(last) }
  }

  #copy(value: Json, depth: number): Json {
    if (depth > MAX_JSON_DEPTH) throw tooDeep()
    this.#spend(1)
    if (Array.isArray(value)) {
      this.#spendCopied(2 + value.length)
      return value.map((item) => this.#copy(item, depth + 1))
    }
    if (!isRecord(value)) {
      this.#spendCopied(value instanceof JsonNumber ? value.text.length : JSON.stringify(value).length)
      return value
    }
    this.#spendCopied(2)
    const copy = record()
    for (const name in value) {
      this.#spendCopied(4 + name.length)
      copy[name] = this.#copy(value[name]!, depth + 1)
    }
    return copy
  }

  /** @param wanted is part of the patch, so it is never too deep for recursion. */
  #equals(value: Json, wanted: Json): boolean {
    this.#spend(1)
    if (value instanceof JsonNumber) return wanted instanceof JsonNumber && value.text === wanted.text
    if (Array.isArray(value)) {
      return (
        Array.isArray(wanted) &&
        value.length === wanted.length &&
        value.every((item, i) => this.#equals(item, wanted[i]!))
      )
    }
    if (!isRecord(value)) return value === wanted
    if (!isRecord(wanted)) return false
    const names = Object.keys(value)
    return (
      names.length === Object.keys(wanted).length &&
      names.every((name) => Object.hasOwn(wanted, name) && this.#equals(value[name]!, wanted[name]!))
    )
  }

  #spendShift(items: number): void {
    this.#spend(Math.ceil(items / SHIFTED_PER_WORK))
  }

  #spend(work: number): void {
    this.#work += work
    if (this.#work > this.maxWork) throw new RequestEntityTooLargeError('the JSON patch is too expensive to apply')
  }

  #spendCopied(bytes: number): void {
    this.#copiedBytes += bytes
    if (this.#copiedBytes > MAX_COPIED_BYTES)
      throw unprocessable(`the patch copies more than ${MAX_COPIED_BYTES} bytes`)
  }
}

function pointerOf(operation: JsonRecord, member: 'path' | 'from'): string {
  const pointer = operation[member]
  if (typeof pointer === 'string') return pointer
  throw unprocessable(`${jsonText(operation['op'] ?? null)} needs a ${member}`)
}

function valueIn(parent: Json[] | JsonRecord, name: string, pointer: string): Json | undefined {
  if (Array.isArray(parent)) return parent[indexIn(name, parent.length, pointer)]!
  return Object.hasOwn(parent, name) ? parent[name] : undefined
}

/** Parses an index as Go's Atoi does. @param length the number of valid indices. */
function indexIn(name: string, length: number, pointer: string): number {
  const index = /^[-+]?\d+$/.test(name) ? Number(name) : NaN
  const fromStart = index < 0 ? index + length : Math.abs(index)
  if (fromStart >= 0 && fromStart < length) return fromStart
  throw unprocessable(`${quote(name)} of ${quote(pointer)} is not an index of its array`)
}

function unescapeName(name: string): string {
  return name.includes('~') ? name.replaceAll('~1', '/').replaceAll('~0', '~') : name
}

function tooDeep(): InvalidError {
  return unprocessable(`the result is nested more than ${MAX_JSON_DEPTH} deep`)
}

function quote(text: string): string {
  return JSON.stringify(text.length > 200 ? `${text.slice(0, 200)}…` : text)
}

function unprocessable(why: string): InvalidError {
  return new InvalidError(`the server rejected our request due to an error in our request: ${why}`, { details: {} })
}
