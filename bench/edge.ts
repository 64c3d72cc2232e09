/**
 * Question: what do pollers behind an HTTP cache cost the server, and when does an event reach them? For comparison,
 * the same number of clients read Server-Sent Events directly from the server.
 *
 * One process polls for all clients, on the same core as the cache. `clientCores` and `cacheCores` show how busy that
 * core was. If it was saturated, the measured delays come from the load generator. If a poller does not see every value
 * once and in order, the row is a failure.
 *
 * Electric's published run, on another machine, has 1,000,000 clients of one shape behind a CDN at 16 writes/s. The
 * delay from the write to the client was 238 ms on average and 405 ms at p99.
 */
import { connect, type Socket } from 'node:net'
import { startHttpCache } from '../test/support/http-cache.js'
import { EtcdWriter } from '../test/support/etcd-writer.js'
import { startEtcd } from './subjects/etcd.js'
import { startDistributary } from './subjects/distributary.js'
import { attempt, type Choice, type Question } from './support/choice.js'
import { endAll, sleep, usage } from './support/processes.js'
import { createWorkspace } from './support/workspace.js'

const RATE = 16
const FLAGS = '/apis/distributary.io/v1/flags'
const KEYS = 10
const SUBJECTS = ['nginx', 'varnish', 'sse'] as const
/** Opening more connections at once would itself be a load. */
const OPEN_AT_ONCE = 100

type Subject = (typeof SUBJECTS)[number]

export const edge: Question = async (choice) => {
  const counts = choice.watchers.length > 0 ? choice.watchers : choice.quick ? [50] : [500, 1_000, 4_000]
  const subjects = SUBJECTS.filter((name) => choice.subjects.length === 0 || choice.subjects.includes(name))
  for (const count of counts) {
    for (const subject of subjects) {
      const row = { question: 'edge', subject, wire: subject === 'sse' ? 'sse' : 'poll', watchers: count }
      await attempt(choice, row, async () => await measure(choice, subject, row))
    }
  }
}

interface Seen {
  /** Called for each value, in the order of arrival, with the time at which it was written, in milliseconds. */
  take(writtenMs: number): void
}

/** Sends requests over one connection and reads the responses, which are poll documents or a stream. */
class Client {
  #text = ''
  #last = 0
  readonly #socket: Socket
  readonly #seen: Seen
  /** The position from which the open poll starts; null for a stream. */
  #position: string | null
  delivered = 0
  failure: string | null = null

  constructor(port: number, position: string, isStream: boolean, seen: Seen) {
    this.#seen = seen
    this.#position = isStream ? null : position
    this.#socket = connect(port, '127.0.0.1').setNoDelay(true).setEncoding('latin1')
    this.#socket.on('data', (text: string) => this.#read(text))
    this.#socket.on('error', (error) => this.#fail(error.message))
    this.#socket.on('close', () => this.#fail('the connection was closed'))
    if (isStream) this.#ask(`resourceVersion=${revisionOf(position)}`, 'text/event-stream')
    else this.#poll(position)
  }

  close(): void {
    this.#socket.removeAllListeners('close').destroy()
  }

  #fail(why: string): void {
    this.failure ??= why
    this.#socket.destroy()
  }

  #poll(position: string): void {
    this.#position = position
    this.#ask(`resourceVersion=${revisionOf(position)}&wait=50s&history=${position}`, 'application/json')
  }

  #ask(query: string, accept: string): void {
    this.#socket.write(`GET ${FLAGS}?watch=1&${query} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: ${accept}\r\n\r\n`)
  }

  #read(text: string): void {
    this.#text += text
    if (this.#position === null) {
      const end = this.#text.lastIndexOf('\n') + 1
      this.#values(this.#text.slice(0, end))
      this.#text = this.#text.slice(end)
      return
    }
    const body = this.#text.indexOf('\r\n\r\n') + 4
    if (body === 3) return
    const head = this.#text.slice(0, body)
    const length = /content-length: (\d+)/i.exec(head)?.[1]
    if (!head.startsWith('HTTP/1.1 200') || length === undefined) return this.#fail(head)
    if (this.#text.length < body + Number(length)) return
    const document = this.#text.slice(body)
    this.#text = ''
    this.#values(document)
    const next = /"history":"([^"]+)"/.exec(document)?.[1]
    if (next === undefined) this.#fail(document)
    else this.#poll(next)
  }

  #values(text: string): void {
    for (const [, number, writtenMs] of text.matchAll(/"value":\[(\d+),([\d.]+)\]/g)) {
      const sequence = Number(number)
      if (sequence !== this.#last + 1 && this.#last !== 0) this.#fail(`event ${sequence} after ${this.#last}`)
      this.#last = sequence
      this.delivered++
      this.#seen.take(Number(writtenMs))
    }
  }
}

