/**
 * Bursts that one client sends over many connections at once, one for each kind of limit, over both transports, and the
 * delay that another client sees in the meantime. The server trusts the proxy 127.0.0.1, which names the addresses of
 * its clients.
 */
import { once } from 'node:events'
import { Agent, type ClientRequest, type IncomingMessage, request as httpRequest } from 'node:http'
import { type ClientHttp2Session, connect as connectHttp2 } from 'node:http2'
import { type Socket, connect } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { Worker } from 'node:worker_threads'
import { ASKED } from './bad-requests.js'
import { sleep } from './processes.js'

export interface Ports {
  readonly plain: number
  readonly secure: number
}

export interface Burst {
  readonly name: string
  /** Resolves when every request has been answered or refused. @param scale 1 for the measured size. */
  readonly send: (ports: Ports, scale: number) => Promise<void>
}

/** The delays of the other client's gets, in milliseconds. */
export interface OtherClient {
  readonly p50Ms: number
  readonly p99Ms: number
}

interface Asked {
  readonly path: string
  /** The user whose token is sent; null for none. */
  readonly user: string | null
  readonly address: string
  /** A watch is open when its response begins. */
  readonly isWatch: boolean
}

interface Kind {
  readonly name: string
  readonly asked: (i: number) => Partial<Asked>
  readonly count?: number
}

type Transport = 'HTTP/2' | 'HTTP/1.1'

const CONNECTIONS = 40
const COUNT = 4_000
const LIST = '/api/v1/namespaces/bad/pods?resourceVersion=0&labelSelector=is%3Dnowhere'
/** See `floods.ts`. */
const ADDRESS = '127.0.0.9'
/**
 * The other client does not use the proxy: before authentication, clients behind one address share its turns.
 */
const OTHER_ADDRESS = '127.0.0.8'
const ANSWER_MS = 30_000

/** Returns the query of a watch with sixty selector terms that no other watch has. */
function watchOfTerms(i: number): string {
  const terms = Array.from({ length: 60 }, (_, term) => `!absent-${i}-${term}`).join(',')
  return `/api/v1/pods?watch=1&resourceVersion=0&labelSelector=${encodeURIComponent(terms)}`
}

const kinds: readonly Kind[] = [
  { name: '4,000 lists at once', asked: () => ({ path: LIST }) },
  { name: '4,000 lists at once from 100 addresses', asked: (i) => ({ path: LIST, address: `203.0.113.${i % 100}` }) },
  { name: '4,000 gets at once', asked: () => ({}) },
  { name: '4,000 requests without a credential', asked: () => ({ path: LIST, user: null }) },
  { name: '4,000 invented tokens', asked: (i) => ({ user: `invented-${i}` }) },
  { name: '4,000 paths that nobody serves', asked: (i) => ({ path: `/apis/none.example/v1/things-${i}` }) },
  { name: '400 watches by 60 terms each', asked: (i) => ({ path: watchOfTerms(i), isWatch: true }), count: 400 },
]

export const bursts: readonly Burst[] = [
  ...(['HTTP/2', 'HTTP/1.1'] as const).flatMap((transport) => kinds.map((kind) => requests(kind, transport))),
  { name: '2,000 connections at once', send: ({ plain }, scale) => connections(2_000 * scale, () => tcp(plain)) },
  { name: '400 handshakes of TLS at once', send: ({ secure }, scale) => connections(400 * scale, () => tls(secure)) },
]

/** Measures another client's gets until `meanwhile` is over. @throws Error when one of the gets is refused. */
export async function otherClient(port: number, meanwhile: () => Promise<unknown>): Promise<OtherClient> {
  const workerData = { port, localAddress: OTHER_ADDRESS }
  const worker = new Worker(new URL('other-client.js', import.meta.url), { workerData })
  try {
    await once(worker, 'message')
    const seen = once(worker, 'message') as Promise<[OtherClient]>
    const [[measured]] = await Promise.all([seen, meanwhile().finally(() => worker.postMessage('over', []))])
    return measured
  } finally {
    await worker.terminate()
  }
}

