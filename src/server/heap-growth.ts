/**
 * How far V8 lets its heap grow before it marks all of it again.
 *
 * By itself V8 lets the heap of a process that allocates slowly grow by little, and counts the buffers of events as growth: at
 * 300 events a second over 10,000 objects all of it was marked every 1.3 s (bench/README.md). Marking costs as much as there is
 * in the heap. The heap holds what is known of objects; their bytes are outside, and do not grow by this.
 */
import { setFlagsFromString } from 'node:v8'

const GROWING_PERCENT = 100

/** A flag of the operator's own is left alone. */
export function letHeapGrow(nodeFlags: readonly string[]): void {
  const isSet = nodeFlags.some((flag) => /^--heap[-_]growing[-_]percent\b/.test(flag))
  if (!isSet) setFlagsFromString(`--heap-growing-percent=${GROWING_PERCENT}`)
}
