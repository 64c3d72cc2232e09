/** Answers bytes that are not HTTP, or that exceed a limit before there is a request, and closes the connection. */
import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { encodeStatus } from '../../../kubernetes/dialect/encoding/json-encoder.js'
import type { Limit } from '../../limits/limit.js'
import { BadRequestError, type StatusError } from '../../../kubernetes/model/status.js'
import { endSocket } from '../exchange/linger.js'

const RESPONSES: Readonly<Record<string, readonly [code: number, status: StatusError]>> = {
  HPE_HEADER_OVERFLOW: [431, new BadRequestError('the headers of the request are too large')],
  ERR_HTTP_REQUEST_TIMEOUT: [408, new BadRequestError('the request did not arrive in time')],
}

const LIMITS: Readonly<Record<string, Limit>> = {
  HPE_HEADER_OVERFLOW: 'headers',
  ERR_HTTP_REQUEST_TIMEOUT: 'request-time',
  ERR_TLS_HANDSHAKE_TIMEOUT: 'handshake-time',
}

/** Returns the exceeded limit; undefined if the error has another cause. */
export function limitBroken({ code = '' }: { readonly code?: string }): Limit | undefined {
  return LIMITS[code]
}

/** Handles `clientError`. A failed TLS handshake also raises it, but leaves no TLS connection over which to answer. */
export function rejectUnreadable(error: Error & { readonly code?: string }, socket: Socket): void {
  const { code: reason = '' } = error
  if ((!reason.startsWith('HPE_') && RESPONSES[reason] === undefined) || !socket.writable) return void socket.destroy()
  const [code, status] = RESPONSES[reason] ?? [400, new BadRequestError('the request cannot be read')]
  const body = encodeStatus({ ...status.toStatus(), code })
  const head =
    `HTTP/1.1 ${code} ${STATUS_CODES[code]}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n` +
    'Cache-Control: no-cache, private\r\nConnection: close\r\n\r\n'
  endSocket(socket, Buffer.concat([Buffer.from(head), body]))
}
