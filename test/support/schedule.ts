/**
 * Which test files share a process, and which processes run in parallel.
 *
 * Starting Node and loading tap and the server takes a second of processor time, more than most files need themselves,
 * so several files share a process. Processes run in two lanes, each with one more process than there are processors:
 * most files keep a processor busy; those that mostly wait (for a lease, a timeout or an election) have the second
 * lane, since each would otherwise occupy a processor that it does not use.
 */
import { availableParallelism } from 'node:os'
import { isUnder } from './select-tests.js'

export interface Lane {
  /** The files of one process, in order. */
  readonly groups: readonly (readonly string[])[]
  /** How many groups run at once. */
  readonly jobs: number
}

/** Files and folders that start first, so that none of them runs alone at the end. */
export const LONG: readonly string[] = [
  'test/integration',
  'test/fleet',
  'test/fault',
  'test/bench',
  'test/ops',
  'test/server/ui',
  'test/engine/feed/feed',
  'test/conformance',
  'test/guarantees/live.test.ts',
  'test/reference/recorded.test.ts',
  'test/security',
  'test/server/transports',
  'test/engine/upstream/etcd/etcd-upstream',
  'test/docs/commands-of-pages.test.ts',
]

/** Files that take seconds and use less than about half of a processor. */
export const WAITING: readonly string[] = [
  'test/bench/fanout.test.ts',
  'test/client/leader-election.test.ts',
  'test/client/shared-informer/faults.test.ts',
  'test/conformance/watch.test.ts',
  'test/etcd',
  'test/fault/age.test.ts',
  'test/fault/broken-builds.test.ts',
  'test/fault/clock-jumps.test.ts',
  'test/fault/cluster.test.ts',
  'test/fault/compaction.test.ts',
  'test/fault/connections.test.ts',
  'test/fault/random.test.ts',
  'test/fault/restore.test.ts',
  'test/fault/slow-loris.test.ts',
  'test/fault/starved.test.ts',
  'test/fault/upstream.test.ts',
  'test/engine/feed/feed',
  'test/fleet/nats',
  'test/fleet/nats.test.ts',
  'test/fleet/stream',
  'test/integration/credential-files.test.ts',
  'test/integration/rotation.test.ts',
  'test/integration/stopped-primary.test.ts',
  'test/integration/swapped-files.test.ts',
  'test/ops/tracing.test.ts',
  'test/reference/recorded.test.ts',
  'test/security/certificate-end.test.ts',
  'test/security/limits.test.ts',
  'test/server/wiring/etcd-credentials.test.ts',
  'test/server/wiring/live-config.test.ts',
  'test/server/transports/framing/server-sent-events.test.ts',
  'test/server/transports/watch/gzip-output.test.ts',
  'test/server/transports/watch/stream-output.test.ts',
  'test/engine/upstream/etcd',
  'test/kubernetes/upstream/remote-ages.test.ts',
]

/** Files with a process of their own, because they measure memory, change the environment or leave something behind. */
export const ALONE: readonly string[] = [
  // These measure memory.
  'test/fault/bounds.test.ts',
  'test/fault/outage-hour.test.ts',
  'test/support/recent-entries.test.ts',
  // This one changes the environment.
  'test/support/go-program.test.ts',
  // The tests of this file run side by side.
  'test/integration/nats-servers.test.ts',
]

/**
 * If the process dies, the files after the one at fault are lost; and the last process of a run should not run alone
 * for long.
 */
const FILES_IN_PROCESS = 8
/** Fewer, since they take long. */
const WAITING_FILES_IN_PROCESS = 4

/** The lanes of a run; within each, long files begin first. */
export function schedule(files: readonly string[], processors = availableParallelism()): Lane[] {
  const ordered = [...files].sort((a, b) => Number(isUnder(b, LONG)) - Number(isUnder(a, LONG)))
  const lanes = [
    groupFiles(
      ordered.filter((file) => !isUnder(file, WAITING)),
      FILES_IN_PROCESS,
    ),
    groupFiles(
      ordered.filter((file) => isUnder(file, WAITING)),
      WAITING_FILES_IN_PROCESS,
    ),
  ]
  return lanes.filter((groups) => groups.length > 0).map((groups) => ({ groups, jobs: processors + 1 }))
}

/** Groups keep the files' order, and are ordered by their first file. */
function groupFiles(files: readonly string[], atMost: number): string[][] {
  const groups: string[][] = []
  let open: string[] | null = null
  for (const file of files) {
    if (isUnder(file, ALONE)) {
      groups.push([file])
      continue
    }
    if (open === null || open.length >= atMost) groups.push((open = []))
    open.push(file)
  }
  return groups
}
