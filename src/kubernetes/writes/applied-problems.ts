/**
 * Finds what prevents a configuration from being applied: fields that its kind does not declare, values of the wrong
 * type, and list items without a distinct key. The messages are structured-merge-diff's, with maps and lists
 * shortened.
 */
import { extendPath, isNumber, isRecord, type Json } from '../codec/json-tree.js'
import { elementOf, elementText } from './field-set.js'
import type { Shape } from './shape.js'

/** The most problems reported for one configuration. */
const MAX_REPORTED = 100
/** Longer explanations are cut, because keys and values may be as long as the body. */
const MAX_LENGTH = 2048

/** @returns null if the configuration can be applied. */
export function appliedProblem(configuration: Json, shape: Shape): string | null {
  const problems: string[] = []
  visit(configuration, shape, '', problems)
  if (problems.length === 0) return null
  return problems.length === 1 ? problems[0]! : ['errors:', ...problems.map((problem) => `  ${problem}`)].join('\n')
}

function visit(value: Json, shape: Shape, path: string, problems: string[]): void {
  if (value === null || shape.type === 'any' || problems.length >= MAX_REPORTED) return
  const wrong = (why: string): void => add(problems, path, why)
  switch (shape.type) {
    case 'scalar': {
      const why = scalarProblem(value, shape.scalar)
      if (why !== null) wrong(why)
      return
    }
    case 'list':
      if (Array.isArray(value)) visitItems(value, shape, path, problems)
      else wrong(`expected list, got ${shown(value)}`)
      return
    case 'object':
    case 'map':
      if (!isRecord(value)) return wrong(`expected map, got ${shown(value)}`)
      for (const name in value) {
        const member = shape.member(name)
        if (member !== undefined) visit(value[name]!, member, memberPath(path, name), problems)
        else if (!shape.keepsUnknown) return add(problems, memberPath(path, name), 'field not declared in schema')
      }
      return
  }
}

function visitItems(list: readonly Json[], shape: Shape, path: string, problems: string[]): void {
  const seen = new Set<string>()
  for (const [i, item] of list.entries()) {
    if (problems.length >= MAX_REPORTED) return
    if (shape.list === 'atomic') {
      visit(item, shape.items, extendPath(path, `[${i}]`), problems)
      continue
    }
    const element = elementOf(item, shape)
    if (element === null) {
      // Items of a built-in kind are not checked for a key, because their keys default to ''.
      if (isRecord(item) && shape.goType !== '') {
        visit(item, shape.items, extendPath(path, `[${i}]`), problems)
        continue
      }
      return add(problems, path, `element ${i}: ${whyNoElement(item, shape)}`)
    }
    const text = elementText(element)
    if (seen.has(element)) add(problems, path, `duplicate entries for key ${text}`)
    seen.add(element)
    visit(item, shape.items, extendPath(path, text), problems)
  }
}

function add(problems: string[], path: string, why: string): void {
  problems.push(path === '' ? cut(why) : `${path}: ${cut(why)}`)
}

function memberPath(path: string, name: string): string {
  return extendPath(extendPath(path, '.'), name)
}

function cut(text: string): string {
  return text.length > MAX_LENGTH ? `${text.slice(0, MAX_LENGTH)}…` : text
}

function whyNoElement(item: Json, { list, keys }: Shape): string {
  if (list === 'set') {
    if (isRecord(item)) return "associative list without keys has an element that's a map type"
    return Array.isArray(item)
      ? 'not supported: associative list with lists as elements'
      : "associative list without keys has an element that's an explicit null"
  }
  if (item === null) return 'associative list with keys may not have a null element'
  if (!isRecord(item)) return 'associative list with keys may not have non-map elements'
  const names = keys.map((key) => JSON.stringify(key)).join(' ')
  return `associative list with keys has an element that omits all key fields [${names}] (and doesn't have default values for any key fields)`
}

const TEXTS: ReadonlySet<string> = new Set(['string', 'enum', 'bytes', 'time', 'microtime', 'duration'])
const UNTYPED: ReadonlySet<string> = new Set(['', 'quantity', 'intorstring'])

function scalarProblem(value: Json, scalar: string): string | null {
  if (TEXTS.has(scalar)) {
    return typeof value === 'string' ? null : `expected string, got &value.valueUnstructured{Value:${bare(value)}}`
  }
  if (UNTYPED.has(scalar)) return isContainer(value) ? `expected any scalar, got ${shown(value)}` : null
  if (scalar === 'bool') return typeof value === 'boolean' ? null : `expected boolean, got ${shown(value)}`
  return isNumber(value) ? null : `expected numeric (int or float), got ${goType(value)}`
}

function isContainer(value: Json): boolean {
  return Array.isArray(value) || isRecord(value)
}

function shown(value: Json): string {
  return `&{${bare(value)}}`
}

/** Shortens maps and lists, which Go would print in full in its own notation. */
function bare(value: Json): string {
  if (isRecord(value)) return `map[${Object.keys(value).sort().join(' ')}]`
  return Array.isArray(value) ? `[${value.length} items]` : String(value)
}

function goType(value: Json): string {
  if (Array.isArray(value)) return '[]interface {}'
  return isRecord(value) ? 'map[string]interface {}' : typeof value === 'boolean' ? 'bool' : 'string'
}
