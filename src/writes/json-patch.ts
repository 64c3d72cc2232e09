/**
 * JSON Patch (RFC 6902), by a library. The tree is handed to it as plain values, in which a number that would lose digits is
 * a marked string, and taken back: the library copies what it moves and knows nothing of our numbers.
 */
import { applyPatch, type Operation } from 'rfc6902'
import { isRecord, type Json, JsonNumber, type JsonRecord, record } from '../codec/json-tree.js'
import { BadRequestError, InvalidError, RequestEntityTooLargeError } from '../model/status.js'

/** The API server's bound. */
const MAX_OPERATIONS = 10_000
/** All that is copied in one patch, the API server's bound: a few lines that each double a member would fill memory. */
const MAX_COPIED_BYTES = 3 * 1024 * 1024
const NAMES: readonly string[] = ['add', 'remove', 'replace', 'move', 'copy', 'test']
/** Before a number's text. A string that begins with it gets it twice. */
const MARK = '\u0000#'
const TEXT = '\u0000"'

/** @throws BadRequestError when it is no patch; InvalidError when it cannot be applied; RequestEntityTooLargeError */
export function applyJsonPatch(object: JsonRecord, patch: Json): JsonRecord {
  if (!Array.isArray(patch)) throw new BadRequestError('a JSON patch must be an array of operations')
  if (patch.length > MAX_OPERATIONS) {
    throw new RequestEntityTooLargeError(
      `The allowed maximum operations in a JSON patch is ${MAX_OPERATIONS}, got ${patch.length}`,
    )
  }
  const document = mark(object)
  let copiedBytes = 0
  for (const operation of patch) {
    const checked = operationOf(operation)
    if (checked.op === 'copy') copiedBytes += JSON.stringify(valueAt(document, checked.from) ?? null).length
    if (copiedBytes > MAX_COPIED_BYTES) throw unprocessable(`it copies more than ${MAX_COPIED_BYTES} bytes`)
    const [problem] = applyPatch(document, [checked])
    if (problem !== undefined && problem !== null) throw unprocessable(problem.message)
  }
  const patched = unmark(document)
  if (!isRecord(patched)) throw unprocessable('it leaves no object')
  return patched
}

function operationOf(operation: Json): Operation {
  const op = isRecord(operation) ? operation['op'] : undefined
  if (!isRecord(operation) || typeof op !== 'string' || !NAMES.includes(op)) {
    throw new BadRequestError(`error decoding patch: ${JSON.stringify(op ?? null)} is no operation of a JSON patch`)
  }
  const { path, from, value } = operation
  for (const pointer of op === 'copy' || op === 'move' ? [path, from] : [path]) {
    if (typeof pointer !== 'string' || (pointer !== '' && !pointer.startsWith('/'))) {
      throw new BadRequestError(`error decoding patch: ${op} needs a path that begins with "/"`)
    }
    // The library steps over this name, and would write somewhere else.
    if (pointer.split('/').includes('__proto__')) throw unprocessable('no path goes through __proto__')
  }
  if (value === undefined && (op === 'add' || op === 'replace' || op === 'test')) {
    throw new BadRequestError(`error decoding patch: ${op} needs a value`)
  }
  return { op, path, ...(from === undefined ? {} : { from }), value: mark(value ?? null) } as Operation
}

/** undefined: there is none, which is for the library to say. */
function valueAt(document: unknown, pointer: string): unknown {
  let at = document
  for (const token of pointer.split('/').slice(1)) {
    const name = token.replaceAll('~1', '/').replaceAll('~0', '~')
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, name)) return undefined
    at = (at as Record<string, unknown>)[name]
  }
  return at
}

function unprocessable(why: string): InvalidError {
  return new InvalidError(`the server rejected our request due to an error in our request: ${why}`, { details: {} })
}

function mark(value: Json): unknown {
  if (value instanceof JsonNumber) return MARK + value.text
  if (typeof value === 'string') return value.startsWith('\u0000') ? TEXT + value : value
  if (Array.isArray(value)) return value.map(mark)
  if (!isRecord(value)) return value
  const copy = Object.create(null) as Record<string, unknown>
  for (const name in value) copy[name] = mark(value[name]!)
  return copy
}

function unmark(value: unknown): Json {
  if (typeof value === 'string') {
    if (value.startsWith(MARK)) return new JsonNumber(value.slice(MARK.length))
    return value.startsWith(TEXT) ? value.slice(TEXT.length) : value
  }
  if (Array.isArray(value)) return value.map(unmark)
  if (typeof value !== 'object' || value === null) return value as Json
  const copy = record()
  for (const [name, member] of Object.entries(value)) copy[name] = unmark(member)
  return copy
}
