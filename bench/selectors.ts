/**
 * Question: does an event cost what it delivers, or what there is? N watchers, each on its own `spec.nodeName`; every
 * event is for one of them. The cost of an event must hardly grow from 100 to 10,000 selectors.
 */
import { attempt, type Choice, type Question, type Target, targets } from './support/choice.js'
import { measureStretch, stretchColumns } from './support/measure.js'
import { sleep, usage } from './support/processes.js'
import { withScene } from './support/scene.js'

export const selectors: Question = async (choice) => {
  const counts = choice.watchers.length > 0 ? choice.watchers : choice.quick ? [10, 100] : [100, 1_000, 10_000]
  for (const target of targets(choice, ['distributary/http1', 'kube-apiserver/http1-tls', 'apiserver/http1-tls'])) {
    for (const count of counts) {
      await attempt(choice, { question: 'selectors', subject: target.kind.name, wire: target.wire }, () =>
        one(choice, target, count),
      )
    }
  }
}

async function one(choice: Choice, target: Target, count: number): Promise<void> {
  const rate = choice.rates[0] ?? (choice.quick ? 200 : 1_000)
  const seconds = choice.seconds ?? (choice.quick ? 2 : 10)
  const objects = { count, nodes: count, bytes: 1024 }
  await withScene({ ...choice, ...target, watchers: count, objects }, async ({ subject, source, ...scene }) => {
    const request = subject.watch({ afterRevision: scene.revision, fieldSelector: 'spec.nodeName=n{i}' })
    const watchers = await scene.openWatchers({ stride: count }, request)
    const warm = await source.run({ rate, count: 1e9, ms: choice.quick ? 500 : 3_000 })
    await watchers.caughtUp(warm.next, 60_000)
    const idleBefore = usage(subject.pid).cpuSeconds
    await sleep(seconds * 500)
    const idleShare = (usage(subject.pid).cpuSeconds - idleBefore) / (seconds / 2)
    const stretch = await measureStretch({ subject, source, watchers, run: { rate, count: 1e9, ms: seconds * 1000 } })
    const columns = stretchColumns(stretch)
    choice.recorder.row({
      question: 'selectors',
      subject: subject.name,
      wire: subject.wire,
      selectors: count,
      rate,
      idleShare,
      cpuMicrosPerEvent: (stretch.cpuSeconds / (stretch.run.next - stretch.run.first)) * 1e6,
      cpuMicrosPerEventAboveIdle:
        ((stretch.cpuSeconds - idleShare * stretch.seconds) / (stretch.run.next - stretch.run.first)) * 1e6,
      ...columns,
    })
  })
}
