/**
 * A real nats-server with JetStream for one test, or a cluster of three, with their own directories and free loopback
 * ports; they end with the test. `NATS_BIN` names the binary, else `nats-server` from PATH. A kill leaves the data, for
 * `restart`.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Test } from 'tap'
import { endsWithUs } from './ends-with-us.js'
import { type FaultProxy, startFaultProxy } from './fault-proxy.js'
import { freePorts } from './free-port.js'

export const natsBinary =
  process.env['NATS_BIN'] || (existsSync('/usr/sbin/nats-server') ? '/usr/sbin/nats-server' : 'nats-server')

const dataRoot = existsSync('/dev/shm') ? '/dev/shm' : tmpdir()
/** Attempts to start when others took the ports. */
const MOST_ATTEMPTS = 3

export interface NatsProcess {
  /** `nats://127.0.0.1:PORT` */
  readonly url: string
  readonly port: number
  readonly pid: number
  kill(signal?: NodeJS.Signals): Promise<void>
  /** @param config replaces `NatsOptions.config`. */
  restart(config?: string): Promise<void>
  /** Restarts the server without its stored data, as with storage in memory. */
  restartEmpty(): Promise<void>
  /** Stops it and copies all its stored data. @param path of a folder that does not exist yet. */
  saveData(path: string): Promise<void>
  /** Kills it, replaces its data with such a copy, and starts it again: what it acknowledged since is lost. */
  restoreData(path: string): Promise<void>
  /** Whether every stream of its cluster has a leader, and those that it leads have all their replicas. */
  isCurrent(): Promise<boolean>
  /** Returns a number of `/varz` by its name. */
  varz(name: 'in_bytes' | 'out_bytes' | 'in_msgs' | 'out_msgs'): Promise<number>
}

type Teardown = Pick<Test, 'teardown'>

export interface NatsOptions {
  readonly maxPayloadBytes?: number
  /** How much its streams may reserve on disk, in NATS's notation. Default: `1GB`. */
  readonly maxFile?: string
  /** Further server configuration. */
  readonly config?: string
  /**
   * Restarts a server that crashed, as an operator would: 2.9.10 crashes when a stream is deleted while a message is
   * being read from it.
   */
  readonly isSupervised?: boolean
  /** The proxies between every two members of a cluster, by the member that connects and then by the other. */
  readonly routeProxies?: Map<number, Map<number, FaultProxy>>
}

export async function startNats(t: Teardown, options: NatsOptions = {}): Promise<NatsProcess> {
  const [server] = await start(t, 1, options)
  return server!
}

/** Nothing listens there. */
const NOWHERE = '127.0.0.1:1'

/** Resolves with three servers once JetStream has a leader. */
export async function startNatsCluster(t: Teardown, options: NatsOptions = {}): Promise<readonly NatsProcess[]> {
  return start(t, 3, options)
}

async function start(t: Teardown, size: number, options: NatsOptions): Promise<readonly NatsProcess[]> {
  const directory = await mkdtemp(join(dataRoot, 'distributary-nats-'))
  const servers: Server[] = []
  t.teardown(async () => {
    await Promise.all(servers.map((server) => server.kill()))
    await rm(directory, { recursive: true, force: true })
  })
  // The proxies first: a port that is only known to be free could become one of theirs.
  const targets = await openRouteProxies(t, size, options.routeProxies)
  // Ports are free when they are chosen, not when a server binds them: if another test's server took one, try again.
  for (let attempt = 1; ; attempt++) {
    servers.splice(0, servers.length, ...(await configure(join(directory, `${attempt}`), size, targets, options)))
    try {
      await Promise.all(servers.map((server) => server.start(size > 1)))
      return servers
    } catch (error) {
      await Promise.all(servers.map((server) => server.kill()))
      if (attempt === MOST_ATTEMPTS || !String(error).includes('address already in use')) throw error
    }
  }
}

/** Servers configured to form a cluster, on their own ports; none runs yet. */
async function configure(
  directory: string,
  size: number,
  targets: readonly { targetPort: number }[],
  options: NatsOptions,
): Promise<readonly Server[]> {
  await mkdir(directory)
  const servers: Server[] = []
  const ports = await freePorts(size * 3)
  for (let i = 0; i < size; i++) {
    const [port = 0, clusterPort = 0, monitorPort = 0] = ports.slice(i * 3)
    const routes: string[] = []
    for (let j = 0; j < size && size > 1; j++) {
      const target = targets[j]
      if (target !== undefined) target.targetPort = ports[j * 3 + 1]!
      const routePort = options.routeProxies?.get(i)?.get(j)?.port ?? ports[j * 3 + 1]!
      routes.push(`nats-route://127.0.0.1:${routePort}`)
    }
    // Servers gossip the addresses of others, and would connect to them past the proxies.
    const advertised = options.routeProxies === undefined ? '' : `advertise: "${NOWHERE}", `
    const cluster =
      size === 1
        ? ''
        : `cluster { name: test, listen: "127.0.0.1:${clusterPort}", ${advertised}no_advertise: true, routes: [${routes.join(', ')}] }`
    const config = (more: string): string => `
      server_name: n${i}
      listen: "127.0.0.1:${port}"
      http: "127.0.0.1:${monitorPort}"
      max_payload: ${options.maxPayloadBytes ?? 1_048_576}
      jetstream { store_dir: "${join(directory, `n${i}`)}", max_mem: 256MB, max_file: ${options.maxFile ?? '1GB'} }
      ${cluster}
      ${more}
    `
    const path = join(directory, `n${i}.conf`)
    await writeFile(path, config(options.config ?? ''))
    const reconfigure = (more: string): Promise<void> => writeFile(path, config(more))
    servers.push(
      new Server(path, reconfigure, port, monitorPort, join(directory, `n${i}`), options.isSupervised === true),
    )
  }
  return servers
}

