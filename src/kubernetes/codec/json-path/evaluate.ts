/**
 * Evaluates a JSONPath on an object as client-go does. A missing field is skipped, while a step that does not fit its
 * value (an index beyond the end, a filter over an object, a comparison of an integer with a string) is an error.
 *
 * Objects are trees of `json-tree.ts`, or plain trees of `JSON.parse` if all numbers are exact. Go iterates over maps
 * in random order; here members keep the order in which they were written.
 */
import { isNumber, isRecord, type Json, JsonNumber } from '../json-tree.js'
import { type GoNumber, goNumber } from '../../../engine/facts/numbers.js'
import type { JsonPath, JsonPathNode, Literal, Slice } from './parse.js'
import { ANY_WORK, type Work } from './work.js'

export class JsonPathError extends Error {
  override readonly name = 'JsonPathError'

  constructor(
    message: string,
    /** The input of the failed step. If it is not empty, a filter without a comparison selects the item. */
    readonly found: readonly Json[],
  ) {
    super(message)
  }
}

/**
 * Returns every value that the path leads to.
 * @param work the limit on work. Default: none.
 * @throws JsonPathError; TooMuchWorkError.
 */
export function evaluatePath(path: JsonPath, value: Json, work = ANY_WORK): readonly Json[] {
  return walk(path, [value], work)
}

function walk(path: JsonPath, input: readonly Json[], work: Work): readonly Json[] {
  let values = input
  for (const node of path) values = step(node, values, work)
  return values
}

function step(node: JsonPathNode, values: readonly Json[], work: Work): readonly Json[] {
  work.visit(1 + values.length)
  switch (node.kind) {
    case 'text':
      return [node.text]
    case 'literal':
      return values.map(() => literal(node.value))
    case 'field':
      return values.flatMap((value) =>
        isRecord(value) && Object.hasOwn(value, node.name) ? [value[node.name] as Json] : [],
      )
    case 'wildcard':
      return values.flatMap((value) => children(value, work))
    case 'recursive':
      return descend(values, work)
    case 'slice':
      return sliceEach(node, values, work)
    case 'union':
      return node.paths.flatMap((path) => walk(path, values, work))
    case 'filter':
      return values.flatMap((value) => filterItems(node, value, values, work))
    case 'word':
      throw new JsonPathError(`unrecognized identifier ${node.word}`, values)
  }
}

function literal(value: Literal): Json {
  return typeof value === 'boolean' ? value : new JsonNumber(value.number)
}

/** The children of a string are its bytes, as in Go. */
function children(value: Json, work: Work): readonly Json[] {
  if (typeof value === 'string') {
    work.visit(value.length)
    return [...Buffer.from(value)]
  }
  const found = Array.isArray(value) ? value : isRecord(value) ? Object.values(value) : []
  work.visit(found.length)
  return found
}

/** Returns every value that contains others, each before its children. */
function descend(values: readonly Json[], work: Work): readonly Json[] {
  const found: Json[] = []
  const visit = (value: Json): void => {
    if (typeof value === 'string') {
      if (value !== '') found.push(value)
      return
    }
    const below = children(value, work)
    if (below.length > 0) found.push(value)
    for (const one of below) visit(one)
  }
  for (const value of values) visit(value)
  return found
}

function sliceEach(slice: Slice, values: readonly Json[], work: Work): readonly Json[] {
  const found: Json[] = []
  for (const value of values) {
    if (value === null) continue
    if (!Array.isArray(value)) throw new JsonPathError('the value is not an array or a slice', values)
    const { length } = value
    let start = slice.start ?? 0
    // An index such as `[3]` ends one after its start as written.
    let end = slice.isIndex ? start + 1 : (slice.end ?? length)
    if (start < 0) start += length
    if (end < 0 || (end === 0 && slice.isIndex)) end += length
    // As in Go, an empty slice also ends the step for the values after it.
    if (start === end) return found
    if (start >= length || start < 0)
      throw new JsonPathError(`array index out of bounds: ${start} of ${length}`, values)
    if (end > length || end < 0) throw new JsonPathError(`array index out of bounds: ${end - 1} of ${length}`, values)
    if (start > end) throw new JsonPathError(`starting index ${start} is greater than ending index ${end}`, values)
    const stride = slice.step ?? 1
    if (stride <= 0) throw new JsonPathError('step must be > 0', values)
    work.visit(Math.ceil((end - start) / stride))
    for (let i = start; i < end; i += stride) found.push(value[i]!)
  }
  return found
}

type Filter = JsonPathNode & { readonly kind: 'filter' }

function filterItems(filter: Filter, value: Json, input: readonly Json[], work: Work): readonly Json[] {
  if (!Array.isArray(value))
    throw new JsonPathError('the value is not an array or a slice and cannot be filtered', input)
  const { operator } = filter
  if (operator === null) return value.filter((item) => leads(filter.left, item, work))
  return value.filter((item) => {
    const left = onlyValue(filter.left, item, input, work)
    if (left === undefined) return false
    const right = onlyValue(filter.right, item, input, work)
    if (right === undefined) return false
    if (typeof left === 'string' && typeof right === 'string') work.read(left)
    return compare(left, operator, right, input)
  })
}

function leads(path: JsonPath, item: Json, work: Work): boolean {
  try {
    return walk(path, [item], work).length > 0
  } catch (error) {
    if (error instanceof JsonPathError) return error.found.length > 0
    throw error
  }
}

/** Returns the only value that the path finds; undefined when it finds none. */
function onlyValue(path: JsonPath, item: Json, input: readonly Json[], work: Work): Json | undefined {
  const found = walk(path, [item], work)
  if (found.length > 1) throw new JsonPathError('can only compare one element at a time', input)
  return found[0]
}

function compare(left: Json, operator: string, right: Json, input: readonly Json[]): boolean {
  const order = orderOf(left, right, input)
  if (typeof left === 'boolean' && operator !== '==' && operator !== '!=') {
    throw new JsonPathError('invalid type for comparison', input)
  }
  switch (operator) {
    case '==':
      return order === 0
    case '!=':
      return order !== 0
    case '<':
      return order < 0
    case '<=':
      return order <= 0
    case '>':
      return order > 0
    case '>=':
      return order >= 0
    default:
      throw new JsonPathError(`unrecognized filter operator ${operator}`, input)
  }
}

/**
 * Returns a negative number, zero or a positive one. Values of different kinds, such as an integer and a float, are not
 * comparable.
 */
function orderOf(left: Json, right: Json, input: readonly Json[]): number {
  if (typeof left === 'string' && typeof right === 'string')
    return Buffer.compare(Buffer.from(left), Buffer.from(right))
  if (typeof left === 'boolean' && typeof right === 'boolean') return Number(left) - Number(right)
  if (isNumber(left) && isNumber(right)) {
    const [a, b] = [goNumber(left), goNumber(right)]
    if (a.kind === b.kind) return compareGoNumbers(a, b)
  }
  throw new JsonPathError('incompatible types for comparison', input)
}

function compareGoNumbers(a: GoNumber, b: GoNumber): number {
  const [x, y] = [a.kind === 'int' ? a.int : a.float, b.kind === 'int' ? b.int : b.float]
  return x < y ? -1 : x > y ? 1 : 0
}
