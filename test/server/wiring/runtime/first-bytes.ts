/**
 * HTTP/2 without TLS needs this: the first bytes of a connection show its protocol before the HTTP/1.1 server reads
 * them.
 */
import { createServer } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { end } from './verdict.js'

const server = createServer()
// Bun parses them itself, and sees a malformed request.
server.on('clientError', () => end(false))
server.removeAllListeners('connection')
server.on('connection', (socket: Socket) => {
  socket.on('data', (bytes: Buffer) => end(bytes.toString('latin1', 0, 3) === 'PRI'))
})
server.listen(0, '127.0.0.1', () => {
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
  client.on('error', () => {})
  client.on('close', () => end(false))
  client.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
})
