/** A server over a real etcd, as its users run both. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { pod } from '../../support/pod.js'
import { type EtcdProcess, startEtcd } from '../../support/etcd-process.js'
import { EtcdWriter, type Written } from '../../support/etcd-writer.js'
import { freePort } from '../../support/free-port.js'
import { type ServerProcess, startServer } from '../../support/server-process.js'

/** The objects that programs other than the server write into etcd. */
export interface World {
  /** The initial objects, by key. */
  readonly initial: ReadonlyMap<string, Written>
  /** Changes of every kind, the last of which names the turn: one item per commit, null for deleted keys. */
  turn(name: string): readonly Readonly<Record<string, Written>>[]
}

export interface StageOptions {
  readonly flags?: readonly string[]
  /** Default: 300 pods; the last one of a turn is `default/NAME`. */
  readonly world?: World
}

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
  /** Starts it again, on the same port. */
  start(): Promise<void>
}

/** The number of initial pods. */
const PODS = 300

const keyOf = (name: string): string => `/registry/pods/default/${name}`
const last = `p${PODS - 1}`

const pods: World = {
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

class RunningStage implements Stage {
  readonly url: string
  #server: ServerProcess | null = null
  readonly #writer: EtcdWriter

  constructor(
    readonly t: Test,
    readonly etcd: EtcdProcess,
    readonly port: number,
    readonly accessLog: string,
    readonly options: Required<StageOptions>,
  ) {
    this.url = `http://127.0.0.1:${port}`
    this.#writer = new EtcdWriter([etcd])
  }

  async start(): Promise<void> {
    const own = [`--etcd-servers=${this.etcd.url}`, `--port=${this.port}`, `--audit-log-path=${this.accessLog}`]
    this.#server = await startServer(this.t, { flags: [...own, '--enable-writes', ...this.options.flags] })
  }

  async kill(signal: NodeJS.Signals): Promise<void> {
    await this.#server?.kill(signal)
  }

  async fill(): Promise<void> {
    await this.#writer.fill(this.options.world.initial)
  }

  async write(turn: string): Promise<void> {
    for (const changes of this.options.world.turn(turn)) await this.#writer.commit(changes)
  }

  answered(): readonly Answered[] {
    if (!existsSync(this.accessLog)) return []
    // The last line may be incomplete.
    const lines = readFileSync(this.accessLog, 'utf8').split('\n').slice(0, -1)
    return lines.map((line) => JSON.parse(line) as Answered)
  }
}

export async function startStage(t: Test, { flags = [], world = pods }: StageOptions = {}): Promise<Stage> {
  const folder = mkdtempSync(join(tmpdir(), 'distributary-stage-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const accessLog = join(folder, 'access.log')
  const stage = new RunningStage(t, await startEtcd(t), await freePort(), accessLog, { flags, world })
  await stage.fill()
  await stage.start()
  return stage
}
