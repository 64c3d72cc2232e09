/**
 * Sets V8's heap flags where the defaults do not suit a server that passes on large values for months.
 *
 * V8 lets the heap of a slowly allocating process grow only a little between two markings, and it counts the buffers of
 * events as growth. At 300 events a second over 10,000 objects, it marked the whole heap every 1.3 s (bench/README.md).
 * The cost of marking grows with the heap. The heap holds the facts about objects. The bytes of objects are outside the
 * heap, so these flags do not let them grow.
 *
 * If most objects of an allocation site have survived so far, V8 allocates later objects of that site directly in the
 * old generation. That is the case after all objects have been listed. But nearly all of the later events are
 * short-lived, and even a short array of them in the old generation stays until the next marking, together with the
 * bytes that etcd sent.
 */
import { setFlagsFromString } from 'node:v8'

const GROWTH = '--heap-growing-percent'
const FLAGS = [`${GROWTH}=100`, '--no-allocation-site-pretenuring']
/**
 * While memory is short, the heap may grow by this percentage before V8 marks again. With a target of 200 MiB and V8's
 * usual growth, the garbage of 200 rejected TLS connections per second took 40 MB.
 */
const SHORT_PERCENT = 20

/** @param given the operator's own flags, which take precedence. */
export function setHeapFlags(given: readonly string[]): void {
  for (const flag of heapFlags(given)) setFlagsFromString(flag)
}

/** Returns our flags, except those that the operator has set or unset. */
export function heapFlags(given: readonly string[]): readonly string[] {
  const names = new Set(given.map(nameOf))
  return FLAGS.filter((flag) => !names.has(nameOf(flag)))
}

/** Lets the heap grow less while memory is short, at the cost of more marking. V8 applies it after the next marking. */
export function setHeapGrowth(isShort: boolean, given: readonly string[]): void {
  const flag = heapFlags(given).find((name) => nameOf(name) === nameOf(GROWTH))
  if (flag !== undefined) setFlagsFromString(isShort ? `${GROWTH}=${SHORT_PERCENT}` : flag)
}

/** V8 treats dashes and underscores alike. */
function nameOf(flag: string): string {
  return flag
    .replace(/=.*/, '')
    .replaceAll('_', '-')
    .replace(/^--(no-)?/, '')
}
