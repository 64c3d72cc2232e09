/**
 * A seeded random sequence of faults over a fleet, one at a time, covering everything that can fail: processes, links,
 * and NATS's stored data.
 */
import { randomInteger } from '../../src/support/random.js'
import { natsAdmin } from '../support/nats-admin.js'
import { type FleetScenario, podNames } from './fleet-scenario.js'
import { pause } from '../support/until.js'

type Fault = (s: FleetScenario) => Promise<unknown>

const how = (s: FleetScenario): 'silence' | 'refusal' => s.pick(['silence', 'refusal'] as const)
const duration = (s: FleetScenario): number => randomInteger(s.random, 50, 2_500)

/** Changes what NATS stores, over a separate connection to whichever server answers. */
async function stored(s: FleetScenario, harm: (admin: Awaited<ReturnType<typeof natsAdmin>>) => Promise<unknown>) {
  const teardowns: (() => unknown)[] = []
  try {
    const t = { teardown: (work: () => unknown) => void teardowns.push(work) }
    await harm(await natsAdmin(t as never, s.pick(s.nats)))
  } catch {
    // A NATS without a leader rejects the change, and nothing is damaged.
  } finally {
    for (const work of teardowns) await work()
  }
}

const faults: Readonly<Record<string, Fault>> = {
  'publisher killed': async (s) => {
    const publisher = await s.publisher()
    await s.kill(publisher)
    await pause(duration(s))
    await s.restart(publisher)
  },
  'publisher stopped past its lease': async (s) =>
    await s.freeze(await s.publisher(), randomInteger(s.random, 500, 4_000)),
  'edge killed': async (s) => {
    const edge = s.pick(s.edges)
    await s.kill(edge)
    await pause(duration(s))
    await s.restart(edge)
  },
  'replica stopped': async (s) => await s.freeze(s.pick(s.replicas), duration(s)),
  'NATS server killed': async (s) => {
    const server = s.pick(s.nats)
    await server.kill()
    await pause(duration(s))
    await server.restart()
  },
  'NATS server stopped': async (s) => {
    const server = s.pick(s.nats)
    await server.kill('SIGSTOP')
    await pause(duration(s))
    await server.kill('SIGCONT')
  },
  'NATS servers apart': async (s) => {
    const a = randomInteger(s.random, 0, 2)
    await s.cutOff(s.between(a, (a + 1) % 3), how(s), duration(s))
  },
  'replica and NATS apart': async (s) => await s.cutOff(s.pick(s.replicas).toNats, how(s), duration(s)),
  'publisher and NATS apart': async (s) => await s.cutOff((await s.publisher()).toNats, how(s), duration(s)),
  'publisher and etcd apart': async (s) => await s.cutOff([(await s.publisher()).toEtcd!], how(s), duration(s)),
  'etcd restarted': async (s) => await s.etcd.restart(),
  'connections broken': async (s) => {
    for (const { toNats } of s.replicas) s.pick(toNats).cut(s.pick(['rst', 'fin'] as const))
    await pause(50)
  },
  'snapshots damaged': async (s) => await stored(s, (admin) => admin.flipBytes(podNames.bucket)),
  'snapshots gone': async (s) => await stored(s, (admin) => admin.dropChunks(podNames.bucket)),
  'stream purged': async (s) => await stored(s, (admin) => admin.purge(podNames.stream)),
  'stream deleted': async (s) => await stored(s, (admin) => admin.remove(podNames.stream)),
  'consumers deleted': async (s) => await stored(s, (admin) => admin.removeConsumers(podNames.stream)),
}

export class FleetSchedule {
  readonly #s: FleetScenario
  /** The faults, in the order in which they started. */
  readonly faults: string[] = []

  constructor(s: FleetScenario) {
    this.#s = s
  }

  async run(durationMs: number): Promise<void> {
    this.#s.startLoad()
    const end = performance.now() + durationMs
    while (performance.now() < end) {
      await this.#one()
      await pause(randomInteger(this.#s.random, 100, 2_000))
    }
  }

  async #one(): Promise<void> {
    const name = this.#s.pick(Object.keys(faults))
    this.faults.push(name)
    await faults[name]!(this.#s)
  }
}
