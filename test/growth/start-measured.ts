/**
 * Starts a server with a probe in each of its processes. Its waits for silent clients, its checks and its caches are
 * smaller than a user's, so that rounds of twenty repetitions reach their limits.
 */
import type { Test } from 'tap'
import type { EtcdWriter, Written } from '../support/etcd-writer.js'
import { compiledPath } from '../support/compiled-path.js'
import { bundleWith, type Change, constant } from '../support/program.js'
import { type ServerProcess, startServer } from '../support/server-process.js'
import { PROGRAM_VARIABLE, SOCKETS_VARIABLE } from './probe.js'
import { socketsFolder } from './processes.js'

const FIXED = 'src/server/limits/fixed-limits.ts'
const LISTENERS = 'src/server/transports/server/listeners.ts'

const changes: readonly Change[] = [
  constant(LISTENERS, 'KEEP_ALIVE_TIMEOUT_MS', 1_500),
  constant(FIXED, 'HEADERS_TIMEOUT_MS', 1_000),
  constant(LISTENERS, 'CHECK_INTERVAL_MS', 100),
  constant(LISTENERS, 'PROBE_MS', 200),
  constant(LISTENERS, 'PING_MS', 1_000),
  constant(FIXED, 'LINGER_MS', 500),
  constant(FIXED, 'UNREAD_BODY_MS', 500),
  constant('src/server/transports/framing/server-sent-events.ts', 'MARK_EVERY_MS', 100),
  constant('src/server/transports/framing/websocket-messages.ts', 'PING_EVERY_MS', 100),
  constant('src/server/transports/passthrough/tunnel.ts', 'HALF_OPEN_SILENCE_MS', 100),
  constant('src/server/served/definitions.ts', 'CHANGE_MS', 20),
  constant('src/server/served/rbac-objects.ts', 'REFRESH_MS', 100),
  constant('src/engine/cache/ring-buffer.ts', 'KEPT_HISTORY_MS', 50),
  constant('src/engine/cache/reads.ts', 'KEPT_SNAPSHOT_MS', 100),
  constant('src/engine/model/limits.ts', 'MAX_PATHS', 16),
  constant('src/fleet/limits.ts', 'MOST_PUBLISHERS', 4),
  // Whatever is remembered of clients, tokens, users, keys: the most recent ones.
  {
    source: 'src/support/recent-entries.ts',
    pattern: /maxSize: maxEntries/,
    replacement: 'maxSize: Math.min(maxEntries, 16)',
  },
  {
    source: 'src/support/byte-cache.ts',
    pattern: /this\.#bounded\(options\.maxBytes\)/,
    replacement: 'this.#bounded(Math.min(options.maxBytes, 8_000))',
  },
  { source: 'src/kubernetes/codec/ingest.ts', pattern: /max: 1e4/, replacement: 'max: 16' },
]

let built: Promise<string> | null = null

/** The measured server's program; built once. */
function program(): Promise<string> {
  built ??= bundleWith('growth', changes)
  return built
}

/** Batches that a measured server keeps of each resource. */
const HISTORY = 64

/** Writes each of these keys until the history of its resource is full, so that later events displace earlier ones. */
export async function fillHistory(writer: EtcdWriter, values: Readonly<Record<string, Written>>): Promise<void> {
  for (let i = 0; i < HISTORY * 1.5; i++) await writer.commit(values)
}

export async function startMeasured(t: Test, flags: readonly string[]): Promise<ServerProcess> {
  return await startServer(t, {
    flags: [
      '--metrics-bind-address=127.0.0.1:0',
      '--requests-per-second=1000000',
      `--default-watch-cache-size=${HISTORY}`,
      '--bookmark-interval=1s',
      ...flags,
    ],
    program: compiledPath('test/growth/probe.ts'),
    environment: { [SOCKETS_VARIABLE]: socketsFolder(), [PROGRAM_VARIABLE]: await program() },
  })
}
