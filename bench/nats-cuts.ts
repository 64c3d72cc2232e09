/**
 * Question: for how long is a fleet's data stale after two of three NATS servers lose contact, while both still reach
 * the third? A whole fleet runs: all built-in resources, three candidates and two edges. Each pair of servers is cut in
 * turn. Half of the cuts drop all traffic silently, and the other half refuse connections. A second part measures the
 * load on etcd when 50 replicas lose NATS at the same moment and continue from etcd.
 *
 * With 20 cuts, on two busy cores with NATS 2.15 (2.11 gives the same result), the oldest of 61 resources was 7.9 s old
 * at candidates (worst case 10.1 s) and 29 s at edges (worst case 51 s). Fifty candidates sent etcd about 20,000
 * requests, at most 7,000 in a second.
 *
 * `NATS_BIN` names the nats-server. The subjects are the two parts, `cuts` and `fallback`. `--seconds` is the length of
 * the longest cut. A cut ends earlier once all data has been fresh for a while. `--server-flag` goes to the candidates.
 */
import { execFileSync } from 'node:child_process'
import type { Test } from 'tap'
import { connectEtcd } from '../src/engine/upstream/etcd/etcd-upstream.js'
import { systemClock } from '../src/support/clock.js'
import { builtIn } from '../test/fleet/fleet-resources.js'
import { type FleetScenario, type Replica, startFleet } from '../test/fleet/fleet-scenario.js'
import { startReplicas } from '../test/fleet/nats-harness.js'
import { type EtcdProcess, startEtcd } from '../test/support/etcd-process.js'
import { EtcdWriter } from '../test/support/etcd-writer.js'
import { natsBinary, startNats } from '../test/support/nats-process.js'
import { pause, until } from '../test/support/until.js'
import { attempt, type Choice, type Question } from './support/choice.js'

const CUTS = 20
/** A resource is fresh below this age. The limit allows for late statuses, which come once a second. */
const FRESH_MS = 3_000
const SAMPLE_MS = 500
/** Replicas notice a cut within this time. A cut ends when everything has been fresh for this long. */
const NOTICED_MS = 8_000
const LONGEST_CUT_MS = 30_000
const LOAD_REPLICAS = 50
const LOAD_MS = 30_000

export const natsCuts: Question = async (choice) => {
  const parts = choice.subjects.length > 0 ? choice.subjects : ['cuts', 'fallback']
  for (const part of parts) {
    const who = { question: 'nats-cuts', subject: part, wire: 'nats' }
    await attempt(choice, who, async () => {
      const natsVersion = execFileSync(natsBinary, ['--version'], { encoding: 'utf8' }).trim()
      const figures = await withTeardown((t) => (part === 'cuts' ? cuts(t, choice) : fallback(t, choice)))
      choice.recorder.row({ ...who, natsVersion, ...figures })
    })
  }
}

async function withTeardown<T>(work: (t: Test) => Promise<T>): Promise<T> {
  const teardowns: (() => unknown)[] = []
  try {
    return await work({ teardown: (done: () => unknown) => void teardowns.push(done) } as unknown as Test)
  } finally {
    for (const done of teardowns.reverse()) await done()
  }
}

type Figures = Readonly<Record<string, number>>

// Cuts

async function cuts(t: Test, choice: Choice): Promise<Figures> {
  const s = await startFleet(t, { isWhole: true, candidateFlags: choice.serverFlags })
  s.startLoad()
  const measured: Cut[] = []
  for (let i = 0; i < (choice.quick ? 3 : CUTS); i++) {
    await s.recovered()
    measured.push(await oneCut(s, i, choice.seconds === undefined ? LONGEST_CUT_MS : choice.seconds * 1_000))
    process.stderr.write(`bench: cut ${i}: ${JSON.stringify(measured.at(-1))}\n`)
  }
  const of = (name: 'candidates' | 'edges'): Figures => {
    const times = measured.map((cut) => cut[name].steadyMs).sort((a, b) => a - b)
    const ages = measured.map((cut) => cut[name].oldestMs).sort((a, b) => a - b)
    return {
      [`${name}MedianMs`]: times[Math.floor(times.length / 2)]!,
      [`${name}MaxMs`]: times.at(-1)!,
      [`${name}Beyond10s`]: times.filter((ms) => ms > 10_000).length,
      [`${name}NeverSteady`]: times.filter((ms) => ms === Infinity).length,
      [`${name}OldestMedianMs`]: ages[Math.floor(ages.length / 2)]!,
      [`${name}OldestMaxMs`]: ages.at(-1)!,
    }
  }
  const requests = Math.max(...measured.map(({ etcdRequestsPerSecond }) => etcdRequestsPerSecond))
  return { cuts: measured.length, ...of('candidates'), ...of('edges'), etcdRequestsPerSecond: requests }
}

interface Cut {
  readonly candidates: Aged
  readonly edges: Aged
  /** The largest number in one second. */
  readonly etcdRequestsPerSecond: number
}

interface Aged {
  /**
   * The last time at which a replica of this kind had a resource that was not fresh; infinite if some resource stayed
   * stale.
   */
  readonly steadyMs: number
  /** The greatest age of a resource at any of these replicas. */
  readonly oldestMs: number
}

