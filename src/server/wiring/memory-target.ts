/**
 * The memory that one process may take when nobody has said so: a share of what the container has. A server that is
 * killed for its memory takes every watch with it, and one that refuses a list does not.
 */
import { totalmem } from 'node:os'
import type { Config } from '../config/load.js'
import { processesOf } from '../config/relations.js'

const SHARE = 0.85
/** The least that `--memory-target` takes. A smaller share would refuse everything. */
const MIN_BYTES = 128 * 1024 * 1024

/**
 * @param limitBytes of the container; 0 for none.
 * @param processes that share it.
 * @returns null where there is no limit below the machine's own memory, or where too little is left.
 */
export function defaultMemoryTarget(
  processes: number,
  limitBytes = process.constrainedMemory(),
  machineBytes = totalmem(),
): number | null {
  if (limitBytes <= 0 || limitBytes >= machineBytes) return null
  const share = Math.floor((limitBytes * SHARE) / processes)
  return share < MIN_BYTES ? null : share
}

/** The memory target of one process: with workers, the primary and each of them have an equal share. null: none. */
export function memoryTargetOf(config: Pick<Config, 'memoryTarget' | 'workers'>): number | null {
  const { memoryTarget, workers } = config
  const processes = processesOf(workers)
  return memoryTarget === null ? defaultMemoryTarget(processes) : Math.floor(memoryTarget / processes)
}
