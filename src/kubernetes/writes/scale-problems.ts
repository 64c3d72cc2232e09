/** Checks the replicas of a custom resource, which its `scale` subresource reads as integers of 32 bits. */
import { JsonNumber, type JsonRecord } from '../codec/json-tree.js'
import { integerAt, pathText } from '../dialect/scale.js'
import type { ScalePaths } from '../dialect/resource-registry.js'
import { NoScaleError } from '../model/status.js'
import { type FieldProblem, invalid } from './field-errors.js'

const MAX_REPLICAS = 0x7fff_ffffn

/** @param object with its numbers as they were sent: for Go, `2.0` is not an integer. */
export function scaleProblems(object: JsonRecord, { specReplicas, statusReplicas }: ScalePaths): FieldProblem[] {
  return [specReplicas, statusReplicas].flatMap((path) => {
    const name = pathText(path)
    try {
      // A null counts as absent, as for a built-in kind.
      const replicas = integerAt(object, path, { isBuiltIn: true }) ?? 0n
      const shown = new JsonNumber(String(replicas))
      if (replicas < 0n) return [invalid(name, shown, 'should be a non-negative integer')]
      return replicas <= MAX_REPLICAS ? [] : [invalid(name, shown, `should be less than or equal to ${MAX_REPLICAS}`)]
    } catch (error) {
      if (!(error instanceof NoScaleError)) throw error
      return [invalid(name, 0, error.message)]
    }
  })
}
