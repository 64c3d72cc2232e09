/**
 * Replicas of a fleet in one process, over a real nats-server: each with its own connection and a sink that checks its
 * calls.
 */
import type { Test } from 'tap'
import type { CheckedCache } from '../../src/engine/model/checked-cache.js'
import type { FleetMetrics } from '../../src/fleet/fleet-metrics.js'
import type { FreshnessSource } from '../../src/engine/model/freshness-source.js'
import type { ResourceFeed } from '../../src/engine/feed/resource-feed.js'
import { Envelope, noSigningKeys } from '../../src/fleet/stream/signed-envelope.js'
import { SharedClient } from '../../src/fleet/nats/shared-client.js'
import { StreamFeed, type StreamFeedOptions, streamFeeds } from '../../src/fleet/stream/stream-feeds.js'
import { keyFromText } from '../../src/engine/model/event.js'
import type { ApiResource } from '../../src/kubernetes/model/api-resource.js'
import { systemClock } from '../../src/support/clock.js'
import { SharedLists } from '../../src/engine/feed/shared-lists.js'
import { silentLogger } from '../../src/support/log.js'
import { seededRandom } from '../../src/support/random.js'
import { createEmbeddedUpstream, type EmbeddedControls } from '../support/faulty-store.js'
import type { Upstream, WriteOperation } from '../../src/engine/upstream/upstream.js'
import { CountingMetrics } from '../engine/feed/harness.js'
import { RecordingSink } from '../engine/feed/recording-sink.js'

export const things: ApiResource = {
  group: '',
  version: 'v1',
  plural: 'things',
  singular: 'thing',
  kind: 'Thing',
  listKind: 'ThingList',
  shortNames: [],
  categories: [],
  namespaced: false,
  etcdPrefix: keyFromText('/registry/things/'),
  holds: 'kubernetes',
}

/** The envelope of a replica without keys. */
export const unsigned = new Envelope({
  keys: noSigningKeys,
  subject: 'log',
  clock: systemClock,
  logger: silentLogger,
  onRefused: () => {},
})

export interface ReplicaOptions extends Partial<Omit<StreamFeedOptions, 'broker' | 'holder'>> {
  readonly servers: readonly string[]
  readonly upstream: Upstream
  readonly sink?: RecordingSink
}

export interface Replica {
  readonly sink: RecordingSink
  readonly feed: ResourceFeed
  readonly freshness: FreshnessSource
  readonly metrics: FleetCounts
  readonly isPublishing: boolean
  stop(): Promise<void>
}

export class FleetCounts implements FleetMetrics {
  readonly hops: number[] = []
  messages = 0
  events = 0
  broke = 0
  refusals = 0
  loaded = 0
  publishedMessages = 0
  snapshots = 0
  unusable = 0
  queuedBytes = 0
  isPublishing: boolean | null = null

  delay(seconds: number): void {
    this.hops.push(seconds)
  }

  received(events = 1): void {
    this.messages++
    this.events += events
  }

  broken(): void {
    this.broke++
  }

  refused(): void {
    this.refusals++
  }

  snapshotLoaded(): void {
    this.loaded++
  }

  snapshotUnusable(): void {
    this.unusable++
  }

  queued(bytes: number): void {
    this.queuedBytes = bytes
  }

  publishing(isPublishing: number): void {
    this.isPublishing = isPublishing === 1
  }

  published(): void {
    this.publishedMessages++
  }

  snapshot(): void {
    this.snapshots++
  }
}

let names = 0

export function startReplica(t: Pick<Test, 'teardown'>, options: ReplicaOptions): Replica {
  const { sink, ...rest } = options
  return startReplicas(t, { ...rest, resources: [things], ...(sink === undefined ? {} : { sinks: [sink] }) })[0]!
}

export interface ReplicasOptions extends Omit<ReplicaOptions, 'sink'> {
  readonly resources: readonly ApiResource[]
  readonly sinks?: readonly RecordingSink[]
}

