/**
 * Question: does the cost of an event depend on its deliveries, or on the number of watchers? N watchers each select
 * their own `spec.nodeName`, their own sub-prefix of a declared prefix, or their own shard, and every event is for one
 * of them. An event should cost about the same with 10,000 selectors or sub-prefixes as with 100, and with 100 shards
 * as with one.
 */
import { createHash } from 'node:crypto'
import type { WatchQuery } from './subjects/subject.js'
import { attempt, type Choice, type Question, type Target, targets } from './support/choice.js'
import { measureStretch, stretchColumns } from './support/measure.js'
import { compareHashes, type Hash, hashOf } from '../src/engine/model/shard.js'
import { type BenchObject, benchObjects, type BenchResource, EMPTY_MARK } from './support/objects.js'
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

/** Measures watchers of distinct parts of a declared prefix. Only our own server has such watches. */
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

/** The most different paths that the load program accepts. */
const MAX_SHARDS = 100

/**
 * Measures watchers of distinct shards. An API server filters for each of them separately, if its feature gate is on.
 */
export const shards: Question = async (choice) => {
  for (const target of targets(choice, ['distributary/http1'])) {
    for (const count of [1, MAX_SHARDS]) {
      await attempt(choice, { question: 'shards', subject: target.kind.name, wire: target.wire }, () => {
        // Sorted by hash, so that each shard between two hashes contains one object.
        const objects = benchObjects(choice.resource, { count: MAX_SHARDS, nodes: 1, bytes: 1024 })
          .map(withRandomUid)
          .toSorted((a, b) => compareHashes(a.hash, b.hash))
        const bounds = objects.map(({ hash }) => hexOf(hash)).filter((_, i) => i > 0 && count === MAX_SHARDS)
        const starts = [`0x${'0'.repeat(16)}`, ...bounds]
        const ends = [...bounds, `0x1${'0'.repeat(16)}`]
        return one(choice, target, count, {
          question: 'shards',
          scene: {
            objects: { written: objects.map(({ object }) => object), resources: [choice.resource] },
          },
          query: {},
          shards: starts.map((start, i) => `shardRange(object.metadata.uid, '${start}', '${ends[i]}')`),
        })
      })
    }
  }
}

/**
 * Gives the object a random uid, as in a cluster. The hashes of uids that differ only in their last digits would be
 * close together.
 */
function withRandomUid(object: BenchObject, index: number): { readonly object: BenchObject; readonly hash: Hash } {
  const text = String(object.value)
  const uid = createHash('sha256').update(String(index)).digest('hex').slice(0, 36)
  const { metadata } = JSON.parse(text) as { metadata: { uid: string } }
  return { object: { ...object, value: Buffer.from(text.replace(metadata.uid, uid)) }, hash: hashOf(uid) }
}

function hexOf({ high, low }: Hash): string {
  return `0x${[high, low].map((half) => half.toString(16).padStart(8, '0')).join('')}`
}

interface Asked {
  readonly question: string
  readonly scene: Pick<SceneOptions, 'objects'> & Partial<SceneOptions>
  readonly query: WatchQuery
  /** The shard selector of each watcher; unset when all send the same query. */
  readonly shards?: readonly string[]
}

async function one(
  choice: Choice,
  target: Target,
  count: number,
  { question, scene: given, query, shards = [] }: Asked,
): Promise<void> {
  const rate = choice.rates[0] ?? (choice.quick ? 200 : 1_000)
  const seconds = choice.seconds ?? (choice.quick ? 2 : 10)
  await withScene({ ...choice, ...target, watchers: count, ...given }, async ({ subject, source, ...scene }) => {
    const request = subject.watch({ afterRevision: scene.revision, ...query })
    const paths = shards.map((shardSelector) => ({
      path: subject.watch({ afterRevision: scene.revision, shardSelector }).path,
    }))
    const watchers = await scene.openWatchers({ stride: count, ...(paths.length > 0 && { paths }) }, request)
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
