/** A server over a real etcd, both as users run them; or several replicas behind one address. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { type Balancer, startBalancer } from '../../fault/balancer.js'
import { pod } from '../../support/pod.js'
import { type EtcdProcess, startEtcd } from '../../support/etcd-process.js'
import { EtcdWriter, type Written } from '../../support/etcd-writer.js'
import { freePort } from '../../support/free-port.js'
import { type ServerProcess, startServer } from '../../support/server-process.js'
import { until } from '../../support/until.js'

/** The objects that programs other than the server write into etcd. */
export interface World {
  /** The initial objects, by key. */
  readonly initial: ReadonlyMap<string, Written>
  /** Changes of every kind, the last of which names the turn: one item per commit, null for deleted keys. */
  turn(name: string): readonly Readonly<Record<string, Written>>[]
}

export interface StageOptions {
  readonly flags?: readonly string[]
  /** The objects. Default: 300 pods, of which the last one of a turn is `default/NAME`. */
  readonly world?: World
  /** Returns the flags that say where the servers read and write. Default: this etcd, for both. */
  readonly source?: (etcd: EtcdProcess) => Promise<readonly string[]>
}

const fromEtcd = async ({ url }: EtcdProcess): Promise<readonly string[]> => [
  `--etcd-servers=${url}`,
  '--enable-writes',
]

/** Returns the same world as an API server would write it, with one key per commit. */
export const oneByOne = (world: World): World => ({
  initial: world.initial,
  turn: (name) =>
    world.turn(name).flatMap((commit) => Object.entries(commit).map(([key, value]) => ({ [key]: value }))),
})

/** A request from the server's access log. */
export interface Answered {
  readonly userAgent: string
  readonly verb: string
  readonly resource: string
  readonly path: string
  readonly code: number
}

export interface Stage {
  readonly etcd: EtcdProcess
  readonly url: string
  /** Writes a turn of the world directly into etcd, as another program would. */
  write(turn: string): Promise<void>
  /** Returns the requests answered since the start, by whichever server. */
  answered(): readonly Answered[]
  /** Ends the server. */
  kill(signal: NodeJS.Signals): Promise<void>
  /** Starts the server again, on the same port. */
  start(): Promise<void>
}

/** The number of initial pods. */
const PODS = 300

const keyOf = (name: string): string => `/registry/pods/default/${name}`
const last = `p${PODS - 1}`

export const pods: World = {
  initial: new Map(Array.from({ length: PODS }, (_, i): [string, Written] => [keyOf(`p${i}`), pod(`p${i}`)])),
  turn: (name) => {
    const labels = { turn: name }
    return [
      ...Array.from({ length: 40 }, (_, i) => ({ [keyOf(`p${i}`)]: pod(`p${i}`, { labels }) })),
      { [keyOf(last)]: null, [keyOf(`new-${name}`)]: pod(`new-${name}`) },
      { [keyOf(last)]: pod(last, { labels }) },
      { [keyOf(name)]: pod(name) },
    ]
  },
}

abstract class AnyStage implements Stage {
  abstract readonly url: string
  readonly #writer: EtcdWriter

  constructor(
    readonly t: Test,
    readonly etcd: EtcdProcess,
    /** Reads the access logs of all servers. */
    readonly folder: string,
    readonly world: World,
    readonly flags: readonly string[],
  ) {
    this.#writer = new EtcdWriter([etcd])
  }

  abstract start(): Promise<void>
  abstract kill(signal: NodeJS.Signals): Promise<void>

  protected async startServer(port: number, flags: readonly string[] = []): Promise<ServerProcess> {
    const own = [`--port=${port}`, `--audit-log-path=${join(this.folder, `${port}`)}`]
    return await startServer(this.t, { flags: [...own, ...flags, ...this.flags] })
  }

  async fill(): Promise<void> {
    await this.#writer.fill(this.world.initial)
  }

  async write(turn: string): Promise<void> {
    for (const changes of this.world.turn(turn)) await this.#writer.commit(changes)
  }

  answered(): readonly Answered[] {
    return readdirSync(this.folder).flatMap((name) => {
      // The last line may be incomplete.
      const lines = readFileSync(join(this.folder, name), 'utf8').split('\n').slice(0, -1)
      return lines.map((line) => JSON.parse(line) as Answered)
    })
  }
}

class LoneStage extends AnyStage {
  #server: ServerProcess | null = null
  #port = 0

  get url(): string {
    return `http://127.0.0.1:${this.#port}`
  }

  async start(): Promise<void> {
    this.#port ||= await freePort()
    this.#server = await this.startServer(this.#port)
  }

  async kill(signal: NodeJS.Signals): Promise<void> {
    await this.#server?.kill(signal)
  }
}

const POLL_MS = 100

/** Two replicas behind one address. */
export class ReplicatedStage extends AnyStage {
  #balancer: Balancer | null = null
  #replicas: ServerProcess[] = []

  get url(): string {
    return `http://127.0.0.1:${this.#balancer!.port}`
  }

  async start(): Promise<void> {
    this.#balancer ??= await startBalancer(this.t, POLL_MS)
    await this.#add()
    await this.#add()
  }

  async kill(signal: NodeJS.Signals): Promise<void> {
    await Promise.all(this.#replicas.map(async (replica) => await this.#end(replica, signal)))
  }

  /** As a Deployment does: a new one is ready before an old one ends. */
  async update(): Promise<void> {
    for (const old of this.#replicas) {
      await this.#add()
      await this.#end(old, 'SIGTERM')
    }
  }

  /** Kills one; another starts in its place. */
  async killOne(): Promise<void> {
    await this.#end(this.#replicas[0]!, 'SIGKILL')
    await this.#add()
  }

  async #add(): Promise<void> {
    const grace = ['--shutdown-delay-duration=1s', '--shutdown-watch-termination-grace-period=1s']
    const replica = await this.startServer(await freePort(), grace)
    const { port } = replica
    this.#balancer!.add(port)
    await until(() => this.#balancer!.ready.has(port), 'the balancer knows the replica')
    this.#replicas = [...this.#replicas, replica]
  }

  async #end(replica: ServerProcess, signal: NodeJS.Signals): Promise<void> {
    await replica.kill(signal)
    this.#balancer!.remove(replica.port)
    this.#replicas = this.#replicas.filter((one) => one !== replica)
  }
}

type StageClass<S> = new (...args: ConstructorParameters<typeof AnyStage>) => S

async function startAny<S extends AnyStage>(
  Kind: StageClass<S>,
  t: Test,
  { flags = [], world = pods, source = fromEtcd }: StageOptions,
): Promise<S> {
  const folder = mkdtempSync(join(tmpdir(), 'distributary-stage-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const etcd = await startEtcd(t)
  const stage = new Kind(t, etcd, folder, world, [...(await source(etcd)), ...flags])
  await stage.fill()
  await stage.start()
  return stage
}

export async function startStage(t: Test, options: StageOptions = {}): Promise<Stage> {
  return await startAny(LoneStage, t, options)
}

export async function startReplicatedStage(t: Test, options: StageOptions = {}): Promise<ReplicatedStage> {
  return await startAny(ReplicatedStage, t, options)
}
