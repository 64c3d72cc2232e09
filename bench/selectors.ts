/**
 * Question: does the cost of an event depend on its deliveries, or on the number of watchers? N watchers each select their
 * own `spec.nodeName`, or their own sub-prefix of a declared prefix, and every event is for one of them. The cost of an event
 * must hardly grow from 100 to 10,000 selectors or sub-prefixes.
 */
import type { WatchQuery } from './subjects/subject.js'
import { attempt, type Choice, type Question, type Target, targets } from './support/choice.js'
import { measureStretch, stretchColumns } from './support/measure.js'
import { type BenchObject, type BenchResource, EMPTY_MARK } from './support/objects.js'
import { sleep, usage } from './support/processes.js'
import { type SceneOptions, withScene } from './support/scene.js'

const countsOf = ({ watchers, quick }: Choice): readonly number[] =>
  watchers.length > 0 ? watchers : quick ? [10, 100] : [100, 1_000, 10_000]

export const selectors: Question = async (choice) => {
  const counts = countsOf(choice)
  for (const target of targets(choice, ['distributary/http1', 'apiserver/http1-tls'])) {
    for (const count of counts) {
      await attempt(choice, { question: 'selectors', subject: target.kind.name, wire: target.wire }, () =>
        one(choice, target, count, {
          question: 'selectors',
          scene: { objects: { count, nodes: count, bytes: 1024 } },
          query: { fieldSelector: 'spec.nodeName=n{i}' },
        }),
      )
    }
  }
}

const flags: BenchResource = {
  name: 'flags',
  apiVersion: 'distributary.io/v1',
  kind: 'Flag',
  prefix: '/bench/flags/',
  path: '/apis/distributary.io/v1/flags',
  definition: null,
}

function flagOf(index: number): BenchObject {
  const value = JSON.stringify({ mark: EMPTY_MARK, filler: 'x'.repeat(900) })
  return { key: `${flags.prefix}t${index}/on`, value: Buffer.from(value), mark: value.indexOf(EMPTY_MARK) }
}

/** Watchers of distinct parts of a declared prefix: only our own server has such watches. */
export const prefixes: Question = async (choice) => {
  for (const target of targets(choice, ['distributary/http1'])) {
    for (const count of countsOf(choice)) {
      await attempt(choice, { question: 'prefixes', subject: target.kind.name, wire: target.wire }, () =>
        one(choice, target, count, {
          question: 'prefixes',
          scene: {
            resource: flags,
            objects: { written: Array.from({ length: count }, (_, index) => flagOf(index)), resources: [flags] },
            serverFlags: [...(choice.serverFlags ?? []), `--resource=flags=${flags.prefix}`],
          },
          query: { prefix: 't{i}/' },
        }),
      )
    }
  }
}

interface Asked {
  readonly question: string
  readonly scene: Pick<SceneOptions, 'objects'> & Partial<SceneOptions>
  readonly query: WatchQuery
}

async function one(
  choice: Choice,
  target: Target,
  count: number,
  { question, scene: given, query }: Asked,
): Promise<void> {
  const rate = choice.rates[0] ?? (choice.quick ? 200 : 1_000)
  const seconds = choice.seconds ?? (choice.quick ? 2 : 10)
  await withScene({ ...choice, ...target, watchers: count, ...given }, async ({ subject, source, ...scene }) => {
    const request = subject.watch({ afterRevision: scene.revision, ...query })
    const watchers = await scene.openWatchers({ stride: count }, request)
    const warm = await source.run({ rate, count: 1e9, ms: choice.quick ? 500 : 3_000 })
    await watchers.caughtUp(warm.next, 60_000)
    const idleBefore = usage(subject.pid).cpuSeconds
    await sleep(seconds * 500)
    const idleShare = (usage(subject.pid).cpuSeconds - idleBefore) / (seconds / 2)
    const stretch = await measureStretch({ subject, source, watchers, run: { rate, count: 1e9, ms: seconds * 1000 } })
    const columns = stretchColumns(stretch)
    choice.recorder.row({
      question,
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
