/** A server over a real etcd, as its users run both, and the disruptions that every outside client has to live through. */
import type { Test } from 'tap'
import { pod } from '../../support/app.js'
import { type EtcdProcess, startEtcd } from '../../support/etcd-process.js'
import { EtcdWriter, type Written } from '../../support/etcd-writer.js'
import { freePort } from '../../support/free-port.js'
import { type ServerProcess, startServer } from '../../support/server-process.js'

export interface Stage {
  readonly etcd: EtcdProcess
  readonly url: string
  /** Writes pods past the server, as another program would; the last of them is `default/NAME`. */
  writePods(name: string): Promise<void>
  /** Ends the server. */
  kill(signal: NodeJS.Signals): Promise<void>
  /** Starts it again, on the same port. */
  start(): Promise<void>
}

export interface Disruption {
  readonly name: string
  readonly disrupt: (stage: Stage) => Promise<void>
}

/** Pods that are there from the start. */
const PODS = 300

class RunningStage implements Stage {
  readonly url: string
  #server: ServerProcess | null = null
  readonly #writer: EtcdWriter

  constructor(
    readonly t: Test,
    readonly etcd: EtcdProcess,
    readonly port: number,
    readonly flags: readonly string[],
  ) {
    this.url = `http://127.0.0.1:${port}`
    this.#writer = new EtcdWriter([etcd])
  }

  async start(): Promise<void> {
    const flags = [`--etcd-servers=${this.etcd.url}`, `--port=${this.port}`, '--enable-writes', ...this.flags]
    this.#server = await startServer(this.t, { flags })
  }

  async kill(signal: NodeJS.Signals): Promise<void> {
    await this.#server?.kill(signal)
  }

  async fill(): Promise<void> {
    const all = Array.from({ length: PODS }, (_, i) => `p${i}`)
    await this.#writer.fill(new Map(all.map((name): [string, Written] => [keyOf(name), pod(name)])))
  }

  async writePods(name: string): Promise<void> {
    for (let i = 0; i < 40; i++) await this.#writer.put(keyOf(`p${i}`), pod(`p${i}`, { labels: { turn: name } }))
    await this.#writer.commit({ [keyOf(`p${PODS - 1}`)]: null, [keyOf(`new-${name}`)]: pod(`new-${name}`) })
    await this.#writer.put(keyOf(`p${PODS - 1}`), pod(`p${PODS - 1}`, { labels: { turn: name } }))
    await this.#writer.put(keyOf(name), pod(name))
  }
}

const keyOf = (name: string): string => `/registry/pods/default/${name}`

export async function startStage(t: Test, flags: readonly string[] = []): Promise<Stage> {
  const stage = new RunningStage(t, await startEtcd(t), await freePort(), flags)
  await stage.fill()
  await stage.start()
  return stage
}

const restartAfter = (signal: NodeJS.Signals) => async (stage: Stage) => {
  await stage.kill(signal)
  // Objects written while no server runs must reach the client as events.
  await stage.writePods(`without-a-server-${signal.toLowerCase()}`)
  await stage.start()
}

/** Between any two of them nothing that a client holds may become stale, and none is a reason to list again. */
export const disruptions: readonly Disruption[] = [
  { name: 'SIGTERM of the server', disrupt: restartAfter('SIGTERM') },
  { name: 'kill -9 of the server', disrupt: restartAfter('SIGKILL') },
  { name: 'a restart of etcd', disrupt: async (stage) => await stage.etcd.restart() },
]
