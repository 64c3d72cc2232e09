/**
 * Applies a JSON Patch (RFC 6902) to a tree. As with the API server, an index may count from the end of its array (`-1`
 * is the last item), and numbers are equal when they are written alike.
 *
 * A body of a few kilobytes must not cost seconds of work. The number of operations and of copied bytes has the API
 * server's bounds. All other values that an operation visits or moves count as work, and a patch may do a fixed amount
 * of it. A library was rejected: it compared arrays by their edit distance, in time and memory quadratic in their
 * length.
 */
import { MAX_JSON_DEPTH } from '../codec/json-scan.js'
import { cloneTree, isRecord, type Json, JsonNumber, jsonText, type JsonRecord, record } from '../codec/json-tree.js'
import { BadRequestError, InvalidError, RequestEntityTooLargeError } from '../../engine/model/status.js'

/** The API server's bound. */
const MAX_OPERATIONS = 10_000
/**
 * The most bytes that one patch may copy, which is the API server's bound: a few lines that each double a member would
 * fill memory.
 */
const MAX_COPIED_BYTES = 3 * 1024 * 1024
/** The most values that one patch may visit. The largest body holds fewer than half of that. */
const MAX_WORK = 4_000_000
/** Items of an array are shifted by one native call: shifting this many costs as much as visiting one value. */
const SHIFTED_PER_WORK = 64
const NAMES = ['add', 'remove', 'replace', 'move', 'copy', 'test'] as const

interface Operation {
  readonly op: (typeof NAMES)[number]
  readonly path: string
  /** The pointer is '' when the operation has none. */
  readonly from: string
  readonly value: Json
}

/**
 * @param maxWork how many values may be visited.
 * @returns a new tree, which shares nothing with the object or the patch.
 * @throws BadRequestError when it is not a patch; InvalidError when it cannot be applied; RequestEntityTooLargeError
 */
export function applyJsonPatch(object: JsonRecord, patch: Json, maxWork = MAX_WORK): JsonRecord {
  if (!Array.isArray(patch)) throw new BadRequestError('a JSON patch must be an array of operations')
  if (patch.length > MAX_OPERATIONS) {
    throw new RequestEntityTooLargeError(
      `The allowed maximum operations in a JSON patch is ${MAX_OPERATIONS}, got ${patch.length}`,
    )
  }
  const document = new PatchedDocument(object, maxWork)
  for (const operation of patch) document.apply(operationOf(operation))
  return document.finish()
}

function operationOf(operation: Json): Operation {
  const op = isRecord(operation) ? NAMES.find((name) => name === operation['op']) : undefined
  if (!isRecord(operation) || op === undefined) {
    const named = jsonText((isRecord(operation) ? operation['op'] : undefined) ?? null).slice(0, 100)
    throw new BadRequestError(`error decoding patch: ${named} is no operation of a JSON patch`)
  }
  const { path, from, value } = operation
  const needsFrom = op === 'copy' || op === 'move'
  if (!isPointer(path) || (needsFrom && !isPointer(from))) {
    throw new BadRequestError(`error decoding patch: ${op} needs a path that begins with "/"`)
  }
  if (value === undefined && (op === 'add' || op === 'replace' || op === 'test')) {
    throw new BadRequestError(`error decoding patch: ${op} needs a value`)
  }
  return { op, path, from: needsFrom && isPointer(from) ? from : '', value: value ?? null }
}

function isPointer(value: Json | undefined): value is string {
  return typeof value === 'string' && (value === '' || value.startsWith('/'))
}

class PatchedDocument {
  /**
   * The document is stored as the only member of this holder, so a pointer to the whole document is no special case.
   */
  readonly #holder: JsonRecord
  #copiedBytes = 0
  #work = 0

  constructor(
    object: JsonRecord,
    private readonly maxWork: number,
  ) {
    this.#holder = record({ '': cloneTree(object) })
  }

