/** Memory in use by this process, for tests of caches that count bytes. Such a test needs a process of its own. */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

/** @returns bytes of the heap and of buffers. */
export function memoryAfterCollection(): number {
  // The second collection waits until the buffers that the first one found are freed.
  collect()
  collect()
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return heapUsed + arrayBuffers
}
