/** The thread's side of `thread-pool.ts`: a thread's program calls this to receive jobs. */
import { parentPort, type Transferable } from 'node:worker_threads'
import type { FromThread, ToThread } from './thread-pool.js'

/**
 * Calls a function on the pool's side.
 * @param transfer memory to transfer to the other side with the values, instead of copying it.
 * @returns its result.
 */
export type CallBack = (
  name: string,
  values?: readonly unknown[],
  transfer?: readonly Transferable[],
) => Promise<unknown>

/**
 * @param perform computes a value from a message. An error in it ends the thread.
 * @param transferOf returns memory to transfer to the other side with a value, instead of copying it.
 */
export function serveJobs<T>(
  perform: (message: unknown, call: CallBack) => Promise<T>,
  transferOf: (value: T) => readonly Transferable[] = () => [],
): void {
  const port = parentPort
  if (port === null) throw new RangeError('jobs are served by threads alone')
  const post = (message: FromThread, transfer: readonly Transferable[] = []): void =>
    port.postMessage(message, transfer)
  const returns = new Map<number, (value: unknown) => void>()
  let lastCall = 0
  const call: CallBack = (name, values = [], transfer = []) =>
    new Promise((resolve) => {
      returns.set(++lastCall, resolve)
      post({ kind: 'call', call: lastCall, name, values }, transfer)
    })
  const run = async (message: unknown): Promise<void> => {
    const value = await perform(message, call)
    post({ kind: 'done', value }, transferOf(value))
  }
  port.on('message', (message: ToThread) => {
    if (message.kind === 'job') return void run(message.message)
    returns.get(message.call)?.(message.value)
    returns.delete(message.call)
  })
  post({ kind: 'started' })
}

/** Returns the underlying memory if the bytes fill all of it, so that it can be transferred instead of copied. */
export function ownMemory(bytes: Uint8Array): readonly Transferable[] {
  const { buffer } = bytes
  return buffer instanceof ArrayBuffer && buffer.byteLength === bytes.byteLength ? [buffer] : []
}
