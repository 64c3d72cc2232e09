/**
 * Question: what does one event for one watcher cost, at the pace of a busy cluster? There are pods of 3.5 KB on a
 * hundred nodes, one watcher per node by `spec.nodeName`, and 300 events a second. The runs have 10,000 objects and
 * room in the history, 10,000 objects and a full history, and 200,000 objects. The CPU time of the server at rest is
 * measured first and subtracted.
 */
import { attempt, type Choice, type Question, type Target, targets } from './support/choice.js'
import { measureStretch, stretchColumns } from './support/measure.js'
import { sleep, usage } from './support/processes.js'
import { withScene } from './support/scene.js'
import { writeAll } from './support/source.js'

const RATE = 300
const NODES = 100
const OBJECT_BYTES = 3_500
/** More than `--watch-cache-bytes` holds by default. */
const FILLING_EVENTS = 24_000
/**
 * For the first few thousand events, V8 compiles hot code on its own threads. At the measured pace, that would take
 * most of a minute, but the question is about a server that has been running for longer.
 */
const WARM_EVENTS = 10_000
const WARM_RATE = 2_000
const SETTLE_MS = 3_000
const FILLING_MS = 120_000

interface State {
  readonly objects: number
  readonly rings: 'fresh' | 'full'
}

const states: readonly State[] = [
  { objects: 10_000, rings: 'fresh' },
  { objects: 10_000, rings: 'full' },
  { objects: 200_000, rings: 'full' },
]
const quickStates: readonly State[] = [{ objects: 1_000, rings: 'fresh' }]

const usual = ['distributary/http1', 'distributary/http1-tls', 'apiserver/http1-tls']

export const oneEvent: Question = async (choice) => {
  for (const target of targets(choice, usual)) {
    for (const state of choice.quick ? quickStates : states) {
      await attempt(choice, { question: 'one-event', subject: target.kind.name, wire: target.wire }, () =>
        one(choice, target, state),
      )
    }
  }
}

async function one(choice: Choice, target: Target, state: State): Promise<void> {
  const nodes = choice.watchers[0] ?? NODES
  const rate = choice.rates[0] ?? RATE
  const seconds = choice.seconds ?? (choice.quick ? 2 : 20)
  const objects = { count: state.objects, nodes, bytes: OBJECT_BYTES }
  await withScene({ ...choice, ...target, watchers: nodes, objects }, async ({ subject, source, etcd, ...scene }) => {
    let first = scene.nextSequence
    if (state.rings === 'full') {
      // Write whole rounds, so that watcher i still expects the events of node i.
      const toWholeRound = (nodes - ((first + FILLING_EVENTS) % nodes)) % nodes
      first = (await writeAll(source, FILLING_EVENTS + toWholeRound, FILLING_MS)).next
    }
    const afterRevision = (await etcd?.revision()) ?? scene.revision
    const request = subject.watch({ afterRevision, fieldSelector: 'spec.nodeName=n{i}' })
    const watchers = await scene.openWatchers({ stride: nodes, first }, request)
    if (!choice.quick) await source.run({ rate: WARM_RATE, count: WARM_EVENTS, ms: 60_000 })
    const settled = await source.run({ rate, count: 1e9, ms: choice.quick ? 500 : SETTLE_MS })
    await watchers.caughtUp(settled.next, 120_000)
    const idleBefore = usage(subject.pid).cpuSeconds
    await sleep(seconds * 500)
    const idleShare = (usage(subject.pid).cpuSeconds - idleBefore) / (seconds / 2)
    const stretch = await measureStretch({ subject, source, watchers, run: { rate, count: 1e9, ms: seconds * 1000 } })
    const events = stretch.run.next - stretch.run.first
    choice.recorder.row({
      question: 'one-event',
      subject: subject.name,
      wire: subject.wire,
      objects: state.objects,
      rings: state.rings,
      objectBytes: OBJECT_BYTES,
      rate,
      idleShare,
      cpuMicrosPerEvent: (stretch.cpuSeconds / events) * 1e6,
      cpuMicrosPerEventAboveIdle: ((stretch.cpuSeconds - idleShare * stretch.seconds) / events) * 1e6,
      ...stretchColumns(stretch),
    })
  })
}
