/**
 * Measures one period: events are written, the subject carries them, and every delivery is accounted for. CPU is
 * measured from just before the first event to just after the last delivery, and divided by the deliveries, so a load
 * generator that is slower than the server does not change the figure.
 */
import type { Subject } from '../subjects/subject.js'
import { sleep, type Usage, usage } from './processes.js'
import type { Value } from './record.js'
import type { EventSource, RunOptions, RunResult } from './source.js'
import type { Watchers, WatchersReport } from './watchers.js'

export interface Stretch {
  readonly run: RunResult
  readonly report: WatchersReport
  readonly before: Usage
  readonly after: Usage
  readonly cpuSeconds: number
  readonly seconds: number
  /** As prom-client reports it, including its sampling interval of 10 ms; null for a subject that is not Node. */
  readonly eventLoopP99Ms: number | null
}

export interface StretchOptions {
  readonly subject: Subject
  readonly source: EventSource
  readonly watchers: Watchers
  readonly run: RunOptions
  /** How long watchers may take to catch up after the last event was written. */
  readonly catchUpMs?: number
  /**
   * The number of deliveries of deletions since the watches began. A deletion carries the object's last state with its
   * marker, so this many repetitions are expected.
   */
  readonly deletions?: number
}

/** @throws Error unless every watcher received every event that it should, once and in order. */
export async function measureStretch(options: StretchOptions): Promise<Stretch> {
  const { subject, source, watchers } = options
  await eventLoopP99Ms(subject) // each scrape starts the window of the next one
  await watchers.mark()
  const before = usage(subject.pid)
  const begin = performance.now()
  const run = await source.run(options.run)
  const report = await settled(watchers, run.next, options)
  const after = usage(subject.pid)
  const seconds = (performance.now() - begin) / 1000
  const { event, missing, repeated, strays, ended } = report
  if (event === 'late' || missing + strays + ended > 0 || repeated !== (options.deletions ?? 0)) {
    const faults = Object.entries({ late: Number(event === 'late'), missing, repeated, strays, 'watches ended': ended })
    const found = faults.filter(([, count]) => count > 0).map(([name, count]) => `${count} ${name}`)
    throw new Error(`${subject.name}/${subject.wire}: not every delivery came once: ${found.join(', ')}`)
  }
  const cpuSeconds = after.cpuSeconds - before.cpuSeconds
  return { run, report, before, after, cpuSeconds, seconds, eventLoopP99Ms: await eventLoopP99Ms(subject) }
}

/** Waits until every watcher has received its events, and then for a while for the deletions that are still missing. */
export async function settled(
  watchers: Watchers,
  next: number,
  { catchUpMs = 60_000, deletions = 0 }: Pick<StretchOptions, 'catchUpMs' | 'deletions'>,
): Promise<WatchersReport> {
  let report = await watchers.caughtUp(next, catchUpMs)
  const { event } = report
  for (let tries = 0; report.repeated < deletions && tries < 20; tries++) {
    await sleep(100)
    report = await watchers.report()
  }
  return { ...report, event }
}

async function eventLoopP99Ms({ metricsUrl }: Subject): Promise<number | null> {
  if (metricsUrl === undefined) return null
  const text = await fetch(metricsUrl).then((answer) => answer.text())
  const seconds = /^nodejs_eventloop_lag_p99_seconds(?:\{[^}]*\})? (\S+)/m.exec(text)?.[1]
  return seconds === undefined ? null : Number(seconds) * 1000
}

/** Returns the columns that every measurement has. */
export function stretchColumns(stretch: Stretch): Record<string, Value> {
  const { report, run, cpuSeconds, before, after } = stretch
  const writes = after.writeCalls - before.writeCalls
  return {
    seconds: stretch.seconds,
    events: run.next - run.first,
    eventsPerSecond: (run.next - run.first) / run.seconds,
    deliveries: report.deliveries,
    missing: report.missing,
    repeated: report.repeated,
    cpuSeconds,
    serverBusy: cpuSeconds / stretch.seconds,
    deliveriesPerCpuSecond: cpuSeconds > 0 ? report.deliveries / cpuSeconds : null,
    deliveriesPerSecond: report.deliveries / stretch.seconds,
    deliveriesPerRead: report.deliveries / Math.max(1, report.reads),
    deliveriesPerWrite: writes > 0 ? report.deliveries / writes : null,
    bytesPerDelivery: report.bytes / Math.max(1, report.deliveries),
    p50Ms: report.delayMs.p50,
    p90Ms: report.delayMs.p90,
    p99Ms: report.delayMs.p99,
    p999Ms: report.delayMs.p999,
    maxMs: report.delayMs.max,
    eventLoopP99Ms: stretch.eventLoopP99Ms,
    latestPutMs: run.latestStartMs ?? null,
    residentMb: after.residentBytes / 2 ** 20,
    peakResidentMb: after.peakResidentBytes / 2 ** 20,
  }
}
