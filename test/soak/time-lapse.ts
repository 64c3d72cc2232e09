/**
 * Weeks in minutes: a server whose intervals are shortened, so that it sends as many bookmarks, marks and PINGs, ends
 * as many watches, checks its caches, rereads its files and lives through as many compactions as in that many days.
 * Deadlines are untouched. Thirty agents follow a quiet and a churning resource over every transport; each resumes
 * where it was, as real ones do. Afterwards memory must be what it was on the second day, nobody may have had to list
 * again, and standard error must hold nothing but log lines.
 *
 * Memory is judged at the end of each day after a collection, once V8 has compiled what runs. Before one, a third of it is garbage, which varies with the
 * CPU that V8's own threads get.
 *
 * A day ends when its time is over and the quiet agents have had a day's bookmarks, so a slow machine takes longer
 * instead of living through less.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import http2 from 'node:http2'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { constants, createGunzip } from 'node:zlib'
import type { Test } from 'tap'
import { WebSocket } from 'ws'
import { sleep, systemClock } from '../../src/support/clock.js'
import { type EtcdProcess, startEtcd } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { selfSignedCertificate } from '../support/issue-certificate.js'
import { PROGRAM_VARIABLE, SOCKETS_VARIABLE } from '../growth/probe.js'
import { ask, socketsFolder } from '../growth/processes.js'
import { compiledPath } from '../support/compiled-path.js'
import { bundleWith, type Change, constant } from '../support/program.js'
import { type ServerProcess, startServer, total } from '../support/server-process.js'
import { pause, until } from '../support/until.js'

export interface TimeLapse {
  readonly days: number
  /** How long it takes, unless the machine is too slow. */
  readonly minutes: number
  readonly onProgress: (line: string) => void
}

const MINUTE = 60_000
const DAY = 24 * 60 * MINUTE
/** Shorter intervals than this would measure Node's timers. */
const SHORTEST_MS = 10
const AGENTS = 30
/** Batches of history, so that it is full long before the second day. */
const HISTORY = 500
const BOOKMARK_MS = MINUTE
/** As Kubernetes' API server does. */
const COMPACTION_MS = 5 * MINUTE
/** As kubelets renew the tokens of pods. */
const TOKENS_MS = 50 * MINUTE
const CERTIFICATE_MS = DAY
/** A fleet's agents write and read all the time; a hundredth of that is enough to keep everything moving. */
const WRITES_PER_SECOND = 20
/**
 * Days that are not counted. V8 goes on compiling and keeping code for half an hour of its own time, whatever ours is: by
 * the second day a real server has had fifty times as long.
 */
const WARM_UP_DAYS = 5
/** The memory of the last day may exceed that of the second by this much. */
const TOLERANCE = 1.05
const COLLECTIONS = 3
/** A slow machine may take this many times as long. */
const PATIENCE = 10

/** The server's intervals, in its own milliseconds. */
const intervals: readonly (readonly [source: string, name: string, ms: number])[] = [
  ['src/engine/broadcast/timetable.ts', 'FINAL_BOOKMARK_MS', 2_000],
  ['src/engine/broadcast/timetable.ts', 'PROGRESS_LEAD_MS', 1_000],
  ['src/engine/broadcast/bookmarks.ts', 'PROGRESS_GAP_MS', 500],
  ['src/engine/broadcast/schedule.ts', 'TICK_MS', 250],
  ['src/engine/cache/ring-buffer.ts', 'KEPT_HISTORY_MS', 75_000],
  ['src/engine/cache/reads.ts', 'KEPT_SNAPSHOT_MS', 5 * MINUTE],
  ['src/engine/feed/upstream-feed.ts', 'CHECK_INTERVAL_MS', 5 * MINUTE],
  ['src/engine/upstream/etcd/etcd-upstream.ts', 'KEEP_ALIVE_TIME_MS', 6_000],
  ['src/engine/upstream/etcd/member-pulse.ts', 'INTERVAL_MS', 1_000],
  ['src/server/auth/access-guard.ts', 'TICK_MS', 1_000],
  ['src/server/auth/access-guard.ts', 'RECHECK_MS', 5_000],
  ['src/server/transports/framing/server-sent-events.ts', 'MARK_EVERY_MS', 25_000],
  ['src/server/transports/framing/websocket-messages.ts', 'PING_EVERY_MS', 25_000],
  ['src/server/transports/limits/memory-pressure.ts', 'CHECK_MS', 1_000],
  ['src/server/transports/server/listeners.ts', 'CHECK_INTERVAL_MS', 5_000],
  ['src/server/transports/server/listeners.ts', 'PROBE_MS', 15_000],
  ['src/server/wiring/certificate-expiry.ts', 'LOOK_MS', 10_000],
]

