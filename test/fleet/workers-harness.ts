/** A primary and workers in one process, connected by real sockets; the test plays the source, call by call. */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import type { Test } from 'tap'
import type { FeedSink } from '../../src/engine/model/feed-sink.js'
import type { FreshnessSource } from '../../src/engine/model/freshness-source.js'
import type { ResourceFeed } from '../../src/engine/feed/resource-feed.js'
import { Primary, type PrimaryOptions } from '../../src/fleet/workers/primary.js'
import { WorkerChannel, type WorkerChannelOptions } from '../../src/fleet/workers/worker.js'
import type { WorkerLink } from '../../src/fleet/workers/worker-link.js'
import type { Key } from '../../src/engine/model/event.js'
import type { ApiResource } from '../../src/kubernetes/model/api-resource.js'
import type { Revision } from '../../src/engine/model/revision.js'
import { type Clock, systemClock } from '../../src/support/clock.js'
import { FairSemaphore } from '../../src/server/limits/fair-semaphore.js'
import { IdentityRateLimits } from '../../src/server/limits/identity-rate-limits.js'
import type { CountedLimits } from '../../src/fleet/workers/primary-limits.js'
import { SEMAPHORE_NAMES, type IdentitySemaphores } from '../../src/engine/model/shared-limits.js'
import { createEmbeddedUpstream } from '../support/faulty-store.js'
import { CountingMetrics } from '../engine/feed/harness.js'
import { RecordingSink } from '../engine/feed/recording-sink.js'

export const resource: ApiResource = {
  group: '',
  version: 'v1',
  plural: 'things',
  singular: 'thing',
  kind: 'Thing',
  listKind: 'ThingList',
  shortNames: [],
  categories: [],
  namespaced: false,
  etcdPrefix: '/registry/things/' as Key,
  holds: 'kubernetes',
}

export interface LimitsHarness extends CountedLimits {
  readonly semaphores: IdentitySemaphores
  /** Resets reported to the primary, by network. */
  readonly resetsOf: Map<string, number>
}

/** Limits of a primary: the same slots for each semaphore, no queue. */
export function countedLimits({ slots = 1_000, requestsPerSecond = 1e6, clock = systemClock } = {}): LimitsHarness {
  const semaphore = (): FairSemaphore =>
    new FairSemaphore({
      slots,
      maxSlotsPerIdentity: slots,
      maxWaiting: 2,
      maxWaitingPerIdentity: 2,
      maxWaitMs: 60_000,
      clock,
      onRejected: () => {},
    })
  const resetsOf = new Map<string, number>()
  return {
    semaphores: Object.fromEntries(SEMAPHORE_NAMES.map((name) => [name, semaphore()])) as unknown as IdentitySemaphores,
    rates: new IdentityRateLimits({ clock, requestsPerSecond: () => requestsPerSecond }),
    resets: { countOf: (network, resets) => void resetsOf.set(network, (resetsOf.get(network) ?? 0) + resets) },
    resetsOf,
  }
}

/** A feed from the primary's point of view, played by the test. */
export class ScriptedFeed implements ResourceFeed {
  readonly status = { state: 'watching', revision: null, reason: null } as const
  isRunning = false
  progressRequests = 0
  freshness: FreshnessSource = {
    trustsProgress: true,
    currentRevision: async () => 1 as Revision,
    requestProgress: () => void this.progressRequests++,
    readState: async (revision) => ({ revision: revision ?? (1 as Revision), keyValues: [] }),
    readKey: async () => null,
  }

  constructor(readonly sink: FeedSink) {}

  start(): void {
    this.isRunning = true
  }

  async stop(): Promise<void> {
    this.isRunning = false
  }
}

export interface TestWorker {
  readonly link: WorkerLink
  readonly channel: WorkerChannel
  readonly sink: RecordingSink
  readonly feed: ResourceFeed
  readonly socket: Socket
  /** The primary's end of the link. */
  readonly primarySocket: Socket
  /** Why the primary dropped the worker; null otherwise. */
  readonly dropped: string | null
}

export interface PrimaryHarness {
  readonly primary: Primary
  readonly feeds: readonly ScriptedFeed[]
  /** Connects a worker that subscribes to `resource`. */
  worker(clock?: Clock, options?: Partial<WorkerChannelOptions>): Promise<TestWorker>
}

export function primaryHarness(t: Test, options: Partial<PrimaryOptions> = {}): PrimaryHarness {
  const feeds: ScriptedFeed[] = []
  const primary = new Primary({
    openFeed: ({ sink }) => {
      const feed = new ScriptedFeed(sink)
      feeds.push(feed)
      return feed
    },
    upstream: createEmbeddedUpstream(),
    sources: [],
    feedMetrics: () => new CountingMetrics(),
    onUnwatched: () => {},
    mergeMetrics: async (ofWorkers) => ofWorkers.join('+'),
    keepCounts: () => {},
    status: () => 'primary',
    history: { maxItems: 1_000, maxBytes: 1e9, maxAgeMs: 1e9 },
    clock: systemClock,
    limits: countedLimits(),
    ...options,
  })
  t.teardown(() => primary.stop())
  return {
    primary,
    feeds,
    async worker(clock = systemClock, channelOptions = {}) {
      const [near, far] = await socketPair(t)
      let dropped: string | null = null
      const link = primary.attach(near, {
        onStarted: () => {},
        onBug: () => {},
        onClosed: (reason) => {
          dropped = reason
        },
      })
      const channel = new WorkerChannel({
        socket: far,
        clock,
        workers: 2,
        onClosed: () => {},
        collectMetrics: async () => 'own',
        collectStatus: async () => 'own',
        onBug: () => {},
        ...channelOptions,
      })
      t.teardown(() => channel.close())
      const sink = new RecordingSink()
      const feed = channel.openFeed({ resource, sink, metrics: new CountingMetrics() })
      feed.start()
      return {
        link,
        channel,
        sink,
        feed,
        socket: far,
        primarySocket: near,
        get dropped() {
          return dropped
        },
      }
    },
  }
}

export async function socketPair(t: Test): Promise<readonly [Socket, Socket]> {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const accepted = once(server, 'connection') as Promise<[Socket]>
  const far = connect((server.address() as AddressInfo).port, '127.0.0.1')
  const [near] = await accepted
  server.close()
  t.teardown(() => {
    near.destroy()
    far.destroy()
  })
  return [near, far]
}
