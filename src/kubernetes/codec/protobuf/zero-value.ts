/** What Go writes for a field that is not set, by the field's type. */
import type { Json } from '../json-tree.js'
import type { Field } from './schema.js'
import { SCALAR_WIRE_TYPES } from './wire.js'

/** Types that are structs in Go, although most are text or a number in JSON. Go writes them even when empty. */
export function isStruct({ type }: Pick<Field, 'type'>): boolean {
  return !Object.hasOwn(SCALAR_WIRE_TYPES, type)
}

/** Returns the zero value of one value of the field. */
export function zeroOf({ type, enumNames }: Pick<Field, 'type' | 'enumNames'>): Json {
  switch (type) {
    case 'string':
    case 'bytes':
      return ''
    case 'bool':
      return false
    case 'quantity':
      return '0'
    case 'duration':
      return '0s'
    case 'time':
    case 'microtime':
    case 'json':
    case 'message':
      return null
    case 'enum':
      return enumNames?.get(0) ?? 0
    default:
      return 0
  }
}