const revisionOf = (position: string): string => position.split('.', 1)[0]!

async function measure(
  choice: Choice,
  subject: Subject,
  row: { readonly question: string; readonly subject: string; readonly wire: string; readonly watchers: number },
): Promise<void> {
  const workspace = createWorkspace()
  const stops: (() => void | Promise<void>)[] = []
  try {
    const etcd = await startEtcd(workspace, 'load')
    const writer = new EtcdWriter([{ url: `http://127.0.0.1:${etcd.port}` }])
    let sequence = 0
    const write = async (): Promise<void> => {
      const value = `[${++sequence},${performance.now()}]`
      await writer.commit({ [`/config/flags/f${sequence % KEYS}`]: value })
    }
    for (let i = 0; i < KEYS; i++) await write()
    // prettier-ignore
    const { child, plainPort } = await startDistributary({
      workspace,
      wire: 'http1',
      core: 'server',
      serverFlags: [
        `--etcd-servers=http://127.0.0.1:${etcd.port}`, '--resource=flags=/config/flags/',
        '--public-caching=flags.distributary.io=5s/10s', ...choice.serverFlags,
      ],
    })
    const cache =
      subject === 'sse' ? null : await startHttpCache({ teardown: (stop) => void stops.push(stop) }, subject, plainPort)
    const list = await fetch(`${cache?.url ?? `http://127.0.0.1:${plainPort}`}${FLAGS}?history=`)
    const position = list.headers.get('x-distributary-position') ?? ''
    await list.body?.cancel()

    const delays: number[] = []
    let isMeasured = false
    const seen = {
      take: (writtenMs: number): void => {
        if (isMeasured) delays.push(performance.now() - writtenMs)
      },
    }
    const port = cache === null ? plainPort : Number(new URL(cache.url).port)
    const clients: Client[] = []
    stops.push(() => clients.forEach((client) => client.close()))
    while (clients.length < row.watchers) {
      const more = Math.min(OPEN_AT_ONCE, row.watchers - clients.length)
      for (let i = 0; i < more; i++) clients.push(new Client(port, position, subject === 'sse', seen))
      await sleep(20)
    }
    const reached = async (): Promise<void> => {
      const owed = sequence - KEYS
      const endMs = performance.now() + 60_000
      while (clients.some(({ delivered }) => delivered < owed)) {
        const failed = clients.find(({ failure }) => failure !== null)
        if (failed !== undefined) throw new Error(failed.failure!)
        if (performance.now() > endMs) throw new Error('not every client has every event')
        await sleep(20)
      }
    }
    for (let i = 0; i < RATE; i++) await write()
    await reached()

    isMeasured = true
    const seconds = choice.seconds ?? (choice.quick ? 2 : 20)
    const rate = choice.rates[0] ?? RATE
    const before = [usage(child.pid), cache === null ? null : usage(cache.pid), process.cpuUsage()] as const
    const begin = performance.now()
    for (let i = 0; i < rate * seconds; i++) {
      await sleep(Math.max(0, begin + (i * 1_000) / rate - performance.now()))
      await write()
    }
    await reached()
    const tookSeconds = (performance.now() - begin) / 1_000
    const client = process.cpuUsage(before[2])
    const originCores = (usage(child.pid).cpuSeconds - before[0].cpuSeconds) / tookSeconds
    delays.sort((a, b) => a - b)
    const at = (share: number): number => delays[Math.floor((delays.length - 1) * share)]!
    choice.recorder.row({
      ...row,
      rate,
      seconds: tookSeconds,
      deliveries: delays.length,
      originCores,
      usPerEvent: (originCores * tookSeconds * 1e6) / (rate * seconds),
      cacheCores: cache === null ? null : (usage(cache.pid).cpuSeconds - before[1]!.cpuSeconds) / tookSeconds,
      clientCores: (client.user + client.system) / 1e6 / tookSeconds,
      meanMs: delays.reduce((sum, one) => sum + one, 0) / delays.length,
      p50Ms: at(0.5),
      p99Ms: at(0.99),
    })
  } finally {
    for (const stop of stops.toReversed()) await stop()
    await endAll()
    workspace.remove()
  }
}
