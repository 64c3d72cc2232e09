/**
 * Question: how much memory does an idle watcher need? It measures the server's resident memory with all watches open,
 * minus its memory before, divided by the number of watches, and measures again when all watches have received some
 * events. A few watches are opened and closed first, so that the memory of loaded code does not count.
 */
import { attempt, type Choice, type Question, type Target, targets } from './support/choice.js'
import { sleep, usage } from './support/processes.js'
import { withScene } from './support/scene.js'

const usual = [
  'distributary/http1',
  'distributary/http1-tls',
  'distributary/http2x100-tls',
  'distributary/websocket',
  'distributary/sse',
  'etcd/grpc',
  'grpc-proxy/grpc',
  'apiserver/http1-tls',
  'apiserver/http2x100-tls',
]

export const memory: Question = async (choice) => {
  for (const target of targets(choice, usual)) {
    await attempt(choice, { question: 'memory', subject: target.kind.name, wire: target.wire }, () =>
      one(choice, target),
    )
  }
}

async function one(choice: Choice, target: Target): Promise<void> {
  const isOurs = target.kind.name === 'distributary'
  const count = choice.watchers[0] ?? (choice.quick ? 300 : isOurs ? 15_000 : 3_000)
  const objects = { count: 100, nodes: 100, bytes: 1024 }
  await withScene(
    { ...choice, ...target, watchers: count, objects },
    async ({ subject, source, etcd, openWatchers }) => {
      const few = await openWatchers({ connections: Math.ceil(200 / subject.streams) })
      const first = await source.run({ rate: 20, count: 20, ms: 2_000 })
      await few.caughtUp(first.next, 10_000)
      await few.end()
      await sleep(choice.quick ? 500 : 3_000)
      const before = usage(subject.pid).residentBytes
      const now = subject.watch(etcd ? { afterRevision: await etcd.revision() } : {})
      const watchers = await openWatchers({ first: first.next }, now)
      await sleep(choice.quick ? 500 : 5_000)
      const idle = usage(subject.pid).residentBytes
      const run = await source.run({ rate: 2, count: 10, ms: 30_000 })
      const report = await watchers.caughtUp(run.next, 60_000)
      await sleep(choice.quick ? 500 : 3_000)
      const used = usage(subject.pid)
      if (report.event === 'late' || report.missing + report.repeated + report.ended > 0) {
        throw new Error(`not every delivery came once: ${JSON.stringify(report)}`)
      }
      choice.recorder.row({
        question: 'memory',
        subject: subject.name,
        wire: subject.wire,
        watchers: watchers.count,
        streams: subject.streams,
        openedMs: watchers.openedMs,
        residentMbBefore: before / 2 ** 20,
        residentMb: idle / 2 ** 20,
        kbPerIdleWatcher: (idle - before) / 1024 / watchers.count,
        kbPerWatcherAfterEvents: (used.residentBytes - before) / 1024 / watchers.count,
        peakResidentMb: used.peakResidentBytes / 2 ** 20,
      })
    },
  )
}
