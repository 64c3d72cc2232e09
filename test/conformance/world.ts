/**
 * The whole server over each kind of upstream: the in-process store as an etcd whose progress can be trusted, the same
 * as an older etcd, and a real etcd (`ETCD_BIN` names another). The dialect makes the same promises over all of them. A
 * server on another runtime (`npm run judge -- bun`) is a process over a real etcd.
 */
import { type ClientRequest, type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http'
import type { Test } from 'tap'
import { keyFromText } from '../../src/engine/model/event.js'
import { type Revision, toRevision } from '../../src/engine/model/revision.js'
import { silentLogger } from '../../src/support/log.js'
import { createEmbeddedUpstream } from '../support/faulty-store.js'
import { connectEtcd } from '../../src/engine/upstream/etcd/etcd-upstream.js'
import type { Upstream, WriteOperation } from '../../src/engine/upstream/upstream.js'
import { startApp } from '../support/app.js'
import { startEtcd } from '../support/etcd-process.js'
import { EventReader } from '../support/event-reader.js'
import { serverRuntime } from '../support/program.js'
import { startServer } from '../support/server-process.js'

export type Objects = Readonly<Record<string, object | Buffer | null>>

export interface World {
  readonly url: string
  /** Writes one revision. Keys are relative to `/registry/`; null deletes, and a Buffer is stored unchanged. */
  write(objects: Objects): Promise<Revision>
  /** The revisions of the initial states, in order. */
  readonly seeds: readonly Revision[]
  ask(path: string, options?: AskOptions): Promise<Answer>
  /** An open watch, whose head has been received. */
  watch(path: string, headers?: Readonly<Record<string, string>>): Promise<Watch>
}

export interface AskOptions {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

export interface Answer {
  readonly code: number
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
  readonly text: string
  /** The parsed body, in the type that the test expects; undefined if it is not JSON. */
  readonly json: Body
  readonly ms: number
}

/** Members of objects, lists and statuses that tests check individually. */
export interface Body {
  readonly kind: string
  readonly metadata: {
    readonly name: string
    readonly resourceVersion: string
    readonly continue?: string
    readonly remainingItemCount?: number
    readonly labels?: Readonly<Record<string, string>>
  }
  readonly items: readonly Body[]
  readonly status: { readonly phase: string }
  readonly [member: string]: unknown
}

export interface Watch {
  readonly code: number
  readonly headers: IncomingHttpHeaders
  readonly events: EventReader
  close(): void
}

export interface WorldOptions {
  readonly flags?: readonly string[]
  /** The states written before the server starts, one revision each. */
  readonly seeds?: readonly Objects[]
  /** How many revisions before the last seed are kept; older history is compacted before the server starts. */
  readonly keepsSeeds?: number
  /** false if the test checks only caches. */
  readonly uncached?: false
}

type Kind = (t: Test) => Promise<{
  readonly upstream: Upstream
  readonly compact: (revision: Revision) => Promise<void>
  readonly start: (flags: readonly string[]) => Promise<{ readonly url: string }>
}>

const UNCACHED = 'the embedded upstream, with nothing cached'

const IN_PROCESS: Readonly<Record<string, Kind>> = {
  'the embedded upstream': async (t) => embedded(t, true),
  'the embedded upstream as an older etcd': async (t) => embedded(t, false),
  [UNCACHED]: async (t) => embedded(t, false, ['--watch-cache=false']),
  'a real etcd': async (t) => {
    const { upstream, etcd } = await overEtcd(t)
    return {
      upstream,
      compact: (revision) => etcd.compact(revision),
      start: (flags) => startApp(t, { flags, upstream }),
    }
  },
}

const AS_PROCESS: Readonly<Record<string, Kind>> = {
  'a real etcd': async (t) => {
    const { upstream, etcd } = await overEtcd(t)
    t.teardown(() => upstream.close())
    const own = [`--etcd-servers=${etcd.url}`, '--authorization-mode=AlwaysAllow', '--enable-writes=false']
    return {
      upstream,
      compact: (revision) => etcd.compact(revision),
      start: (flags) => startServer(t, { flags: [...own, ...flags] }),
    }
  },
}

const KINDS = serverRuntime() === process.execPath ? IN_PROCESS : AS_PROCESS

async function overEtcd(t: Test): Promise<{ upstream: Upstream; etcd: Awaited<ReturnType<typeof startEtcd>> }> {
  const etcd = await startEtcd(t)
  return { upstream: connectEtcd({ endpoints: [etcd.url], logger: silentLogger }), etcd }
}

function embedded(t: Test, trustsProgress: boolean, own: readonly string[] = []): Awaited<ReturnType<Kind>> {
  const upstream = createEmbeddedUpstream({ trustsProgress })
  return {
    upstream,
    compact: async (revision) => upstream.compact(revision),
    start: (flags) => startApp(t, { flags: [...flags, ...own], upstream }),
  }
}

/** Runs `body` once per kind of upstream, as a subtest named after it. */
export function overEveryUpstream(
  t: Test,
  promise: string,
  options: WorldOptions,
  body: (t: Test, world: World) => Promise<void>,
): void {
  // The subtests mostly wait: for seconds to pass, or for an etcd to start.
  t.jobs = Object.keys(KINDS).length
  for (const [name, kind] of Object.entries(KINDS)) {
    if (name === UNCACHED && options.uncached === false) continue
    void t.test(`over ${name}: ${promise}`, { buffered: true }, async (t) =>
      body(t, await startWorld(t, kind, options)),
    )
  }
}

async function startWorld(t: Test, kind: Kind, options: WorldOptions): Promise<World> {
  const { upstream, compact, start } = await kind(t)
  const write = async (objects: Objects): Promise<Revision> => {
    const operations = Object.entries(objects).map(([name, object]): WriteOperation => {
      const key = keyFromText(name.startsWith('/') ? name : `/registry/${name}`)
      if (object === null) return { type: 'delete', key }
      return { type: 'put', key, value: Buffer.isBuffer(object) ? object : Buffer.from(JSON.stringify(object)) }
    })
    return (await upstream.write([], operations)).revision
  }
  const seeds: Revision[] = []
  for (const objects of options.seeds ?? []) seeds.push(await write(objects))
  if (options.keepsSeeds !== undefined) await compact(toRevision(seeds.at(-1 - options.keepsSeeds)!))
  const { url } = await start(options.flags ?? [])
  const open = new Set<ClientRequest>()
  t.teardown(() => {
    for (const one of open) one.destroy()
  })
  return {
    url,
    seeds,
    write,
    ask: (path, asked) => ask(url + path, asked),
    watch: async (path, headers = {}) => {
      const response = await send(url + path, { headers }, (one) => open.add(one))
      return {
        code: response.statusCode ?? 0,
        headers: response.headers,
        events: new EventReader(response),
        close: () => response.destroy(),
      }
    },
  }
}

/**
 * Sends one request on its own connection, uncompressed unless its headers ask for compression.
 * @throws Error after 20 s
 */
export async function ask(url: string, options: AskOptions = {}): Promise<Answer> {
  const startedMs = performance.now()
  const response = await send(url, options)
  const pieces: Buffer[] = []
  for await (const piece of response) pieces.push(piece as Buffer)
  const body = Buffer.concat(pieces)
  const text = body.toString('utf8')
  return {
    code: response.statusCode ?? 0,
    headers: response.headers,
    body,
    text,
    json: parsed(text),
    ms: performance.now() - startedMs,
  }
}

function send(
  url: string,
  options: AskOptions,
  onOpen: (one: ClientRequest) => void = () => {},
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const { method = 'GET', body } = options
    const length = body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) }
    const headers = { ...length, ...options.headers }
    // The path is sent as written; a URL object would normalize it.
    const { hostname, port, origin } = new URL(url)
    const one = request({
      hostname,
      port,
      path: url.slice(origin.length),
      agent: false,
      method,
      headers,
      timeout: 20_000,
    })
    one.on('response', resolve)
    one.on('error', reject)
    one.on('timeout', () => one.destroy(new Error(`no byte for 20 s: ${method} ${url}`)))
    onOpen(one)
    one.end(body)
  })
}

function parsed(text: string): Body {
  try {
    return JSON.parse(text) as Body
  } catch {
    return undefined as unknown as Body
  }
}
