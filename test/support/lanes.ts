/**
 * Which tests run side by side, in two lanes with one more process each than there are processors. Most tests keep a processor
 * busy for most of their time. Those that wait for most of theirs, for a lease to end, a timeout or an election, have the second
 * lane; otherwise each would hold a processor that it does not use.
 */
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { groupFiles } from './shared-processes.js'

export interface Lane {
  /** Files that one process runs, one after the other. */
  readonly groups: readonly (readonly string[])[]
  /** How many groups run at once. */
  readonly jobs: number
}

/** Sources that use less than about half of a processor, and take seconds: files, or folders. */
export const WAITING: readonly string[] = [
  'test/bench/fanout.test.ts',
  'test/client/leader-election.test.ts',
  'test/client/shared-informer/faults.test.ts',
  'test/conformance/watch.test.ts',
  'test/etcd',
  'test/fault/age.test.ts',
  'test/fault/broken-builds.test.ts',
  'test/fault/cluster.test.ts',
  'test/fault/compaction.test.ts',
  'test/fault/connections.test.ts',
  'test/fault/random.test.ts',
  'test/fault/restore.test.ts',
  'test/fault/slow-loris.test.ts',
  'test/fault/starved.test.ts',
  'test/fault/upstream.test.ts',
  'test/feed/feed',
  'test/fleet/nats',
  'test/fleet/nats.test.ts',
  'test/integration/credential-files.test.ts',
  'test/integration/rotation.test.ts',
  'test/integration/stopped-primary.test.ts',
  'test/ops/tracing.test.ts',
  'test/reference/recorded.test.ts',
  'test/security/certificate-end.test.ts',
  'test/security/limits.test.ts',
  'test/server/etcd-credentials.test.ts',
  'test/server/live-config.test.ts',
  'test/transports/framing/server-sent-events.test.ts',
  'test/transports/watch/gzip-sink.test.ts',
  'test/transports/watch/stream-sink.test.ts',
  'test/upstream/etcd',
  'test/upstream/http/remote-ages.test.ts',
]

/** They take long, so that the last process would keep the run waiting. */
const WAITING_FILES_IN_PROCESS = 4

const waitingPaths = WAITING.map((source) => join('.build', source.replace(/\.ts$/, '.js')))

/** @param files compiled tests, relative to the root; each lane keeps their order. */
export function splitLanes(files: readonly string[], processors = availableParallelism()): Lane[] {
  const waiting = files.filter((file) => waitingPaths.some((path) => file === path || file.startsWith(`${path}/`)))
  const busy = files.filter((file) => !waiting.includes(file))
  return [
    { groups: groupFiles(busy), jobs: processors + 1 },
    { groups: groupFiles(waiting, WAITING_FILES_IN_PROCESS), jobs: processors + 1 },
  ].filter(({ groups }) => groups.length > 0)
}
