/** Workers need this: a child opens a socket to its parent from a descriptor that it inherited. */
import { spawn } from 'node:child_process'
import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { end } from './verdict.js'

const DESCRIPTOR = 4

if (process.argv[2] === 'child') {
  const socket = new Socket({ fd: DESCRIPTOR, readable: true, writable: true })
  socket.on('error', () => process.exit(1))
  socket.end('from the child')
} else {
  const child = spawn(process.execPath, [process.argv[1]!, 'child'], {
    stdio: ['ignore', 'ignore', 'ignore', 'ipc', 'pipe'],
  })
  const socket = child.stdio[DESCRIPTOR] as Duplex
  let read = ''
  socket.on('error', () => {})
  socket.on('data', (chunk: Buffer) => (read += chunk.toString()))
  socket.on('close', () => end(read === 'from the child'))
}
