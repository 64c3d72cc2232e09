/**
 * Question: what does the NATS hop cost in delay, in events carried, in time until a new edge is ready, and in bytes
 * for each event and edge?
 *
 * There are one nats-server (with `--servers 3` three, and every stream on all of them), one publisher and four edges.
 * The replicas share this process and its core; the server has another. So the throughput is that of all five together,
 * and a lower bound for each. Each question prints one line of JSON.
 */
import { spawnSync } from 'node:child_process'
import { cpus, loadavg } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import { CountedUpstream, type Replica, startReplica } from '../test/fleet/nats-harness.js'
import { startNats, startNatsCluster } from '../test/support/nats-process.js'
import { until } from '../test/support/until.js'

const EDGES = 4
const VALUE_BYTES = 1_024
const OBJECTS = 50_000

const commit = spawnSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).stdout.trim()
const machine = { commit, node: process.version, cpu: cpus()[0]?.model ?? '', cores: cpus().length }

function quantile(sorted: readonly number[], q: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? 0
}

const milliseconds = (seconds: number): number => Math.round(seconds * 1e5) / 100
const reached = (etcd: CountedUpstream, replicas: readonly Replica[]): Promise<void> =>
  until(
    () => replicas.every(({ sink }) => sink.isSynced && sink.revision >= etcd.embedded.revision),
    'all are there',
    120_000,
  )

/** @param servers 1 or 3; with 3 every stream is on all of them. */
export async function nats(servers: 1 | 3): Promise<void> {
  const teardowns: (() => unknown)[] = []
  const t = { teardown: (work: () => unknown) => void teardowns.push(work) }
  try {
    await measure(t, servers)
  } finally {
    for (const work of teardowns.reverse()) await work()
  }
}

async function measure(t: { teardown: (work: () => unknown) => void }, servers: 1 | 3): Promise<void> {
  const report = (name: string, result: object): void => {
    const load = Math.round(loadavg()[0]! * 10) / 10
    process.stdout.write(`${JSON.stringify({ bench: 'nats', name, servers, ...result, load, ...machine })}\n`)
  }
  const cluster = servers === 3 ? await startNatsCluster(t as never) : [await startNats(t as never)]
  const outOfAll = async (): Promise<number> =>
    (await Promise.all(cluster.map((one) => one.varz('out_bytes')))).reduce((sum, bytes) => sum + bytes, 0)
  const etcd = new CountedUpstream()
  const value = Buffer.alloc(VALUE_BYTES, 'x')
  for (let i = 0; i < OBJECTS; i += 100) {
    etcd.commit(Object.fromEntries(Array.from({ length: 100 }, (_, j) => [`o${i + j}`, value])))
  }
  const options = {
    servers: cluster.map(({ url }) => url),
    limits: { replicas: servers, maxBytes: 256 * 2 ** 20, maxAgeMs: 3_600_000 },
    upstream: etcd.upstream,
    snapshotMessages: 10_000,
    snapshotBytes: 1e12,
    leaseMs: 10_000,
  }
  const publisher = startReplica(t as never, { ...options, role: 'origin' })
  await until(() => publisher.isPublishing && publisher.metrics.publishedMessages > 1, 'it publishes', 60_000)
  const edges = Array.from({ length: EDGES }, () => startReplica(t as never, { ...options, role: 'edge' }))
  await reached(etcd, edges)

  const startedMs = performance.now()
  const fresh = startReplica(t as never, { ...options, role: 'edge' })
  await reached(etcd, [fresh])
  report('edge-ready', { objects: OBJECTS, valueBytes: VALUE_BYTES, seconds: (performance.now() - startedMs) / 1_000 })
  await fresh.stop()

  for (const { metrics } of edges) metrics.hops.length = 0
  const paced = 20
  for (let i = 0; i < 400; i++) {
    etcd.put(`o${i}`, value)
    await delay(1_000 / paced / 2)
  }
  await reached(etcd, edges)
  const hops = edges.flatMap(({ metrics }) => metrics.hops).sort((a, b) => a - b)
  report('hop-delay', {
    edges: EDGES,
    eventsPerSecond: paced * 2,
    samples: hops.length,
    p50Ms: milliseconds(quantile(hops, 0.5)),
    p99Ms: milliseconds(quantile(hops, 0.99)),
    maxMs: milliseconds(hops.at(-1) ?? 0),
    resolutionMs: 1,
  })

  for (const [name, run] of [
    ['carried-20-a-turn', 20],
    ['carried-500-a-turn', 500],
  ] as const) {
    const total = 20_000
    const outBefore = await outOfAll()
    const publishedBefore = publisher.metrics.publishedMessages
    const beganMs = performance.now()
    for (let i = 0; i < total; i += run) {
      for (let j = 0; j < run; j++) etcd.put(`o${i + j}`, value)
      await new Promise((resolve) => setImmediate(resolve))
    }
    await reached(etcd, edges)
    const seconds = (performance.now() - beganMs) / 1_000
    const outBytes = (await outOfAll()) - outBefore
    report(name, {
      edges: EDGES,
      events: total,
      valueBytes: VALUE_BYTES,
      eventsPerSecond: Math.round(total / seconds),
      deliveriesPerSecond: Math.round((total * EDGES) / seconds),
      eventsPerMessage: total / (publisher.metrics.publishedMessages - publishedBefore),
      natsBytesPerEventAndEdge: Math.round(outBytes / total / EDGES),
    })
  }
}