  apply({ op, path, from, value }: Operation): void {
    switch (op) {
      case 'add':
        return this.#add(path, cloneTree(value))
      case 'replace':
        return this.#replace(path, cloneTree(value))
      case 'remove':
        this.#remove(path)
        return
      case 'move':
        if (path.startsWith(`${from}/`)) throw unprocessable(`${quote(from)} cannot be moved into itself`)
        return this.#add(path, this.#remove(from))
      case 'copy':
        return this.#add(path, this.#copy(this.#get(from), 0))
      case 'test':
        if (!this.#equals(this.#get(path), value)) throw unprocessable(`testing value ${quote(path)} failed`)
    }
  }

  /** @throws InvalidError when no object is left, or one that is nested too deeply to be read again. */
  finish(): JsonRecord {
    const document = this.#holder['']
    if (!isRecord(document)) throw unprocessable('it leaves no object')
    requireDepth(document, MAX_JSON_DEPTH)
    return document
  }

  #get(pointer: string): Json {
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
    const { parent, name } = this.#placeOf(pointer)
    valueIn(parent, name, pointer)
    if (Array.isArray(parent)) parent[indexIn(name, parent.length, pointer)] = value
    else parent[name] = value
  }

  #remove(pointer: string): Json {
    if (pointer === '') throw unprocessable('the whole object cannot be removed')
    const { parent, name } = this.#placeOf(pointer)
    const value = valueIn(parent, name, pointer)
    if (Array.isArray(parent)) {
      const index = indexIn(name, parent.length, pointer)
      this.#spendShift(parent.length - index)
      parent.splice(index, 1)
    } else delete parent[name]
    return value
  }

  #placeOf(pointer: string): { readonly parent: Json[] | JsonRecord; readonly name: string } {
    const names = pointer.split('/')
    const last = names.pop()!
    let parent: Json = this.#holder
    for (const name of names) {
      parent = valueIn(parent, unescapeName(name), pointer)
      if (!Array.isArray(parent) && !isRecord(parent)) throw unprocessable(`there is no ${quote(pointer)}`)
    }
    return { parent: parent as Json[] | JsonRecord, name: unescapeName(last) }
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

  /** @param wanted comes from the patch, so it is never too deep for recursion. */
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
    if (this.#work > this.maxWork) throw new RequestEntityTooLargeError('the JSON patch is too much work to apply')
  }

  #spendCopied(bytes: number): void {
    this.#copiedBytes += bytes
    if (this.#copiedBytes > MAX_COPIED_BYTES) throw unprocessable(`it copies more than ${MAX_COPIED_BYTES} bytes`)
  }
}

function valueIn(parent: Json, name: string, pointer: string): Json {
  if (Array.isArray(parent)) return parent[indexIn(name, parent.length, pointer)]!
  if (!isRecord(parent) || !Object.hasOwn(parent, name)) throw unprocessable(`there is no ${quote(pointer)}`)
  return parent[name]!
}

/** @param length the number of valid indices. */
function indexIn(name: string, length: number, pointer: string): number {
  const index = /^-?(0|[1-9]\d{0,9})$/.test(name) ? Number(name) : NaN
  const fromStart = name.startsWith('-') && index !== 0 ? index + length : index
  if (fromStart >= 0 && fromStart < length) return fromStart
  throw unprocessable(`${quote(name)} of ${quote(pointer)} is no index of its array`)
}

function unescapeName(name: string): string {
  return name.includes('~') ? name.replaceAll('~1', '/').replaceAll('~0', '~') : name
}

function requireDepth(value: Json, levels: number): void {
  if (levels < 0) throw tooDeep()
  if (Array.isArray(value)) for (const item of value) requireDepth(item, levels - 1)
  else if (isRecord(value)) for (const name in value) requireDepth(value[name]!, levels - 1)
}

function tooDeep(): InvalidError {
  return unprocessable(`it leaves an object that is nested more than ${MAX_JSON_DEPTH} deep`)
}

function quote(text: string): string {
  return JSON.stringify(text.length > 200 ? `${text.slice(0, 200)}…` : text)
}

function unprocessable(why: string): InvalidError {
  return new InvalidError(`the server rejected our request due to an error in our request: ${why}`, { details: {} })
}
