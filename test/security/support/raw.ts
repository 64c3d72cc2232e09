/**
 * Sends bytes to a port and reads the response without a client library, because an attacker sends what no library
 * would.
 */
import { connect as connectTcp, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'

export interface Target {
  readonly port: number
  readonly securePort: number
}

export type Layer = 'plain' | 'tls' | 'h2' | 'h2c' | 'tcp-to-tls'

let attackers = 0

/** Each attacker has its own address, so that a blocked one does not stop the next one or honest clients. */
function nextAddress(): string {
  const i = attackers++
  return `127.1.${(i >> 8) & 255}.${i & 255}`
}

/** Opens a connection, optionally with TLS. The certificate is not checked, because an attacker trusts everybody. */
export function open({ port, securePort }: Target, layer: Layer): Promise<Socket> {
  // The types of a TLS connection leave out this option of its socket.
  const from: object = { localAddress: nextAddress() }
  return new Promise((resolve, reject) => {
    const socket =
      layer === 'tls' || layer === 'h2'
        ? connectTls({
            ...from,
            port: securePort,
            host: '127.0.0.1',
            rejectUnauthorized: false,
            ALPNProtocols: [layer === 'h2' ? 'h2' : 'http/1.1'],
          })
        : connectTcp({ port: layer === 'tcp-to-tls' ? securePort : port, host: '127.0.0.1', ...from })
    socket.once(layer === 'tls' || layer === 'h2' ? 'secureConnect' : 'connect', () => resolve(socket))
    socket.once('error', reject)
    socket.on('error', () => {})
  })
}

export interface Heard {
  /** The bytes as characters. */
  readonly text: string
  readonly bytes: Buffer
  /** The server ended the connection. */
  readonly isClosed: boolean
}

export interface SendOptions {
  /** The silence after received bytes that counts as the end of the response. */
  readonly quietMs?: number
  /** The longest wait for any byte, because an attacked server need not answer. */
  readonly withinMs?: number
  /** For a request that is certain to be answered: whether these bytes hold its answer. No silence ends it then. */
  readonly isAnswered?: (bytes: Buffer) => boolean
}

/** The longest wait for an answer that is certain to come. */
const ANSWER_MS = 30_000

/** Sends everything, and reads until the server has answered, closes or goes silent. */
export async function send(
  target: Target,
  layer: Layer,
  parts: readonly (Buffer | string)[],
  { quietMs = 60, withinMs = 1_500, isAnswered }: SendOptions = {},
): Promise<Heard> {
  let socket: Socket
  try {
    socket = await open(target, layer)
  } catch {
    return { text: '', bytes: Buffer.alloc(0), isClosed: true }
  }
  return await new Promise((resolve) => {
    const chunks: Buffer[] = []
    let timer = setTimeout(() => done(false), isAnswered === undefined ? withinMs : ANSWER_MS)
    const done = (isClosed: boolean): void => {
      clearTimeout(timer)
      socket.destroy()
      const bytes = Buffer.concat(chunks)
      resolve({ text: bytes.toString('latin1'), bytes, isClosed })
    }
    socket.on('data', (bytes: Buffer) => {
      chunks.push(bytes)
      if (isAnswered !== undefined) {
        if (isAnswered(Buffer.concat(chunks))) done(false)
        return
      }
      clearTimeout(timer)
      timer = setTimeout(() => done(false), quietMs)
    })
    socket.on('close', () => done(true))
    for (const part of parts) if (socket.writable) socket.write(typeof part === 'string' ? latin1(part) : part)
  })
}

/** Whether the head of an HTTP/1.1 answer is complete. */
export function hasHead(bytes: Buffer): boolean {
  return bytes.includes('\r\n\r\n')
}

/** The status of each HTTP/1.1 answer in it. */
export function statuses({ text }: Heard): number[] {
  return [...text.matchAll(/HTTP\/1\.[01] (\d{3}) /g)].map(([, code]) => Number(code))
}

export function latin1(text: string): Buffer {
  return Buffer.from(text, 'latin1')
}
