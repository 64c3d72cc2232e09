/** The other side of `thread-pool.ts`: what a thread's program calls to be given its jobs. */
import { parentPort } from 'node:worker_threads'
import type { FromThread, ToThread } from './thread-pool.js'

/** Calls a function of the pool's side. @returns what it returned. */
export type CallBack = (name: string, ...values: readonly unknown[]) => Promise<unknown>

/** @param perform makes a value of a message; whatever it throws ends the thread. */
export function serveJobs(perform: (message: unknown, call: CallBack) => Promise<unknown>): void {
  const port = parentPort
  if (port === null) throw new RangeError('jobs are served by threads alone')
  const post = (message: FromThread): void => port.postMessage(message)
  const returns = new Map<number, (value: unknown) => void>()
  let lastCall = 0
  const call: CallBack = (name, ...values) =>
    new Promise((resolve) => {
      returns.set(++lastCall, resolve)
      post({ kind: 'call', call: lastCall, name, values })
    })
  const run = async (message: unknown): Promise<void> => post({ kind: 'done', value: await perform(message, call) })
  port.on('message', (message: ToThread) => {
    if (message.kind === 'job') return void run(message.message)
    returns.get(message.call)?.(message.value)
    returns.delete(message.call)
  })
  post({ kind: 'started' })
}
