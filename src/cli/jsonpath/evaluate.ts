/**
 * A parsed JSONPath template over an object. What is not there is left out, as kubectl does. Trees of `json-tree.ts` keep
 * numbers as they are written, and so do these.
 */
import { isNumber, type Json, JsonNumber, jsonText } from '../../codec/json-tree.js'
import type { Operand, Operator, Part, Path, Step } from './parse.js'

/** Values of one expression are separated by a space; objects and lists are JSON. */
export function renderTemplate(parts: readonly Part[], root: unknown): string {
  return render(parts, root, root)
}

function render(parts: readonly Part[], root: unknown, current: unknown): string {
  let text = ''
  for (const part of parts) {
    switch (part.kind) {
      case 'text':
        text += part.text
        break
      case 'path':
        text += evaluatePath(part.path, root, current).map(valueText).join(' ')
        break
      case 'range':
        for (const value of evaluatePath(part.path, root, current)) text += render(part.body, root, value)
        break
      default:
        part satisfies never
    }
  }
  return text
}

export function evaluatePath({ fromRoot, steps }: Path, root: unknown, current: unknown): readonly unknown[] {
  let values: readonly unknown[] = [fromRoot ? root : current]
  for (const step of steps) values = values.flatMap((value) => stepInto(step, value, root))
  return values
}

function stepInto(step: Step, value: unknown, root: unknown): readonly unknown[] {
  switch (step.kind) {
    case 'field':
      return isTree(value) && Object.hasOwn(value, step.name) ? [value[step.name]] : []
    case 'all':
      return isTree(value) || Array.isArray(value) ? Object.values(value) : []
    case 'descend':
      return below(value)
    case 'index':
      return slice(value, step.index, step.index + 1 === 0 ? null : step.index + 1, 1)
    case 'slice':
      return slice(value, step.start, step.end, step.step)
    case 'union':
      return step.of.flatMap((one) => stepInto(one, value, root))
    case 'filter':
      return (Array.isArray(value) ? (value as unknown[]) : []).filter((item) => {
        const [left] = operandValues(step.left, root, item)
        if (step.operator === null) return left !== undefined
        const [right] = operandValues(step.right!, root, item)
        return compare(left, step.operator, right)
      })
    default:
      return step satisfies never
  }
}

function isTree(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof JsonNumber)
}

function below(value: unknown): readonly unknown[] {
  if (!isTree(value) && !Array.isArray(value)) return [value]
  return [value, ...Object.values(value).flatMap(below)]
}

function slice(value: unknown, start: number | null, end: number | null, step: number): readonly unknown[] {
  if (!Array.isArray(value)) return []
  return (value as unknown[]).slice(start ?? 0, end ?? undefined).filter((_item, index) => index % step === 0)
}

function operandValues(operand: Operand, root: unknown, item: unknown): readonly unknown[] {
  return 'path' in operand ? evaluatePath(operand.path, root, item) : [operand.value]
}

function compare(left: unknown, operator: Operator, right: unknown): boolean {
  if (isNumber(left) && isNumber(right)) return isOrdered(compareNumbers(left, right), operator)
  if (operator === '==') return left === right
  if (operator === '!=') return left !== right
  if (typeof left !== 'string' || typeof right !== 'string') return false
  return isOrdered(left < right ? -1 : left > right ? 1 : 0, operator)
}

function isOrdered(order: number, operator: Operator): boolean {
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
      return operator satisfies never
  }
}

/** Negative, zero or positive; integers of any size are compared exactly. */
export function compareNumbers(left: number | JsonNumber, right: number | JsonNumber): number {
  if (typeof left === 'number' && typeof right === 'number') return left - right
  const [a, b] = [jsonText(left), jsonText(right)]
  if (!/^-?\d+$/.test(a) || !/^-?\d+$/.test(b)) return Number(a) - Number(b)
  const [bigA, bigB] = [BigInt(a), BigInt(b)]
  return bigA < bigB ? -1 : bigA > bigB ? 1 : 0
}

export function valueText(value: unknown): string {
  if (typeof value === 'string') return value
  return value === undefined ? '' : jsonText(value as Json)
}
