/**
 * The default memory target of one process: a share of the container's limit. A server that is killed for its memory
 * takes every watch with it; one that refuses a list does not.
 */
import { totalmem } from 'node:os'
import type { Config } from '../config/load.js'
import { processesOf } from '../config/relations.js'

const SHARE = 0.85
/** The minimum for `--memory-target`. With a smaller share a process would refuse everything. */
const MIN_BYTES = 128 * 1024 * 1024

/**
 * @param limitBytes of the container; 0 for none.
 * @param processes that share it.
 * @returns null if there is no limit below the machine's own memory, or too little is left.
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

/**
 * Returns the memory target of one process: with workers, the primary and each worker have an equal share. null for
 * none.
 */
export function memoryTargetOf(config: Pick<Config, 'memoryTarget' | 'workers'>): number | null {
  const { memoryTarget, workers } = config
  const processes = processesOf(workers)
  return memoryTarget === null ? defaultMemoryTarget(processes) : Math.floor(memoryTarget / processes)
}