/** Starts one replica, with several resources. @returns what it has of each. */
export function startReplicas(t: Pick<Test, 'teardown'>, options: ReplicasOptions): readonly Replica[] {
  const { servers, upstream, resources, sinks, ...rest } = options
  const metrics = resources.map(() => new FleetCounts())
  const name = `replica-${++names}`
  const logger =
    process.env['TEST_LOG'] === undefined
      ? silentLogger
      : (() => {
          const log = (fields: object, message: string): void => {
            process.stderr.write(`${performance.now().toFixed(0)} ${name} ${message} ${JSON.stringify(fields)}\n`)
          }
          return { debug: log, info: log, warn: log, error: log }
        })()
  const random = seededRandom(names)
  const feeds = streamFeeds({
    broker: new SharedClient({ connection: { servers, name }, clock: systemClock, random, logger }),
    holder: name,
    signingKeys: noSigningKeys,
    cluster: 'test',
    role: 'auto',
    upstream,
    // Longer than any test.
    fallbackAfterMs: 3_600_000,
    leaseMs: 800,
    limits: { replicas: 1, maxBytes: 64 * 2 ** 20, maxAgeMs: 3_600_000 },
    snapshotMessages: 1_000,
    snapshotBytes: 16 * 2 ** 20,
    refillMessages: 100_000,
    fleetMetrics: (resource) => metrics[resources.findIndex(({ plural }) => plural === resource.plural)]!,
    clock: systemClock,
    random,
    logger,
    lists: new SharedLists(8, systemClock),
    backfillRevisions: 0,
    onGap: () => 'expire',
    ...rest,
  })
  return resources.map((resource, index) => {
    const sink = sinks?.[index] ?? new RecordingSink()
    const checked: CheckedCache = {
      get revision() {
        return sink.isSynced ? sink.revision : null
      },
      stateAt: (revision) =>
        revision === sink.revision ? [...sink.state.values()].sort((a, b) => (a.key < b.key ? -1 : 1)) : null,
    }
    const feed = feeds({ resource, sink, metrics: new CountingMetrics(), checked }) as StreamFeed
    feed.start()
    t.teardown(() => feed.stop())
    return {
      sink,
      feed,
      freshness: feed.freshness,
      metrics: metrics[index]!,
      get isPublishing() {
        return feed.isPublishing
      },
      stop: () => feed.stop(),
    }
  })
}

/** An in-process etcd that counts its watches. */
export class CountedUpstream {
  readonly embedded: EmbeddedControls
  readonly upstream: Upstream
  watches = 0

  constructor() {
    const embedded = createEmbeddedUpstream()
    this.embedded = embedded
    this.upstream = {
      read: (options) => embedded.read(options),
      readKey: (key, options) => embedded.readKey(key, options),
      currentRevision: (signal) => embedded.currentRevision(signal),
      status: (signal) => embedded.status(signal),
      write: (compares, operations) => embedded.write(compares, operations),
      grantLease: (ttlSeconds) => embedded.grantLease(ttlSeconds),
      dropLease: (leaseId) => embedded.dropLease(leaseId),
      close: () => embedded.close(),
      watch: (options, handlers) => {
        this.watches++
        let isOpen = true
        const closed = (): void => {
          if (isOpen) this.watches--
          isOpen = false
        }
        const watch = embedded.watch(options, {
          ...handlers,
          onEnd: (end) => {
            closed()
            handlers.onEnd(end)
          },
        })
        return {
          requestProgress: () => watch.requestProgress(),
          close: () => {
            closed()
            watch.close()
          },
        }
      },
    }
  }

  put(name: string, value: string | Buffer = `v${this.embedded.revision}`): void {
    this.commit({ [name]: value })
  }

  commit(values: Readonly<Record<string, string | Buffer | null>>): void {
    const operations = Object.entries(values).map(([name, value]): WriteOperation => {
      const key = keyFromText(`/registry/things/${name}`)
      return value === null ? { type: 'delete', key } : { type: 'put', key, value: Buffer.from(value) }
    })
    this.embedded.commit(operations)
  }
}

/** Returns the final state of a sink, for comparison with etcd. */
export function stateOf(sink: RecordingSink): string[] {
  return [...sink.state.values()]
    .sort((a, b) => (a.key < b.key ? -1 : 1))
    .map(({ key, modRevision, value }) => `${key}@${modRevision}=${value.length}:${value.subarray(0, 40).toString()}`)
}

export async function stateOfUpstream(upstream: Upstream): Promise<string[]> {
  const { keyValues } = await upstream.read({ prefix: things.etcdPrefix })
  return keyValues.map(
    ({ key, modRevision, value }) => `${key}@${modRevision}=${value.length}:${value.subarray(0, 40).toString()}`,
  )
}