/** Lives through the days. @returns what went wrong. */
export async function liveThrough(t: Test, { days, minutes, onProgress }: TimeLapse): Promise<readonly string[]> {
  const speed = (days * DAY) / (minutes * MINUTE)
  const shortened = (ms: number): number => Math.max(SHORTEST_MS, Math.round(ms / speed))
  const world = await start(t, shortened)
  const agents = Array.from(
    { length: AGENTS },
    (_, i) => new Agent(world.server, KINDS[i % KINDS.length]!, i % 2 === 0),
  )
  const stop = new AbortController()
  t.teardown(() => stop.abort())
  const works = [
    repeat(stop.signal, 1_000 / WRITES_PER_SECOND, world.churn),
    repeat(stop.signal, shortened(COMPACTION_MS), world.compact),
    repeat(stop.signal, shortened(TOKENS_MS), world.renewTokens),
    repeat(stop.signal, shortened(CERTIFICATE_MS), world.renewCertificate),
  ]
  await Promise.all(agents.map((agent) => agent.start()))
  const memory: number[] = []
  for (let lived = 1; lived <= WARM_UP_DAYS + days; lived++) {
    const meanBytes = await liveOneDay(world.server, agents, {
      lived,
      dayMs: DAY / speed,
      bookmarkMs: shortened(BOOKMARK_MS),
    })
    const keptBytes = await collected(world.server)
    const day = lived - WARM_UP_DAYS
    if (day > 0) memory.push(keptBytes)
    const [kept, mean] = [keptBytes, meanBytes].map(mebibytes)
    onProgress(`day ${day}: ${mean} MiB, ${kept} after a collection, ${sum(agents, 'bookmarks')} bookmarks`)
  }
  const relists = total(await world.server.metrics(), 'distributary_feed_relists_total')
  for (const agent of agents) agent.close()
  session?.destroy()
  stop.abort()
  await Promise.all(works)
  const [watches, marks, pings] = (['watches', 'marks', 'pings'] as const).map((count) => sum(agents, count))
  onProgress(
    `${watches} watches, ${sum(agents, 'events')} events, ${marks} marks, ${pings} PINGs, ${world.compactions()} compactions`,
  )
  return [...judge(memory, days), ...agents.flatMap(({ problems }) => problems), ...ofServer(world.server, relists)]
}

/** @returns the mean resident memory of the day. */
async function liveOneDay(
  server: ServerProcess,
  agents: readonly Agent[],
  { lived, dayMs, bookmarkMs }: { readonly lived: number; readonly dayMs: number; readonly bookmarkMs: number },
): Promise<number> {
  const samples: number[] = []
  const wanted = Math.floor((lived * dayMs) / bookmarkMs)
  // Marks of SSE carry positions too, and a churning resource needs no bookmarks.
  const quiet = agents.filter(({ isQuiet, kind }) => isQuiet && kind !== 'SSE')
  const endMs = performance.now() + dayMs
  await until(
    async () => {
      samples.push(server.memory().now)
      await pause(dayMs / 50)
      return performance.now() >= endMs && quiet.every(({ bookmarks }) => bookmarks >= wanted)
    },
    () =>
      `after ${lived} days: ${wanted} bookmarks; ${quiet.map(({ kind, bookmarks }) => `${kind} ${bookmarks}`).join(', ')}`,
    dayMs * PATIENCE,
  )
  return samples.reduce((all, one) => all + one, 0) / samples.length
}

/** @returns resident memory right after a collection: the least of several, because clients are served meanwhile. */
async function collected(server: ServerProcess): Promise<number> {
  const samples: number[] = []
  for (let i = 0; i < COLLECTIONS; i++) {
    await ask(server.pid, 'collect')
    samples.push(server.memory().now)
  }
  return Math.min(...samples)
}

const mebibytes = (bytes: number): number => Math.round(bytes / 2 ** 20)

function judge(memory: readonly number[], days: number): string[] {
  const [, second = 0] = memory
  const last = memory.at(-1) ?? 0
  if (days < 3 || last <= second * TOLERANCE) return []
  return [`memory: ${mebibytes(second)} MiB on the second day, ${mebibytes(last)} on the last`]
}

function ofServer(server: ServerProcess, relists: number): string[] {
  const strange = server
    .log()
    .split('\n')
    .filter((line) => line !== '' && !isLogLine(line))
  return [
    ...strange.slice(0, 10).map((line) => `on standard error: ${line}`),
    ...(relists > 0 ? [`the server relisted ${relists} times`] : []),
  ]
}

function isLogLine(line: string): boolean {
  try {
    const { msg, level } = JSON.parse(line) as { msg?: unknown; level?: unknown }
    return typeof msg === 'string' && level !== 'error'
  } catch {
    return false
  }
}

