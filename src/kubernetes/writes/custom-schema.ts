/**
 * Reports each field of a custom resource that violates its schema.
 *
 * CEL rules (`x-kubernetes-validations`) are not evaluated.
 *
 * Source: "Extend the Kubernetes API with CustomResourceDefinitions" of the Kubernetes documentation.
 */
import { exactCopy } from '../codec/exact-json.js'
import { isRecord, type Json, joinPath, type JsonRecord, treeFrom } from '../codec/json-tree.js'
import { duplicate, type FieldProblem } from './field-errors.js'
import { elementOf } from './field-set.js'
import type { Schema } from './schema-keywords.js'
import { schemaProblems } from './schema-validator.js'
import type { Shape } from './shape.js'
import { MAX_PROBLEMS } from '../model/limits.js'

/**
 * @param shape the shape made from the same schema.
 * @param onUnusable receives parts of a stored schema that cannot be checked here. Those parts then allow everything.
 */
export function customProblems(
  object: JsonRecord,
  schema: Schema,
  shape: Shape,
  onUnusable: (problem: string) => void = () => {},
): readonly FieldProblem[] {
  const problems = [...schemaProblems(schema, object, { maxProblems: MAX_PROBLEMS, onUnusable })]
  const { metadata: _, ...own } = object
  findRepeated(own, shape, [], problems)
  return problems
}

/** Finds duplicate items of sets and keyed lists. */
function findRepeated(value: Json, shape: Shape, path: string[], problems: FieldProblem[]): void {
  const into = (name: string, inner: Json, innerShape: Shape): void => {
    if (problems.length >= MAX_PROBLEMS || innerShape.type === 'any' || innerShape.type === 'scalar') return
    path.push(name)
    findRepeated(inner, innerShape, path, problems)
    path.pop()
  }
  if (Array.isArray(value)) {
    if (shape.type === 'list' && shape.list !== 'atomic') findRepeatedItems(value, shape, path, problems)
    value.forEach((item, i) => into(`[${i}]`, item, shape.items))
  } else if (isRecord(value)) {
    for (const name in value) {
      const inner = shape.member(name)
      if (inner !== undefined) into(name, value[name]!, inner)
    }
  }
}

function findRepeatedItems(
  items: readonly Json[],
  shape: Shape,
  path: readonly string[],
  problems: FieldProblem[],
): void {
  const seen = new Set<string>()
  for (const [i, item] of items.entries()) {
    const element = elementOf(item, shape)
    if (element === null) continue
    if (seen.has(element)) problems.push(duplicate(joinPath([...path, `[${i}]`]), exactCopy(keysOf(item, shape))))
    if (problems.length >= MAX_PROBLEMS) return
    seen.add(element)
  }
}

function keysOf(item: Json, { keys, list }: Shape): Json {
  if (list === 'set' || !isRecord(item)) return item
  return treeFrom(Object.fromEntries(keys.map((key) => [key, item[key]])))
}
