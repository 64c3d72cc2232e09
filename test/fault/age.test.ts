/**
 * Answers from the cache state their age from the moment when etcd last answered, not from when its silence was
 * noticed.
 */
import t, { type Test } from 'tap'
import { type Scenario, startScenario } from './scenario.js'
import { pause, until } from '../support/until.js'

/** gRPC notices nothing within the test: only the heartbeat does. */
const never = { keepAliveTimeMs: 300_000, keepAliveTimeoutMs: 300_000, requestTimeoutMs: 300_000 }
/** How much older than stated a response may be. */
const TOLERANCE_MS = 2_000

interface List {
  readonly items: readonly { readonly metadata: { readonly name: string } }[]
}

/** Reads lists from the cache continuously, and records those that are older than stated. */
class AgeReader {
  readonly violations: string[] = []
  /** The age that the newest response stated, in seconds. */
  age = 0
  /** Pods, and when etcd acknowledged them. */
  readonly written = new Map<string, number>()
  /** Whether the newest list contained everything that was written. */
  hasAll = false
  #isStopped = false
  readonly #running: Promise<void>

  constructor(url: string) {
    this.#running = this.#read(`${url}/api/v1/namespaces/a/pods?resourceVersion=0`)
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#running
  }

  async #read(url: string): Promise<void> {
    for (; !this.#isStopped; await pause(20)) {
      const askedAt = performance.now()
      const answer = await fetch(url)
      const { items } = (await answer.json()) as List
      const names = new Set(items.map(({ metadata }) => metadata.name))
      this.age = Number(answer.headers.get('x-distributary-staleness-seconds') ?? '0')
      const missing = [...this.written].filter(([name]) => !names.has(name))
      this.hasAll = missing.length === 0
      for (const [name, writtenAt] of missing) {
        const lateMs = askedAt - writtenAt
        if (lateMs > this.age * 1_000 + TOLERANCE_MS) {
          this.violations.push(`without ${name}, written ${Math.round(lateMs)} ms before, it says ${this.age} s`)
        }
      }
    }
  }
}

async function readAges(t: Test, s: Scenario): Promise<AgeReader> {
  const reader = new AgeReader(s.h.url)
  t.teardown(() => reader.stop())
  return reader
}

async function judge(t: Test, reader: AgeReader): Promise<void> {
  await until(() => reader.hasAll && reader.age === 0, 'it has everything, and says that it is fresh')
  await reader.stop()
  t.same(reader.violations, [])
}

void t.test('a silent connection to etcd makes answers age from the last message', async (t) => {
  const s = await startScenario(t, { times: never })
  const reader = await readAges(t, s)
  for (const proxy of s.proxies) proxy.stall('to-server', 'to-client')
  const name = 'silent'
  await s.writer.put(`/registry/pods/a/${name}`, { metadata: { name, namespace: 'a' } })
  reader.written.set(name, performance.now())
  await until(() => reader.age >= 6, 'the age grows while nothing has noticed the fault')
  for (const proxy of s.proxies) proxy.release('to-server', 'to-client')
  await judge(t, reader)
})

void t.test('data does not age while a quiet etcd answers', async (t) => {
  const s = await startScenario(t)
  const reader = await readAges(t, s)
  await pause(4_000)
  // On a machine that halts for seconds the cache is briefly old, as it should be.
  await until(() => reader.age === 0, 'it says that it is fresh')
  await reader.stop()
  t.same(reader.violations, [])
})

void t.test(
  'when the member with our watches freezes, answers age until the watches continue at another',
  async (t) => {
    const s = await startScenario(t, { members: 3, times: never })
    const reader = await readAges(t, s)
    const watched = async (): Promise<number> => {
      const counts = await Promise.all(s.members.map((member) => member.metrics()))
      return counts.findIndex((samples) => (samples.get('etcd_debugging_mvcc_watcher_total') ?? 0) > 0)
    }
    await until(async () => (await watched()) !== -1, 'a member has our watches')
    const at = await watched()
    await s.members[at]!.kill('SIGSTOP')
    const names = Array.from({ length: 20 }, (_, i) => `frozen-${i}`)
    for (const name of names) {
      await s.writer.put(`/registry/pods/a/${name}`, { metadata: { name, namespace: 'a' } })
      reader.written.set(name, performance.now())
      await pause(200)
    }
    await judge(t, reader)
    await s.members[at]!.kill('SIGCONT')
  },
)
