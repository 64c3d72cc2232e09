/**
 * Checks that the members of an object have the types that its kind declares, with the error messages of the API
 * server's decoder. An object with other types could be stored, but then no client in Go could read a list that
 * contains it.
 */
import { isNumber, isRecord, type Json, joinPath } from '../codec/json-tree.js'
import { GO_FORMATS } from '../codec/go-formats.js'
import type { Shape } from './shape.js'

const INTEGERS: Readonly<Record<string, readonly [least: bigint, most: bigint]>> = {
  int32: [-(2n ** 31n), 2n ** 31n - 1n],
  sint32: [-(2n ** 31n), 2n ** 31n - 1n],
  sfixed32: [-(2n ** 31n), 2n ** 31n - 1n],
  uint32: [0n, 2n ** 32n - 1n],
  fixed32: [0n, 2n ** 32n - 1n],
  int64: [-(2n ** 63n), 2n ** 63n - 1n],
  sint64: [-(2n ** 63n), 2n ** 63n - 1n],
  sfixed64: [-(2n ** 63n), 2n ** 63n - 1n],
  uint64: [0n, 2n ** 64n - 1n],
  fixed64: [0n, 2n ** 64n - 1n],
}
/** A longer string cannot be a 64-bit integer. */
const MAX_INTEGER_LENGTH = 20
/** Returns the problem with the first member of a wrong type; null if there is none. A null is always allowed. */
export function typeProblem(value: Json, shape: Shape, path: string[] = [], holder = ''): string | null {
  if (value === null) return null
  switch (shape.type) {
    case 'any': {
      if (shape.choose === undefined) return null
      const chosen = shape.choose(value)
      return chosen === null ? wrong(value, shape, path, holder) : typeProblem(value, chosen, path, holder)
    }
    case 'scalar':
      return scalarProblem(value, shape, path, holder)
    case 'list':
      if (!Array.isArray(value)) return wrong(value, shape, path, holder)
      for (const item of value) {
        const problem = typeProblem(item, shape.items, path, holder)
        if (problem !== null) return problem
      }
      return null
    case 'object':
    case 'map': {
      if (!isRecord(value)) return wrong(value, shape, path, holder)
      const here = shape.type === 'map' ? holder : (shape.goType.split('.').at(-1) ?? '')
      for (const name in value) {
        const member = shape.member(name)
        if (member === undefined) continue
        // As in Go, a path has the names of members but no map keys and list positions.
        if (shape.type === 'object') path.push(name)
        const problem = typeProblem(value[name]!, member, path, here)
        if (problem !== null) return problem
        if (shape.type === 'object') path.pop()
      }
      return null
    }
  }
}

function scalarProblem(value: Json, shape: Shape, path: string[], holder: string): string | null {
  const { scalar } = shape
  const integers = INTEGERS[scalar]
  if (integers !== undefined) return isInteger(value, integers) ? null : wrong(value, shape, path, holder)
  switch (scalar) {
    case 'string':
    case 'enum':
      return typeof value === 'string' ? null : wrong(value, shape, path, holder)
    case 'bool':
      return typeof value === 'boolean' ? null : wrong(value, shape, path, holder)
    case 'float':
    case 'double':
      return isNumber(value) ? null : wrong(value, shape, path, holder)
    case 'intorstring':
      return typeof value === 'string' || isInteger(value, INTEGERS['int32']!)
        ? null
        : wrong(value, shape, path, holder)
    case 'quantity':
      if (!isNumber(value) && typeof value !== 'string') return wrong(value, shape, path, holder)
      return GO_FORMATS[scalar]!(String(value))
    case 'bytes':
    case 'time':
    case 'microtime':
    case 'duration':
      if (typeof value !== 'string') return wrong(value, shape, path, holder)
      return GO_FORMATS[scalar]?.(value) ?? null
    default:
      return null
  }
}

function isInteger(value: Json, [least, most]: readonly [bigint, bigint]): boolean {
  if (!isNumber(value)) return false
  const text = String(value)
  if (text.length > MAX_INTEGER_LENGTH || !/^-?\d+$/.test(text)) return false
  const integer = BigInt(text)
  return integer >= least && integer <= most
}

function wrong(value: Json, { goType }: Shape, path: readonly string[], holder: string): string {
  const field = path.length === 0 ? 'Go value' : `Go struct field ${holder}.${joinPath([...path])}`
  return `json: cannot unmarshal ${nameOf(value)} into ${field} of type ${goType}`
}

function nameOf(value: Json): string {
  if (typeof value === 'boolean') return 'bool'
  if (typeof value === 'string') return 'string'
  if (Array.isArray(value)) return 'array'
  if (!isNumber(value)) return 'object'
  const text = String(value)
  return /^-?\d{1,9}$/.test(text) ? 'number' : `number ${text.slice(0, 64)}`
}
