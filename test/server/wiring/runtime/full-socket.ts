/** The memory of a slow reader over HTTP/1.1 is bounded only if the socket of a response reports when it is full. */
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { end } from './verdict.js'

const PIECE = Buffer.alloc(256 * 1024)
/** Far beyond what the kernel buffers for one connection. */
const PIECES = 128

const server = createServer((_, response) => {
  response.flushHeaders()
  const { socket } = response
  for (let i = 0; i < PIECES; i++) if (!socket!.write(PIECE)) end(true)
  end(false)
})
server.listen(0, '127.0.0.1', () => {
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
  client.pause()
  client.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n')
})