/** @returns the target of the proxies to each server, to be filled in with its port. */
async function openRouteProxies(
  t: Teardown,
  size: number,
  proxies: NatsOptions['routeProxies'],
): Promise<{ targetPort: number }[]> {
  if (proxies === undefined) return []
  const targets = Array.from({ length: size }, () => ({ targetPort: 0 }))
  for (let i = 0; i < size; i++) {
    const others = new Map<number, FaultProxy>()
    for (let j = 0; j < size; j++) {
      if (i === j) continue
      const proxy = await startFaultProxy(targets[j]!)
      t.teardown(() => proxy.close())
      others.set(j, proxy)
    }
    proxies.set(i, others)
  }
  return targets
}

interface RaftGroup {
  readonly leader?: string
  readonly replicas?: readonly { readonly current?: boolean; readonly offline?: boolean }[]
}

/** The response of `/jsz`; only the leader of a stream, or of all servers, knows the state of the others. */
interface StateOfServer {
  readonly meta_cluster?: RaftGroup
  readonly account_details?: readonly { readonly stream_detail?: readonly { readonly cluster?: RaftGroup }[] }[]
}

function hasEnded({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null
}

class Server implements NatsProcess {
  readonly port: number
  readonly #config: string
  readonly #monitorPort: number
  readonly #store: string
  readonly #reconfigure: (more: string) => Promise<void>
  readonly #isSupervised: boolean
  #child: ChildProcess | null = null
  /** Processes that this harness has killed. */
  readonly #killed = new WeakSet<ChildProcess>()
  #output = ''

  constructor(
    config: string,
    reconfigure: (more: string) => Promise<void>,
    port: number,
    monitorPort: number,
    store: string,
    isSupervised: boolean,
  ) {
    this.#isSupervised = isSupervised
    this.#store = store
    this.#reconfigure = reconfigure
    this.#config = config
    this.port = port
    this.#monitorPort = monitorPort
  }

  get url(): string {
    return `nats://127.0.0.1:${this.port}`
  }

  get pid(): number {
    return this.#child?.pid ?? 0
  }

  async start(isClustered: boolean): Promise<void> {
    const child = spawn(natsBinary, ['-c', this.#config], { stdio: ['ignore', 'pipe', 'pipe'] })
    this.#child = child
    const keep = (chunk: Buffer): void => {
      this.#output = (this.#output + chunk.toString()).slice(-4_000)
    }
    child.stdout?.on('data', keep)
    child.stderr?.on('data', keep)
    endsWithUs(child)
    const deadline = Date.now() + 30_000
    while (!(await this.#isHealthy(isClustered))) {
      if (hasEnded(child) || Date.now() > deadline) throw new Error(`nats-server is not well: ${this.#output}`)
      await delay(40)
    }
    child.once('exit', () => void this.#endedByItself(child))
    if (hasEnded(child)) await this.#endedByItself(child)
  }

  async #endedByItself(child: ChildProcess): Promise<void> {
    if (this.#killed.has(child)) return
    process.stderr.write(`nats-server ended by itself: ${this.#output}\n`)
    if (!this.#isSupervised) return
    await this.start(false).catch((error: unknown) => process.stderr.write(`${String(error)}\n`))
  }

  async #isHealthy(isClustered: boolean): Promise<boolean> {
    try {
      const jsz = (await this.#get('jsz')) as { meta_cluster?: { leader?: string } }
      return !isClustered || (jsz.meta_cluster?.leader ?? '') !== ''
    } catch {
      return false
    }
  }

  async #get(path: string): Promise<unknown> {
    const response = await fetch(`http://127.0.0.1:${this.#monitorPort}/${path}`, {
      signal: AbortSignal.timeout(1_000),
    })
    return response.json()
  }

  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    const child = this.#child
    if (child === null || hasEnded(child)) return
    if (signal !== 'SIGSTOP' && signal !== 'SIGCONT') this.#killed.add(child)
    child.kill(signal)
    if (signal === 'SIGSTOP' || signal === 'SIGCONT') return
    await once(child, 'exit')
  }

  async restart(config?: string): Promise<void> {
    await this.kill()
    if (config !== undefined) await this.#reconfigure(config)
    await this.start(false)
  }

  async restartEmpty(): Promise<void> {
    await this.kill()
    await rm(this.#store, { recursive: true, force: true })
    await this.start(false)
  }

  async saveData(path: string): Promise<void> {
    await this.kill('SIGTERM')
    await cp(this.#store, path, { recursive: true })
    await this.start(false)
  }

  async restoreData(path: string): Promise<void> {
    await this.kill()
    await rm(this.#store, { recursive: true, force: true })
    await cp(path, this.#store, { recursive: true })
    await this.start(false)
  }

  async isCurrent(): Promise<boolean> {
    const state = (await this.#get('jsz?streams=true').catch(() => null)) as StateOfServer | null
    if (state === null) return false
    const streams = (state.account_details ?? []).flatMap(({ stream_detail: details = [] }) => details)
    const groups = [state.meta_cluster, ...streams.map(({ cluster }) => cluster)]
    return groups.every((group) => {
      if ((group?.leader ?? '') === '') return false
      if (group?.leader !== basename(this.#store)) return true
      return (group.replicas ?? []).every(({ current, offline }) => current === true && offline !== true)
    })
  }

  async varz(name: 'in_bytes' | 'out_bytes' | 'in_msgs' | 'out_msgs'): Promise<number> {
    return ((await this.#get('varz')) as Record<string, number>)[name] ?? 0
  }
}
