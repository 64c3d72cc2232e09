/**
 * Question: what does a restart of our server cost etcd? Puts continue at a steady rate. Their delay is measured
 * without a restart, and while a server lists and reads 10,000 revisions of history (`--backfill-revisions`).
 */
import { attempt, type Choice, type Question, type Target, targets } from './support/choice.js'
import { withScene } from './support/scene.js'
import { createWorkspace } from './support/workspace.js'

export const restart: Question = async (choice) => {
  for (const target of targets(choice, ['distributary/http1'])) {
    await attempt(choice, { question: 'restart', subject: target.kind.name, wire: target.wire }, () =>
      one(choice, target),
    )
  }
}

const RATE = 300
const MAX_MS = 120_000

async function one(choice: Choice, target: Target): Promise<void> {
  const seconds = choice.seconds ?? (choice.quick ? 2 : 10)
  const objects = { count: choice.quick ? 500 : 10_000, nodes: 100, bytes: 1024 }
  await withScene({ ...choice, ...target, watchers: 0, objects }, async ({ source, etcd }) => {
    if (etcd === null) throw new Error(`${target.kind.name} has no etcd behind it`)
    const writes = { rate: RATE, count: RATE * seconds, ms: MAX_MS }
    const quiet = await source.run(writes)
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
        serverFlags: choice.serverFlags,
      })
      const readyMs = performance.now() - begin
      const during = await running
      await again.end()
      choice.recorder.row({
        question: 'restart',
        subject: target.kind.name,
        wire: target.wire,
        revisions: objects.count,
        putsPerSecond: RATE,
        seconds,
        readyMs,
        quietPutP50Ms: quiet.putMs?.p50 ?? null,
        quietPutP99Ms: quiet.putMs?.p99 ?? null,
        restartPutP50Ms: during.putMs?.p50 ?? null,
        restartPutP99Ms: during.putMs?.p99 ?? null,
      })
    } finally {
      workspace.remove()
    }
  })
}