function sum(agents: readonly Agent[], count: 'bookmarks' | 'events' | 'marks' | 'pings' | 'watches'): number {
  return agents.reduce((all, agent) => all + agent[count], 0)
}

async function repeat(signal: AbortSignal, ms: number, work: () => Promise<void>): Promise<void> {
  while (!signal.aborted) {
    await sleep(systemClock, ms, signal)
    if (!signal.aborted) await work()
  }
}

const TOKENS = 'agent-token,agent,1\n'
const bearer = { authorization: 'Bearer agent-token' }
const QUIET = '/apis/distributary.io/v1/quiet'
const BUSY = '/apis/distributary.io/v1/busy'

interface World {
  readonly server: ServerProcess
  readonly etcd: EtcdProcess
  readonly churn: () => Promise<void>
  readonly compact: () => Promise<void>
  readonly renewTokens: () => Promise<void>
  readonly renewCertificate: () => Promise<void>
  compactions(): number
}

async function start(t: Test, shortened: (ms: number) => number): Promise<World> {
  const folder = mkdtempSync(join(tmpdir(), 'distributary-time-lapse-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const file = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text)
    return join(folder, name)
  }
  const changes: Change[] = intervals.map(([source, name, ms]) => constant(source, name, shortened(ms)))
  const options = 'src/server/config/options/watching.ts'
  changes.push(
    // The wait for the response to a PING is a deadline.
    {
      source: 'src/server/transports/server/listeners.ts',
      pattern: /Math\.min\(probeMs, PING_MS\)/,
      replacement: 'PING_MS',
    },
    { source: options, pattern: /default: 30 \* MINUTE/, replacement: `default: ${shortened(30 * MINUTE)}` },
    {
      source: options,
      pattern: /default: MINUTE,(\s+min: SECOND,\s+max: 10 \*)/,
      replacement: `default: ${shortened(BOOKMARK_MS)}, min: 1, max: 10 *`,
    },
  )
  // etcd ends connections whose keepalives come more often than it expects.
  const etcd = await startEtcd(t, { flags: ['--grpc-keepalive-min-time=1ms'] })
  const writer = new EtcdWriter([etcd])
  await writer.fill(
    new Map(['quiet', 'busy'].flatMap((prefix) => Array.from({ length: 50 }, (_, i) => [`/${prefix}/k${i}`, `${i}`]))),
  )
  const { cert, key } = selfSignedCertificate()
  const server = await startServer(t, {
    program: compiledPath('test/growth/probe.ts'),
    environment: { [SOCKETS_VARIABLE]: socketsFolder(), [PROGRAM_VARIABLE]: await bundleWith('time-lapse', changes) },
    flags: [
      '--etcd-servers',
      etcd.url,
      '--resource=quiet=/quiet/,busy=/busy/',
      `--default-watch-cache-size=${HISTORY}`,
      '--token-auth-file',
      file('tokens', TOKENS),
      '--authorization-mode=AlwaysAllow',
      '--secure-port=0',
      '--tls-cert-file',
      file('crt', cert),
      '--tls-private-key-file',
      file('key', key),
      '--requests-per-second=100000',
      '--compress',
      '--audit-log-path',
      join(folder, 'audit.log'),
    ],
  })
  let written = 0
  let compactions = 0
  /** Clients and servers need what happened between two compactions. */
  let previous = 0
  return {
    server,
    etcd,
    async churn() {
      await writer.put(`/busy/k${written % 50}`, `${written++}`)
    },
    async compact() {
      if (previous > 0) await etcd.call('kv/compaction', { revision: String(previous) })
      const { header } = (await etcd.call('kv/range', { key: 'AA==' })) as { header: { revision: string } }
      previous = Number(header.revision) === previous ? 0 : Number(header.revision)
      compactions++
    },
    async renewTokens() {
      file('tokens', `${TOKENS}other-${Math.random()},other,2\n`)
    },
    async renewCertificate() {
      const renewed = selfSignedCertificate()
      file('crt', renewed.cert)
      file('key', renewed.key)
      // Log rotation is daily too.
      process.kill(server.pid, 'SIGHUP')
    },
    compactions: () => compactions,
  }
}

const KINDS = ['JSON over HTTP/1.1', 'JSON over HTTP/2', 'SSE', 'WebSocket', 'gzip'] as const
type Kind = (typeof KINDS)[number]

/** What a stream's transport tells an agent. */
interface Heard {
  readonly text: (text: string) => void
  readonly ping: () => void
  readonly end: () => void
}

/** Lists once, then watches, and resumes from its last position whenever a watch ends. */
class Agent {
  readonly problems: string[] = []
  bookmarks = 0
  events = 0
  marks = 0
  pings = 0
  watches = 0
  #position = ''
  #close = (): void => {}
  #isClosed = false

  constructor(
    readonly server: ServerProcess,
    readonly kind: Kind,
    readonly isQuiet: boolean,
  ) {}

  async start(): Promise<void> {
    if (this.#isClosed) return
    const response = await fetch(`${this.server.url}${this.#path}`, { headers: bearer })
    const { metadata } = (await response.json()) as { metadata: { resourceVersion: string } }
    this.#position = metadata.resourceVersion
    this.#watch()
  }

  close(): void {
    this.#isClosed = true
    this.#close()
  }

  get #path(): string {
    return this.isQuiet ? QUIET : BUSY
  }

  #watch(): void {
    if (this.#isClosed) return
    this.watches++
    let rest = ''
    const path = `${this.#path}?watch=1&allowWatchBookmarks=true&resourceVersion=${this.#position}`
    this.#close = opens[this.kind](this.server.url, path, {
      ping: () => this.pings++,
      // A real agent waits longer, and so do its intervals here.
      end: () => void setTimeout(() => (this.#position === '' ? void this.start() : this.#watch()), SHORTEST_MS),
      text: (text) => {
        // A request that is closed before its response fails.
        if (this.#isClosed) return
        const lines = (rest + text).split('\n')
        rest = lines.pop() ?? ''
        for (const line of lines) if (line !== '') this.#hear(line)
      },
    })
  }

  #hear(line: string): void {
    if (this.kind === 'SSE') return this.#hearEvent(line)
    const { type, object } = JSON.parse(line) as {
      type: string
      object: { metadata: { resourceVersion: string }; message?: string }
    }
    if (type === 'ERROR') return this.#fail(line)
    if (type === 'BOOKMARK') this.bookmarks++
    else this.events++
    this.#moveTo(object.metadata.resourceVersion)
  }

  #hearEvent(line: string): void {
    if (line.startsWith('event: ERROR')) this.#fail(line)
    else if (line.startsWith('event: ')) this.events++
    else if (line.startsWith('id: ')) {
      this.marks++
      this.#moveTo(line.slice('id: '.length))
    } else if (line.startsWith(':')) this.marks++
  }

  /** Lists again, as a real agent does; here it has no reason to. */
  #fail(line: string): void {
    this.problems.push(`${this.kind} from ${this.#position}: ${line}`)
    this.#position = ''
  }

  #moveTo(position: string): void {
    if (Number(position) < Number(this.#position))
      this.problems.push(`${this.kind}: ${position} after ${this.#position}`)
    this.#position = position
  }
}

