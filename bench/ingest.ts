/**
 * Question: how many events a second can the server take in? There is one watcher, and writes come as fast as etcd
 * accepts them. The lag is the time from the put to the watcher.
 */
import { attempt, type Choice, type Question, type Target, targets } from './support/choice.js'
import { measureStretch, stretchColumns } from './support/measure.js'
import { withScene } from './support/scene.js'

export const ingest: Question = async (choice) => {
  const usual = ['distributary/http1', 'etcd/grpc', 'grpc-proxy/grpc', 'apiserver/http1-tls']
  for (const target of targets(choice, usual)) {
    await attempt(choice, { question: 'ingest', subject: target.kind.name, wire: target.wire }, () =>
      one(choice, target),
    )
  }
}

async function one(choice: Choice, target: Target): Promise<void> {
  const ms = (choice.seconds ?? (choice.quick ? 2 : 10)) * 1000
  const objects = { count: choice.quick ? 100 : 1_000, nodes: 100, bytes: 1024 }
  await withScene({ ...choice, ...target, watchers: 1, objects }, async ({ subject, source, openWatchers }) => {
    const watchers = await openWatchers()
    const warm = await source.run({ rate: 0, count: 1e9, ms: choice.quick ? 500 : 2_000 })
    await watchers.caughtUp(warm.next, 60_000)
    const stretch = await measureStretch({
      subject,
      source,
      watchers,
      run: { rate: 0, count: 1e9, ms, concurrency: 100 },
    })
    choice.recorder.row({
      question: 'ingest',
      subject: subject.name,
      wire: subject.wire,
      watchers: 1,
      putP99Ms: stretch.run.putMs?.p99 ?? null,
      cpuMicrosPerEvent: (stretch.cpuSeconds / (stretch.run.next - stretch.run.first)) * 1e6,
      ...stretchColumns(stretch),
    })
  })
}
