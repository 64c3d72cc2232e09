/** Connects a client with another server that has agreed to upgrade the connection. */
import type http from 'node:http'
import type { Duplex } from 'node:stream'
import type { Clock, Timer } from '../../../support/clock.js'
import type { Exchange } from '../exchange/exchange.js'
import { responseHeaders } from './passed-headers.js'

export const KEEPALIVE_MS = 30_000
/** The longest silence of a tunnel after one side has ended its direction. */
const HALF_OPEN_SILENCE_MS = 60_000

/**
 * Answers with the other server's 101, and lets both sides send until either has gone.
 * @param firstBytes what the other server has already sent. @param clientBytes what the client has already sent.
 * @param tunnels the sockets of all open tunnels.
 */
export function openTunnel(
  exchange: Exchange,
  incoming: http.IncomingMessage,
  socket: Duplex,
  firstBytes: Buffer,
  clientBytes: Buffer,
  { tunnels, clock }: { readonly tunnels: Set<Duplex>; readonly clock: Clock },
): void {
  const { request, response } = exchange
  const client = request.socket
  const end = (): void => {
    socket.destroy()
    client.destroy()
  }
  if (!client.readable || !client.writable) {
    socket.destroy()
    response.emit('close')
    return
  }
  exchange.statusCode = 101
  response.detachSocket(client)
  const protocol = incoming.headers.upgrade ?? ''
  const lines = [`HTTP/1.1 101 ${incoming.statusMessage ?? 'Switching Protocols'}`]
  lines.push('Connection: Upgrade', `Upgrade: ${protocol}`)
  const headers = responseHeaders(incoming.rawHeaders)
  for (let i = 0; i < headers.length; i += 2) lines.push(`${headers[i]}: ${headers[i + 1]}`)
  client.setKeepAlive(true, KEEPALIVE_MS)
  client.setTimeout(0)
  client.write(Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'))
  if (firstBytes.length > 0) client.write(firstBytes)
  if (clientBytes.length > 0) socket.write(clientBytes)
  tunnels.add(client)
  tunnels.add(socket)
  socket.pipe(client)
  client.pipe(socket)
  let silence: Timer | undefined
  for (const [one, other] of [
    [socket, client],
    [client, socket],
  ] as const) {
    one.on('error', end)
    // One direction may end first (end of standard input). But a client that has left looks the same until something
    // is sent to it, so from then on the other direction may not be silent for long.
    one.once('end', () => {
      const listen = (): void => {
        silence?.cancel()
        silence = clock.setTimer(HALF_OPEN_SILENCE_MS, end)
      }
      other.on('data', listen)
      listen()
    })
    one.once('close', () => {
      silence?.cancel()
      tunnels.delete(one)
      end()
    })
  }
  client.once('close', () => response.emit('close'))
}