async function oneCut(s: FleetScenario, index: number, longestMs: number): Promise<Cut> {
  const load = await watchEtcd(s.etcd)
  const links = s.between(index % 3, (index + 1) % 3)
  const startedMs = performance.now()
  await s.separate(links, index % 2 === 0 ? 'silence' : 'refusal')
  const staleMs = new Map<Replica, number>(s.replicas.map((replica) => [replica, 0]))
  const oldestMs = new Map<Replica, number>(s.replicas.map((replica) => [replica, 0]))
  for (;;) {
    await pause(SAMPLE_MS)
    const ages = await Promise.all(s.replicas.map((replica) => oldest(replica.server.url)))
    const nowMs = performance.now() - startedMs
    for (const [i, replica] of s.replicas.entries()) {
      if (ages[i]! >= FRESH_MS) staleMs.set(replica, nowMs)
      oldestMs.set(replica, Math.max(oldestMs.get(replica)!, ages[i]!))
    }
    if (nowMs > longestMs || nowMs - Math.max(...staleMs.values()) > NOTICED_MS) break
  }
  await s.join(links)
  const lastOf = (replicas: readonly Replica[]): Aged => {
    const last = Math.max(...replicas.map((replica) => staleMs.get(replica)!))
    const age = Math.max(...replicas.map((replica) => oldestMs.get(replica)!))
    return { steadyMs: last > longestMs - 2 * SAMPLE_MS ? Infinity : Math.round(last), oldestMs: Math.round(age) }
  }
  const { peak } = await load.end()
  return { candidates: lastOf(s.candidates), edges: lastOf(s.edges), etcdRequestsPerSecond: peak }
}

/** Returns the greatest age of a resource. */
async function oldest(url: string): Promise<number> {
  const answer = await fetch(`${url}/readyz?ages`)
  const { ages } = (await answer.json()) as { ages: Readonly<Record<string, { readonly ageMs: number | null }>> }
  return Math.max(...Object.values(ages).map(({ ageMs }) => ageMs ?? Infinity))
}

// The load of a fallback

async function fallback(t: Test, choice: Choice): Promise<Figures> {
  const etcd = await startEtcd(t)
  const nats = await startNats(t, { maxFile: '8GB' })
  const writer = new EtcdWriter([etcd])
  const resources = builtIn.map(({ resource }) => resource)
  for (const each of builtIn) await writer.put(each.keyOf('a'), each.object('a', {}))
  const replicas = Array.from({ length: choice.quick ? 5 : LOAD_REPLICAS }, () => {
    const upstream = connectEtcd({ endpoints: [etcd.url] })
    t.teardown(() => upstream.close())
    const limits = { replicas: 1, maxBytes: 2 ** 20, maxAgeMs: 3_600_000 }
    return startReplicas(t, {
      servers: [nats.url],
      upstream,
      resources,
      fallbackAfterMs: 5_000,
      // A lease must outlast the pauses of this process, which runs many candidates.
      leaseMs: 60_000,
      limits,
    })
  })
  const feeds = replicas.flat()
  await until(() => feeds.every(({ sink }) => sink.isSynced), 'all are synced', 300_000)
  await pause(5_000)
  const load = await watchEtcd(etcd)
  await nats.kill()
  const startedMs = systemClock.monotonic()
  const putMs: number[] = []
  let directMs = Infinity
  while (systemClock.monotonic() - startedMs < LOAD_MS) {
    const beforeMs = performance.now()
    await writer.put(builtIn[0]!.keyOf('a'), builtIn[0]!.object('a', { note: String(beforeMs) }))
    putMs.push(performance.now() - beforeMs)
    const isDirect = feeds.every(({ feed }) => feed.status.part === 'direct' && feed.status.state === 'watching')
    if (isDirect) directMs = Math.min(directMs, systemClock.monotonic() - startedMs)
    await pause(20)
  }
  const { peak, sum, watches } = await load.end()
  // The feeds stop together, because each of them waits for a reply from NATS.
  await Promise.all(feeds.map(({ feed }) => feed.stop()))
  putMs.sort((a, b) => a - b)
  return {
    replicas: replicas.length,
    resources: resources.length,
    allDirectMs: Math.round(directMs),
    etcdRequests: sum,
    etcdRequestsPerSecond: peak,
    etcdWatches: watches,
    putP50Ms: putMs[Math.floor(putMs.length / 2)]!,
    putMaxMs: putMs.at(-1)!,
  }
}

/** Counts, per second, the messages that clients send to etcd. Each message is a request or opens a watch. */
async function watchEtcd(etcd: EtcdProcess): Promise<{
  end(): Promise<{ readonly peak: number; readonly sum: number; readonly watches: number }>
}> {
  const count = async (): Promise<number> => {
    let sum = 0
    for (const [name, value] of await etcd.metrics()) {
      if (name.startsWith('grpc_server_msg_received_total{')) sum += value
    }
    return sum
  }
  const first = await count()
  let isOver = false
  let peak = 0
  const counting = (async () => {
    let [last, lastMs] = [first, performance.now()]
    while (!isOver) {
      await pause(1_000)
      const [now, nowMs] = [await count(), performance.now()]
      peak = Math.max(peak, ((now - last) * 1_000) / (nowMs - lastMs))
      ;[last, lastMs] = [now, nowMs]
    }
    return last - first
  })()
  return {
    end: async () => {
      isOver = true
      const sum = await counting
      const watches = (await etcd.metrics()).get('etcd_debugging_mvcc_watcher_total') ?? 0
      return { peak: Math.round(peak), sum, watches }
    },
  }
}
