/** Applies a written scale: it changes the number of replicas. */
import { ensureRecord, isNumber, type JsonRecord, member } from '../codec/json-tree.js'
import type { ScalePaths } from '../dialect/resource-registry.js'
import { SCALE } from '../dialect/scale.js'
import { InvalidError } from '../../engine/model/status.js'
import { type FieldProblem, invalid, wrongType } from './field-errors.js'

/** @throws InvalidError */
export function readReplicas(scale: JsonRecord, name: string): number {
  const replicas = member(scale, 'spec', 'replicas') ?? 0
  const problems: FieldProblem[] = []
  if (!isNumber(replicas)) problems.push(wrongType('spec.replicas', typeof replicas, 'must be an integer'))
  else if (typeof replicas !== 'number' || !Number.isInteger(replicas) || replicas < 0 || replicas > 0x7fff_ffff) {
    problems.push(invalid('spec.replicas', replicas, 'must be greater than or equal to 0'))
  }
  if (problems.length > 0) throw InvalidError.forFields(SCALE.kind, SCALE.group, name, problems)
  return replicas as number
}

/** Changes `object`. */
export function setReplicas(object: JsonRecord, replicas: number, paths: ScalePaths): void {
  let at = object
  for (const name of paths.specReplicas.slice(0, -1)) at = ensureRecord(at, name)
  at[paths.specReplicas.at(-1)!] = replicas
}
