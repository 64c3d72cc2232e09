/**
 * V8 heap flags, where V8's defaults do not suit a server that passes on large values for months.
 *
 * V8 lets the heap of a slowly allocating process grow only a little, and counts the buffers of events as growth: at
 * 300 events a second over 10,000 objects it marked the whole heap every 1.3 s (bench/README.md). The cost of marking
 * grows with the heap. The heap holds the facts about objects; their bytes are outside it, and these flags do not make
 * them grow.
 *
 * V8 also allocates directly in the old generation at an allocation site most of whose objects have survived so far,
 * which is what it observes while all objects are listed. Nearly all of the events that follow are short-lived, but a
 * short array of them in the old generation stays until the next marking, together with the bytes that etcd sent.
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

/** Returns the flags that the operator has not set either way. */
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
