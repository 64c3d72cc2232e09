/**
 * Question: what does a full list of 10,000 objects cost when 50 or 200 clients request it at once? It measures CPU per
 * list and peak memory, and compares them with etcd's own range read.
 */
import { attempt, type Choice, type Question, type Target, targets } from './support/choice.js'
import { resetPeak, sleep, usage } from './support/processes.js'
import { withScene } from './support/scene.js'
import { startWatchers } from './support/watchers.js'

export const list: Question = async (choice) => {
  const usual = ['distributary/http1', 'distributary/http1-tls', 'etcd/grpc', 'apiserver/http1-tls']
  const counts = choice.watchers.length > 0 ? choice.watchers : choice.quick ? [5] : [50, 200]
  for (const askers of counts) {
    for (const target of targets(choice, usual)) {
      const row = { question: 'list', subject: target.kind.name, wire: target.wire, askers }
      await attempt(choice, row, () => one(choice, target, askers))
    }
  }
}

async function one(choice: Choice, target: Target, askers: number): Promise<void> {
  const count = choice.quick ? 500 : 10_000
  const objects = { count, nodes: 100, bytes: 1024 }
  await withScene({ ...choice, ...target, watchers: 0, objects }, async ({ subject }) => {
    const request = subject.list?.()
    if (!request) throw new Error(`${subject.name} has no list`)
    /** Requests `at` lists at once, and checks that every list holds every object once and in order. */
    const ask = async (at: number): Promise<{ p50Ms: number; maxMs: number; bytes: number }> => {
      const { watchers } = startWatchers(request, { connections: at, burst: at })
      const report = await watchers.allEnded(120_000)
      await watchers.end()
      const isComplete = report.received === at * count && report.missing + report.repeated + report.strays === 0
      if (!isComplete || report.failedStatus > 0) throw new Error(`a list was not complete: ${JSON.stringify(report)}`)
      return { p50Ms: report.durationMs.p50, maxMs: report.durationMs.max, bytes: report.totalBytes / at }
    }
    const cold = await ask(1)
    await sleep(500)
    resetPeak(subject.pid)
    const before = usage(subject.pid)
    const measured = await ask(askers)
    const after = usage(subject.pid)
    choice.recorder.row({
      question: 'list',
      subject: subject.name,
      wire: subject.wire,
      objects: count,
      askers,
      bodyBytes: measured.bytes,
      coldMs: cold.maxMs,
      p50Ms: measured.p50Ms,
      maxMs: measured.maxMs,
      cpuMsEach: ((after.cpuSeconds - before.cpuSeconds) * 1000) / askers,
      residentMb: before.residentBytes / 2 ** 20,
      peakResidentMb: after.peakResidentBytes / 2 ** 20,
      peakAboveMb: (after.peakResidentBytes - before.residentBytes) / 2 ** 20,
    })
  })
}
