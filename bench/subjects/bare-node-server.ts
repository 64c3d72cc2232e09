/**
 * The minimum work of a Node server: it writes the same buffer to every socket with `socket.write`, and selects, keeps
 * and reads nothing. A pass begins when every socket has taken the previous one. Commands as in `native/send-loop.c`.
 *
 *   node bare-node-server.js [CERT KEY]
 */
import { readFileSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { createServer as createTlsServer } from 'node:tls'
import { MAGIC } from '../support/objects.js'
import { framedEvent } from './limit.js'

const [certFile, keyFile] = process.argv.slice(2)
const sockets: Socket[] = []
let sequence = 0

function serve(socket: Socket): void {
  socket.setNoDelay(true)
  socket.on('error', () => {})
  socket.once('data', () => {
    socket.write('HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n')
    sockets.push(socket)
  })
}

const server =
  certFile && keyFile
    ? createTlsServer({ cert: readFileSync(certFile), key: readFileSync(keyFile) }, serve)
    : createServer(serve)
server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 }, () => {
  const address = server.address()
  process.stdout.write(`{"event":"listening","port":${address && typeof address === 'object' ? address.port : 0}}\n`)
})

/** Returns a fresh buffer for each pass, because the previous one may still be in flight. */
function passBytes(event: Buffer, mark: number, events: number): Buffer {
  const stamp = process.hrtime.bigint().toString().padStart(18, '0')
  const parts = Array.from({ length: events }, (_, k) => {
    const copy = Buffer.from(event)
    copy.write(MAGIC + String(sequence + k).padStart(12, '0') + stamp, mark, 'latin1')
    return copy
  })
  return Buffer.concat(parts)
}

async function run(rate: number, count: number, ms: number, events: number): Promise<void> {
  const { bytes, mark } = framedEvent(1024)
  const first = sequence
  const begin = performance.now()
  while (sequence - first + events <= count) {
    const due = rate > 0 ? begin + ((sequence - first) / rate) * 1000 : 0
    const now = performance.now()
    if (now < due) {
      await new Promise((resolve) => setTimeout(resolve, Math.ceil(due - now)))
      continue
    }
    if (now - begin >= ms) break
    const pass = passBytes(bytes, mark, events)
    for (const socket of sockets) socket.write(pass)
    sequence += events
    for (const socket of sockets) {
      // 'drain' is emitted only after a write that returned false. The callback of an empty write comes after all
      // writes.
      if (socket.writableLength > 0 && !socket.destroyed) await new Promise((resolve) => socket.write('', resolve))
    }
    await new Promise((resolve) => setImmediate(resolve))
  }
  const seconds = (performance.now() - begin) / 1000
  process.stdout.write(`{"event":"ran","first":${first},"next":${sequence},"failed":0,"seconds":${seconds}}\n`)
}

createInterface({ input: process.stdin })
  .on('line', (line) => {
    const [name, rate, count, ms, events] = line.split(' ')
    if (name === 'run') void run(Number(rate), Number(count), Number(ms), Number(events))
  })
  .on('close', () => process.exit(0))
