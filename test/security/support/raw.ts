/** Bytes to a port and what comes back, with no client library in between: what an attacker sends, nobody else would. */
import { connect as connectTcp, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'

export interface Target {
  readonly port: number
  readonly securePort: number
}

export type Layer = 'plain' | 'tls' | 'h2' | 'h2c' | 'tcp-to-tls'

/** Open, with TLS where there is to be TLS. The certificate is not looked at: an attacker trusts everybody. */
export function open({ port, securePort }: Target, layer: Layer): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket =
      layer === 'tls' || layer === 'h2'
        ? connectTls({
            port: securePort,
            host: '127.0.0.1',
            rejectUnauthorized: false,
            ALPNProtocols: [layer === 'h2' ? 'h2' : 'http/1.1'],
          })
        : connectTcp(layer === 'tcp-to-tls' ? securePort : port, '127.0.0.1')
    socket.once(layer === 'tls' || layer === 'h2' ? 'secureConnect' : 'connect', () => resolve(socket))
    socket.once('error', reject)
    socket.on('error', () => {})
  })
}

export interface Heard {
  /** Bytes as characters. */
  readonly text: string
  readonly bytes: Buffer
  /** The server ended the connection. */
  readonly isClosed: boolean
}

export interface SendOptions {
  /** How long nothing more must have come, after something has, to be the end of it. */
  readonly quietMs?: number
  /** How long to wait for anything at all: an attacked server owes no answer. */
  readonly withinMs?: number
}

/** Sends all of it, and hears until the server closes or falls silent. */
export async function send(
  target: Target,
  layer: Layer,
  parts: readonly (Buffer | string)[],
  { quietMs = 60, withinMs = 1_500 }: SendOptions = {},
): Promise<Heard> {
  let socket: Socket
  try {
    socket = await open(target, layer)
  } catch {
    return { text: '', bytes: Buffer.alloc(0), isClosed: true }
  }
  return await new Promise((resolve) => {
    const chunks: Buffer[] = []
    let timer = setTimeout(() => done(false), withinMs)
    const done = (isClosed: boolean): void => {
      clearTimeout(timer)
      socket.destroy()
      const bytes = Buffer.concat(chunks)
      resolve({ text: bytes.toString('latin1'), bytes, isClosed })
    }
    socket.on('data', (bytes: Buffer) => {
      chunks.push(bytes)
      clearTimeout(timer)
      timer = setTimeout(() => done(false), quietMs)
    })
    socket.on('close', () => done(true))
    for (const part of parts) if (socket.writable) socket.write(typeof part === 'string' ? latin1(part) : part)
  })
}

/** The status of each answer of HTTP/1.1 in it. */
export function statuses({ text }: Heard): number[] {
  return [...text.matchAll(/HTTP\/1\.[01] (\d{3}) /g)].map(([, code]) => Number(code))
}

export function latin1(text: string): Buffer {
  return Buffer.from(text, 'latin1')
}
