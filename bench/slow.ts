/**
 * Question: do readers that stall hurt the others? The same load twice in one process: first everybody reads, then one
 * in a hundred reads nothing for 10 s. Receive buffers are small (64 KiB asked for), or the kernel would hide the stall.
 */
import { attempt, type Choice, type Question, type Target, targets } from './support/choice.js'
import { measureStretch, stretchColumns } from './support/measure.js'
import { sleep } from './support/processes.js'
import { withScene } from './support/scene.js'

const RECEIVE_BUFFER_BYTES = 64 * 1024

export const slow: Question = async (choice) => {
  for (const target of targets(choice, [
    'distributary/http1',
    'etcd/grpc',
    'grpc-proxy/grpc',
    'kube-apiserver/http1-tls',
  ])) {
    await attempt(choice, { question: 'slow', subject: target.kind.name, wire: target.wire }, () => one(choice, target))
  }
}

async function one(choice: Choice, target: Target): Promise<void> {
  const count = choice.watchers[0] ?? (choice.quick ? 100 : 1_000)
  const rate = choice.rates[0] ?? 50
  const stallMs = (choice.seconds ?? (choice.quick ? 2 : 10)) * 1000
  const objects = { count: 100, nodes: 100, bytes: 1024 }
  await withScene({ ...choice, ...target, watchers: count, objects }, async ({ subject, source, openWatchers }) => {
    const watchers = await openWatchers({ receiveBufferBytes: RECEIVE_BUFFER_BYTES })
    const warm = await source.run({ rate, count: 1e9, ms: 2_000 })
    await watchers.caughtUp(warm.next, 30_000)
    const options = { subject, source, watchers, run: { rate, count: 1e9, ms: stallMs } }
    const without = await measureStretch(options)
    await sleep(500)
    await watchers.stall(100, stallMs)
    const stalled = await measureStretch(options)
    choice.recorder.row({
      question: 'slow',
      subject: subject.name,
      wire: subject.wire,
      watchers: count,
      rate,
      stalled: Math.ceil(count / 100),
      stallMs,
      p99MsWithout: without.report.delayMs.p99,
      p99MsOfOthers: stalled.report.delayMs.p99,
      p99Ratio: stalled.report.delayMs.p99 / without.report.delayMs.p99,
      ...stretchColumns(stalled),
    })
  })
}
