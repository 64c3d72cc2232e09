/**
 * Question: what does a restart of our server cost etcd, and how long is it until the server is ready? Puts continue at
 * a steady rate. Their delay and etcd's memory are measured without a restart, and while a server lists and reads back
 * that many revisions, which other programs wrote (`--backfill-revisions`). Both ratios decide that option's default.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { keyFromText } from '../src/engine/model/event.js'
import { connectEtcd } from '../src/engine/upstream/etcd/etcd-upstream.js'
import { attempt, type Choice, type Question, type Target, targets } from './support/choice.js'
import { withScene } from './support/scene.js'
import { createWorkspace } from './support/workspace.js'

export const restart: Question = async (choice) => {
  for (const target of targets(choice, ['distributary/http1'])) {
    for (const history of choice.quick ? HISTORIES.slice(0, 5) : HISTORIES) {
      await attempt(choice, { question: 'restart', subject: target.kind.name, wire: target.wire, ...history }, () =>
        one(choice, target, history),
      )
    }
  }
}

interface History {
  readonly revisions: number
  readonly bytes: number
}

const HISTORIES: readonly History[] = [
  { revisions: 0, bytes: 1_024 },
  { revisions: 10_000, bytes: 1_024 },
  { revisions: 30_000, bytes: 1_024 },
  { revisions: 100_000, bytes: 1_024 },
  { revisions: 10_000, bytes: 30_720 },
  { revisions: 30_000, bytes: 30_720 },
  { revisions: 100_000, bytes: 30_720 },
]
const WRITES_AT_ONCE = 64

const RATE = 300
const MAX_MS = 120_000

async function one(choice: Choice, target: Target, history: History): Promise<void> {
  const seconds = choice.seconds ?? (choice.quick ? 6 : 10)
  const objects = { count: choice.quick ? 500 : 10_000, nodes: 100, bytes: 1024 }
  await withScene({ ...choice, ...target, watchers: 0, objects }, async ({ source, etcd }) => {
    if (etcd === null) throw new Error(`${target.kind.name} has no etcd behind it`)
    const writes = { rate: RATE, count: RATE * seconds, ms: MAX_MS }
    await writeElsewhere(etcd.port, history)
    resetPeak(etcd.child.pid)
    const quiet = await source.run(writes)
    const quietMemory = peakBytes(etcd.child.pid)
    resetPeak(etcd.child.pid)
    const workspace = createWorkspace()
    try {
      const running = source.run(writes)
      const begin = performance.now()
      const again = await target.kind.start({
        workspace,
        wire: target.wire,
        resource: choice.resource,
        etcdPort: etcd.port,
        etcdPid: etcd.child.pid,
        watchers: 0,
        nodeFlags: choice.nodeFlags,
        serverFlags: [...choice.serverFlags, `--backfill-revisions=${history.revisions}`],
      })
      const readyMs = performance.now() - begin
      const during = await running
      await again.end()
      choice.recorder.row({
        question: 'restart',
        subject: target.kind.name,
        wire: target.wire,
        ...history,
        putsPerSecond: RATE,
        seconds,
        readyMs,
        quietPutP50Ms: quiet.putMs?.p50 ?? null,
        quietPutP99Ms: quiet.putMs?.p99 ?? null,
        restartPutP50Ms: during.putMs?.p50 ?? null,
        restartPutP99Ms: during.putMs?.p99 ?? null,
        quietEtcdBytes: quietMemory,
        restartEtcdBytes: peakBytes(etcd.child.pid),
      })
    } finally {
      workspace.remove()
    }
  })
}

/** Writes revisions that no server serves. */
async function writeElsewhere(port: number, { revisions, bytes }: History): Promise<void> {
  const etcd = connectEtcd({ endpoints: [`http://127.0.0.1:${port}`] })
  const value = Buffer.alloc(bytes, 'x')
  let left = revisions
  const lane = async (_: unknown, i: number): Promise<void> => {
    while (left-- > 0) await etcd.write([], [{ type: 'put', key: keyFromText(`/elsewhere/${i}`), value }])
  }
  await Promise.all(Array.from({ length: WRITES_AT_ONCE }, lane))
  await etcd.close()
}

/** Resets the peak of a process's resident memory. */
function resetPeak(pid: number | undefined): void {
  writeFileSync(`/proc/${pid}/clear_refs`, '5')
}

function peakBytes(pid: number | undefined): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Number(/^VmHWM:\s+(\d+) kB/m.exec(status)?.[1] ?? 0) * 1_024
}
