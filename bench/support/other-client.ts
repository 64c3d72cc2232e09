/**
 * A thread that gets one object after another until it is sent a message, and then reports the delays. In the thread
 * that sends a burst this would measure how long that thread is busy.
 */
import { once } from 'node:events'
import { connect as connectHttp2 } from 'node:http2'
import { connect } from 'node:net'
import { parentPort, workerData } from 'node:worker_threads'
import { BYSTANDER } from './bad-requests.js'
import { askHttp2, type OtherClient } from './bursts.js'

const { port, localAddress } = workerData as { readonly port: number; readonly localAddress: string }
const session = connectHttp2(`http://127.0.0.1:${port}`, {
  createConnection: () => connect({ host: '127.0.0.1', port, localAddress, noDelay: true }),
})
await once(session, 'connect')
let isOver = false
parentPort!.once('message', () => (isOver = true))
parentPort!.postMessage('ready', [])
const took: number[] = []
do {
  const beganMs = performance.now()
  const status = await askHttp2(session, {
    path: BYSTANDER,
    user: 'neighbour',
    address: '203.0.113.254',
    isWatch: false,
  })
  if (status !== 200) throw new Error(`the other client was answered with ${status}`)
  took.push(performance.now() - beganMs)
} while (!isOver)
session.destroy()
took.sort((a, b) => a - b)
const at = (share: number): number => took[Math.min(took.length - 1, Math.floor(took.length * share))]!
parentPort!.postMessage({ p50Ms: at(0.5), p99Ms: at(0.99) } satisfies OtherClient, [])
