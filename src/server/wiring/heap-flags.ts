/**
 * V8 heap flags, for where its defaults do not suit a server that passes on large values for months.
 *
 * V8 lets the heap of a slowly allocating process grow only a little, and counts the buffers of events as growth: at
 * 300 events a second over 10,000 objects it marked the whole heap every 1.3 s (bench/README.md). Marking costs as much
 * as there is in the heap. The heap holds what is known about objects; their bytes are outside, and these flags do not
 * make them grow.
 *
 * V8 also allocates at an allocation site directly in the old generation once most of what the site allocated before
 * has survived, which it learns from listing all objects. Of the events that follow nearly all die at once, but a short
 * array of them in the old generation stays until the next marking, together with the bytes that etcd sent.
 */
import { setFlagsFromString } from 'node:v8'

const FLAGS = ['--heap-growing-percent=100', '--no-allocation-site-pretenuring']

/** @param given the operator's own flags, which take precedence. */
export function setHeapFlags(given: readonly string[]): void {
  for (const flag of heapFlags(given)) setFlagsFromString(flag)
}

/** Returns the flags that the operator has not set either way. */
export function heapFlags(given: readonly string[]): readonly string[] {
  const names = new Set(given.map(nameOf))
  return FLAGS.filter((flag) => !names.has(nameOf(flag)))
}

/** V8 treats dashes and underscores alike. */
function nameOf(flag: string): string {
  return flag
    .replace(/=.*/, '')
    .replaceAll('_', '-')
    .replace(/^--(no-)?/, '')
}
