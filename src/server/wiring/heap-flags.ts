/**
 * How V8 keeps its heap, where what it does by itself does not suit a server that hands on large values for months.
 *
 * It lets the heap of a process that allocates slowly grow by little, and counts the buffers of events as growth: at 300
 * events a second over 10,000 objects all of it was marked every 1.3 s (bench/README.md). Marking costs as much as there is in the
 * heap. The heap holds what is known of objects; their bytes are outside, and do not grow by this.
 *
 * And it allocates what a place in the code makes among the old objects, once most of what that place made before has stayed: so it
 * learns from a list of all objects. Of the events that follow nearly all goes at once, but a short list of them among the old
 * objects is there until the next marking, and the bytes that etcd sent with it.
 */
import { setFlagsFromString } from 'node:v8'

const FLAGS = ['--heap-growing-percent=100', '--no-allocation-site-pretenuring']

/** @param given flags of the operator's own, which are left alone. */
export function setHeapFlags(given: readonly string[]): void {
  for (const flag of heapFlags(given)) setFlagsFromString(flag)
}

/** The flags that nobody has set either way. */
export function heapFlags(given: readonly string[]): readonly string[] {
  const names = new Set(given.map(nameOf))
  return FLAGS.filter((flag) => !names.has(nameOf(flag)))
}

/** V8 takes dashes and underscores alike. */
function nameOf(flag: string): string {
  return flag
    .replace(/=.*/, '')
    .replaceAll('_', '-')
    .replace(/^--(no-)?/, '')
}
