/** Opens the NATS part of a fleet from the configuration (`--nats-*`). */
import { hostname } from 'node:os'
import { WatchedFiles, type WatchedFilesOptions } from '../auth/watched-file.js'
import type { Config } from '../config/load.js'
import type { OpenFeed } from '../../engine/feed/resource-feed.js'
import type { UpstreamFeedOptions } from '../../engine/feed/upstream-feed.js'
import { noSigningKeys, parseSigningKeys, type SigningKeys } from '../../fleet/stream/signed-envelope.js'
import type { NatsConnectOptions, Pem } from '../../fleet/nats/nats-client.js'
import { SharedClient } from '../../fleet/nats/shared-client.js'
import { streamFeeds } from '../../fleet/stream/stream-feeds.js'
import type { Metrics } from '../metrics/metrics.js'
import { readRegularFile } from '../auth/read-regular-file.js'
import type { Key } from '../../engine/model/event.js'
import { type Upstream, UpstreamError } from '../../engine/upstream/upstream.js'

/**
 * When a stream has confirmed nothing for at least this long, a candidate reads the resource from etcd (`fallback.ts`).
 */
const FALLBACK_AFTER_MS = 5_000
/** After a snapshot, an edge replays about this many messages at most. */
const SNAPSHOT_MESSAGES = 10_000
const SNAPSHOT_BYTES = 32 * 2 ** 20

export function natsFleet(
  config: Config,
  options: UpstreamFeedOptions & { readonly upstream: Upstream },
  metrics: Metrics,
): OpenFeed {
  const { clock, random, logger } = options
  const connection = connectionOf(config)
  return streamFeeds({
    ...options,
    fleetMetrics: (resource) => metrics.forFleet(resource),
    broker: new SharedClient({ connection, clock, random, logger }),
    holder: connection.name,
    signingKeys: signingKeysOf(config, { clock, logger, metrics: metrics.process }),
    cluster: config.natsCluster,
    role: config.natsRole,
    fallbackAfterMs: FALLBACK_AFTER_MS,
    leaseMs: config.natsLease,
    limits: {
      replicas: config.natsReplicas,
      maxBytes: config.natsStreamBytes,
      maxAgeMs: config.watchCacheAge,
    },
    snapshotMessages: SNAPSHOT_MESSAGES,
    snapshotBytes: SNAPSHOT_BYTES,
    // It would be a waste to replay more messages than the ring holds.
    refillMessages: config.defaultWatchCacheSize,
  })
}

/** @throws Error for an unusable file. */
function signingKeysOf({ natsSigningKeyFile: path }: Config, deps: Omit<WatchedFilesOptions, 'paths'>): SigningKeys {
  return path === null ? noSigningKeys : new WatchedFiles({ paths: [path], ...deps }, parseSigningKeys)
}

/** @throws Error when a file cannot be read. */
export function connectionOf(config: Config): NatsConnectOptions {
  const { natsCafile, natsCertfile, natsKeyfile, natsUsername, natsPasswordFile, natsCredsFile, natsNkeyFile } = config
  const text = (path: string): string => readRegularFile(path).toString('utf8')
  // An unreadable file is rejected now; its content may change later.
  for (const path of [natsCafile, natsCertfile, natsKeyfile, natsPasswordFile, natsCredsFile, natsNkeyFile]) {
    if (path !== null) readRegularFile(path)
  }
  const pem = Object.entries({ ca: natsCafile, cert: natsCertfile, key: natsKeyfile })
  const tls = (): Pem => Object.fromEntries(pem.flatMap(([name, path]) => (path === null ? [] : [[name, text(path)]])))
  return {
    servers: config.natsServers,
    name: `distributary ${hostname()} ${process.pid}`,
    ...(natsUsername === null || natsPasswordFile === null
      ? {}
      : { user: { name: natsUsername, password: () => text(natsPasswordFile).replace(/\r?\n$/, '') } }),
    ...(natsCredsFile === null ? {} : { credentials: () => readRegularFile(natsCredsFile) }),
    ...(natsNkeyFile === null ? {} : { nkeySeed: () => Buffer.from(text(natsNkeyFile).trim()) }),
    // The scheme alone requests TLS, with the system's certificates.
    ...(pem.some(([, path]) => path !== null) || config.natsServers.some((url) => url.startsWith('tls:'))
      ? { tls }
      : {}),
  }
}

/** Returns an upstream for servers that have no route to etcd. All its operations fail. */
export function noUpstream(why: string): Upstream {
  const refuse = (): Promise<never> => Promise.reject(new UpstreamError('unavailable', why))
  return {
    read: refuse,
    readKey: (_key: Key) => refuse(),
    currentRevision: refuse,
    status: refuse,
    write: refuse,
    grantLease: refuse,
    dropLease: refuse,
    watch: (_options, handlers) => {
      const timer = setTimeout(
        () => handlers.onEnd({ kind: 'failed', error: new UpstreamError('unavailable', why) }),
        0,
      )
      return { requestProgress: () => {}, close: () => clearTimeout(timer) }
    },
    close: () => Promise.resolve(),
  }
}
