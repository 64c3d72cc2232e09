/**
 * The default memory target of one process: a share of the container's limit. When a server is killed for its memory,
 * every watch ends. When it rejects a list instead, no watch ends.
 */
import { totalmem } from 'node:os'
import type { Config } from '../config/load.js'
import { processesOf } from '../config/relations.js'

const SHARE = 0.85
/** The minimum for `--memory-target`. A process with a smaller share would reject everything. */
const MIN_BYTES = 128 * 1024 * 1024

/**
 * @param limitBytes the limit of the container; 0 for none.
 * @param processes the number of processes that share it.
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
 * Returns the memory target of one process: with workers, the primary and each worker have an equal share. Returns null
 * for no target.
 */
export function memoryTargetOf(config: Pick<Config, 'memoryTarget' | 'workers'>): number | null {
  const { memoryTarget, workers } = config
  const processes = processesOf(workers)
  return memoryTarget === null ? defaultMemoryTarget(processes) : Math.floor(memoryTarget / processes)
}
