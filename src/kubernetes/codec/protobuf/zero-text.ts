/** The JSON of fields that are absent on the wire but must be written, as Go writes their zero values. */
import type { PlanField } from './plan.js'
import { ZERO_QUANTITY } from './special-values.js'

const NULL = Buffer.from('null', 'latin1')
const FALSE = Buffer.from('false', 'latin1')
const ZERO = Buffer.from('0', 'latin1')
const ZERO_DURATION = Buffer.from('"0s"', 'latin1')
export const EMPTY_STRING = Buffer.from('""', 'latin1')

export function zeroText(field: PlanField): Buffer {
  switch (field.type) {
    case 'string':
      return EMPTY_STRING
    case 'bool':
      return FALSE
    case 'quantity':
      return ZERO_QUANTITY
    case 'duration':
      return ZERO_DURATION
    case 'bytes':
    case 'time':
    case 'microtime':
    case 'json':
    case 'message':
      return NULL
    case 'enum':
      return Buffer.from(JSON.stringify(field.enumNames?.get(0) ?? 0), 'utf8')
    default:
      return ZERO
  }
}
