/**
 * A client that sends its headers a byte at a time over TLS is ended by the deadline for headers, which a server with
 * HTTP/2 must also apply to HTTP/1.1.
 */
import { readFileSync } from 'node:fs'
import { createSecureServer } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { connect } from 'node:tls'
import { end } from './verdict.js'

const [, , keyFile = '', certFile = ''] = process.argv
const server = createSecureServer({ key: readFileSync(keyFile), cert: readFileSync(certFile), allowHTTP1: true })
Object.assign(server, { headersTimeout: 200, connectionsCheckingInterval: 50 })
server.listen(0, '127.0.0.1', () => {
  const client = connect({
    port: (server.address() as AddressInfo).port,
    host: '127.0.0.1',
    rejectUnauthorized: false,
    ALPNProtocols: ['http/1.1'],
  })
  client.on('error', () => {})
  client.on('secureConnect', () => client.write('GET / HTTP/1.1\r\nHost'))
  client.on('close', () => end(true))
  client.resume()
  // Without a deadline the connection would never end: waiting ten times as long is enough to tell.
  setTimeout(() => end(false), 5_000)
})
