/**
 * Question: what happens when all watchers reconnect at once? 1,000 watchers are cut off and 200 events are written.
 * Then all resume at the same time, while 200 other clients list 10,000 objects. No watcher may have to relist.
 */
import { attempt, type Choice, type Question, type Target, targets } from './support/choice.js'
import { resetPeak, sleep, usage } from './support/processes.js'
import { withScene } from './support/scene.js'
import { startWatchers } from './support/watchers.js'

const usual = ['distributary/http1', 'distributary/http1-tls', 'apiserver/http1-tls']

export const storm: Question = async (choice) => {
  for (const target of targets(choice, usual)) {
    await attempt(choice, { question: 'storm', subject: target.kind.name, wire: target.wire }, () =>
      one(choice, target),
    )
  }
}

async function one(choice: Choice, target: Target): Promise<void> {
  const watching = choice.watchers[0] ?? (choice.quick ? 50 : 1_000)
  const listing = choice.quick ? 10 : 200
  const missed = choice.quick ? 20 : 200
  const objects = { count: choice.quick ? 500 : 10_000, nodes: 100, bytes: 1024 }
  await withScene({ ...choice, ...target, watchers: watching, objects }, async ({ subject, source, ...scene }) => {
    const request = subject.list?.()
    if (!request || !scene.etcd) throw new Error(`${subject.name} has no list`)
    const cutOff = await scene.openWatchers()
    const seen = await source.run({ rate: 0, count: 100, ms: 10_000 })
    await cutOff.caughtUp(seen.next, 30_000)
    const revision = await scene.etcd.revision()
    await cutOff.end()
    const away = await source.run({ rate: 0, count: missed, ms: 10_000 })
    await sleep(500)

    resetPeak(subject.pid)
    const before = usage(subject.pid)
    const begin = performance.now()
    const back = startWatchers(subject.watch({ afterRevision: revision }), {
      connections: Math.ceil(watching / subject.streams),
      streams: subject.streams,
      first: seen.next,
      burst: watching,
    }).watchers
    const lists = startWatchers(request, { connections: listing, burst: listing }).watchers
    const resumedMs = back.caughtUp(away.next, 120_000).then((report) => ({ report, ms: performance.now() - begin }))
    const listed = await lists.allEnded(120_000)
    const listedMs = performance.now() - begin
    const resumed = await resumedMs
    const after = usage(subject.pid)
    const { report } = resumed
    const faults = report.missing + report.repeated + report.strays
    if (report.event === 'late' || faults > 0 || listed.received !== listing * objects.count) {
      throw new Error(`not everybody was served: ${JSON.stringify({ report, listed })}`)
    }
    choice.recorder.row({
      question: 'storm',
      subject: subject.name,
      wire: subject.wire,
      watchers: watching,
      missedEvents: missed,
      lists: listing,
      objects: objects.count,
      caughtUpMs: resumed.ms,
      listedMs,
      listP50Ms: listed.durationMs.p50,
      hadToRelist: report.ended + report.failedStatus + report.refused,
      listsFailed: listed.failedStatus + listed.refused + listed.closedEarly,
      cpuSeconds: after.cpuSeconds - before.cpuSeconds,
      residentMb: before.residentBytes / 2 ** 20,
      peakResidentMb: after.peakResidentBytes / 2 ** 20,
      peakAboveMb: (after.peakResidentBytes - before.residentBytes) / 2 ** 20,
    })
  })
}