const overHttp1 =
  (headers: Readonly<Record<string, string>>) =>
  (url: string, path: string, heard: Heard): (() => void) => {
    const request = http.get(url + path, { agent: false, headers: { ...bearer, ...headers } }, (response) => {
      const isCompressed = response.headers['content-encoding'] === 'gzip'
      const text = isCompressed ? response.pipe(createGunzip({ flush: constants.Z_SYNC_FLUSH })) : response
      text.setEncoding('utf8').on('data', heard.text)
      text.on('error', () => {})
      response.on('error', () => {})
      response.on('close', () => response.complete || text.destroy())
      // What was received before the end is read until then.
      text.on('close', heard.end)
    })
    request.on('error', (error) =>
      heard.text(`{"type":"ERROR","object":{"message":${JSON.stringify(String(error))}}}\n`),
    )
    return () => request.destroy()
  }

/** The agents of one process share a connection, until the server moves them to another. */
let session: http2.ClientHttp2Session | null = null

/** Each opens a watch. @returns a function that closes it. */
const opens: Readonly<Record<Kind, (url: string, path: string, heard: Heard) => () => void>> = {
  'JSON over HTTP/1.1': overHttp1({}),
  SSE: overHttp1({ accept: 'text/event-stream' }),
  gzip: overHttp1({ 'accept-encoding': 'gzip' }),
  'JSON over HTTP/2'(url, path, heard) {
    if (session === null || session.closed || session.destroyed) {
      session = http2.connect(url)
      session.setMaxListeners(0)
      session.on('error', () => {})
      session.on('goaway', () => (session = null))
      session.unref()
    }
    const used = session
    used.on('ping', heard.ping)
    const stream = used.request({ ':path': path, ...bearer })
    stream.setEncoding('utf8').on('data', heard.text)
    stream.on('error', () => {})
    stream.on('close', () => {
      used.off('ping', heard.ping)
      heard.end()
    })
    return () => stream.close(http2.constants.NGHTTP2_CANCEL)
  },
  WebSocket(url, path, heard) {
    const socket = new WebSocket(url.replace('http', 'ws') + path, { headers: bearer })
    socket.on('message', (data: Buffer) => heard.text(`${data.toString()}\n`))
    socket.on('ping', heard.ping)
    socket.on('error', () => {})
    socket.on('close', heard.end)
    return () => socket.terminate()
  },
}
