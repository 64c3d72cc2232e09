/**
 * Question: do stalled readers hurt the others? One server carries the same load twice per round: first all readers
 * read, then one in a hundred reads nothing for 10 s. The figures are medians of three rounds. TCP segments have
 * Ethernet's size and receive buffers are small, because with the loopback defaults the kernel would absorb three
 * megabytes per reader before the server noticed anything. Objects have 4 KiB for the same reason.
 */
import { attempt, type Choice, type Question, type Target, targets } from './support/choice.js'
import { measureStretch, stretchColumns } from './support/measure.js'
import { sleep } from './support/processes.js'
import { withScene } from './support/scene.js'

const SOCKETS = { receiveBufferBytes: 32 * 1024, segmentBytes: 1448 }

const ROUNDS = 3

export const slow: Question = async (choice) => {
  for (const target of targets(choice, ['distributary/http1', 'etcd/grpc', 'grpc-proxy/grpc', 'apiserver/http1-tls'])) {
    await attempt(choice, { question: 'slow', subject: target.kind.name, wire: target.wire }, () => one(choice, target))
  }
}

async function one(choice: Choice, target: Target): Promise<void> {
  const count = choice.watchers[0] ?? (choice.quick ? 100 : 1_000)
  const rate = choice.rates[0] ?? 20
  const stallMs = (choice.seconds ?? (choice.quick ? 2 : 10)) * 1000
  const objects = { count: 100, nodes: 100, bytes: 4096 }
  await withScene({ ...choice, ...target, watchers: count, objects }, async ({ subject, source, openWatchers }) => {
    const watchers = await openWatchers(SOCKETS)
    const warm = await source.run({ rate, count: 1e9, ms: 2_000 })
    await watchers.caughtUp(warm.next, 30_000)
    const options = { subject, source, watchers, run: { rate, count: 1e9, ms: stallMs } }
    const without: number[] = []
    const ofOthers: number[] = []
    let columns = {}
    // The two cases alternate, so that other load on the machine affects both.
    for (let round = 0; round < (choice.quick ? 1 : ROUNDS); round++) {
      without.push((await measureStretch(options)).report.delayMs.p99)
      await sleep(500)
      await watchers.stall(100, stallMs)
      const stretch = await measureStretch(options)
      await sleep(500)
      ofOthers.push(stretch.report.delayMs.p99)
      columns = stretchColumns(stretch)
    }
    choice.recorder.row({
      question: 'slow',
      subject: subject.name,
      wire: subject.wire,
      watchers: count,
      rate,
      stalled: Math.ceil(count / 100),
      stallMs,
      rounds: without.length,
      p99MsWithout: median(without),
      p99MsOfOthers: median(ofOthers),
      p99Ratio: median(ofOthers) / median(without),
      ...columns,
    })
  })
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
}