/** Sends the burst from a separate thread. @returns the delays of another client in the meantime. */
export async function sendBurst({ name }: Burst, ports: Ports, scale = 1): Promise<OtherClient> {
  return await otherClient(ports.plain, async () => {
    const worker = new Worker(new URL('burst-sender.js', import.meta.url), { workerData: { name, ports, scale } })
    await once(worker, 'exit')
  })
}

function requests({ name, asked, count = COUNT }: Kind, transport: Transport): Burst {
  const full = (i: number): Asked => ({
    path: ASKED,
    user: 'admin',
    address: '203.0.113.1',
    isWatch: false,
    ...asked(i),
  })
  return {
    name: `${name}, ${transport}: another user's get`,
    send: async ({ plain }, scale) => {
      const all = Array.from({ length: Math.ceil(count * scale) }, (_, i) => full(i))
      await (transport === 'HTTP/2' ? overHttp2(plain, all) : overHttp1(plain, all))
    },
  }
}

async function overHttp2(port: number, all: readonly Asked[]): Promise<void> {
  const sessions = Array.from({ length: CONNECTIONS }, () => connectHttp2(`http://127.0.0.1:${port}`))
  try {
    await Promise.all(sessions.map((session) => once(session, 'connect')))
    const perSession = Math.ceil(all.length / CONNECTIONS)
    await Promise.allSettled(all.map((asked, i) => askHttp2(sessions[Math.floor(i / perSession)]!, asked)))
  } finally {
    for (const session of sessions) session.destroy()
  }
}

async function overHttp1(port: number, all: readonly Asked[]): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: all[0]?.isWatch === true ? Infinity : CONNECTIONS })
  const open: ClientRequest[] = []
  const ask = ({ path, isWatch, ...more }: Asked): Promise<unknown> =>
    new Promise((resolve) => {
      const sent = httpRequest({ host: '127.0.0.1', port, path, agent, headers: headersOf(more) })
      open.push(sent)
      sent.on('response', (response: IncomingMessage) => {
        response.on('error', resolve).on('end', resolve).resume()
        if (isWatch) resolve(null)
      })
      sent.on('error', resolve).end()
    })
  await Promise.all(all.map(ask))
  for (const one of open) one.destroy()
  agent.destroy()
}

async function connections(count: number, open: () => Promise<() => void>): Promise<void> {
  const opened = await Promise.all(Array.from({ length: Math.ceil(count) }, open))
  for (const end of opened) end()
}

async function tcp(port: number): Promise<() => void> {
  const socket = connect({ host: '127.0.0.1', port, localAddress: ADDRESS }).on('error', () => {})
  await openOrClosed(socket, 'connect')
  return () => socket.destroy()
}

async function tls(port: number): Promise<() => void> {
  const raw = connect({ host: '127.0.0.1', port, localAddress: ADDRESS }).on('error', () => {})
  const socket = connectTls({ socket: raw, rejectUnauthorized: false })
  socket.on('error', () => {})
  await openOrClosed(socket, 'secureConnect')
  return () => socket.destroy()
}

/** Unlike `once`, this does not reject when the socket fails. */
async function openOrClosed(socket: Socket, event: string): Promise<void> {
  const happened = (name: string): Promise<void> => new Promise((resolve) => void socket.once(name, () => resolve()))
  await Promise.race([happened(event), happened('close'), sleep(ANSWER_MS)])
}

/** @returns the status of the response. */
export async function askHttp2(session: ClientHttp2Session, { path, isWatch, ...more }: Asked): Promise<number> {
  const asked = session.request({ ':path': path, ...headersOf(more) })
  asked.resume()
  const answered = once(asked, 'response') as Promise<[{ ':status'?: number }]>
  const [[headers]] = await Promise.all([answered, isWatch ? null : once(asked, 'close')])
  return headers[':status'] ?? 0
}

function headersOf({ user, address }: Pick<Asked, 'user' | 'address'>): Record<string, string> {
  return { ...(user === null ? {} : { authorization: `Bearer ${user}` }), 'x-forwarded-for': address }
}
