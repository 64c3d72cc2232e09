/**
 * Lets V8's helper threads give way to the event loop. V8 marks and sweeps its heap in four threads with the same
 * priority as the main thread. Without separate processors, these threads take the main thread's time. On a single
 * processor, the event loop got a fifth of the time during marking, and events were 70 to 140 ms late. At a low
 * priority, the threads use the time that the event loop leaves. If that is too little, V8 marks in short steps between
 * other work.
 *
 * Node has no API for this, so the threads are found by their ids: Node starts them before all others.
 */
import { opendirSync } from 'node:fs'
import { setPriority } from 'node:os'

/**
 * Gives each thread a tenth of the event loop's scheduling weight, so that marking and compiling still make progress
 * under full load.
 */
const NICENESS = 10
/** Node's default number of helper threads. */
const HELPERS = 4

export function yieldToEventLoop(): void {
  if (process.platform !== 'linux' || process.versions['bun'] !== undefined) return
  try {
    // The helper threads come after the main thread and a thread that only starts delayed tasks.
    for (const thread of threads().slice(2, 2 + HELPERS)) setPriority(thread, NICENESS)
  } catch {
    // In a sandbox without the proc file system or the system call, all threads keep their priority.
  }
}

/** The threads of this process in the order of their start. */
function threads(): number[] {
  const found: number[] = []
  const directory = opendirSync('/proc/self/task')
  try {
    for (let entry = directory.readSync(); entry !== null; entry = directory.readSync()) found.push(Number(entry.name))
  } finally {
    directory.closeSync()
  }
  return found
}
