/**
 * How far V8 lets its heap grow before it marks all of it again.
 *
 * By itself V8 lets the heap of a process that allocates slowly grow by a tenth, and counts the buffers of events as growth:
 * at 300 events a second over 10,000 objects that is a full collection every second or two, and a third of all CPU.
 * Marking costs as much as there is in the heap, so when the heap may double, an event costs the same however many objects
 * there are. The heap holds what is known of objects; their bytes are outside and do not grow by this.
 */
import { setFlagsFromString } from 'node:v8'

const GROWING_PERCENT = 100

/** A flag of the operator's own is left alone. */
export function letHeapGrow(nodeFlags: readonly string[]): void {
  const isSet = nodeFlags.some((flag) => /^--heap[-_]growing[-_]percent\b/.test(flag))
  if (!isSet) setFlagsFromString(`--heap-growing-percent=${GROWING_PERCENT}`)
}
