/** A server with two workers; in the test's own process, a worker and its primary. */
import { chooseFeeds } from '../../src/server/wiring/choose-feeds.js'
import { load } from '../../src/server/config/load.js'
import { options } from '../../src/server/config/options.js'
import { countedLimits } from '../../src/server/wiring/open-client-limits.js'
import { ringBounds } from '../../src/server/wiring/open-resources.js'
import { Metrics } from '../../src/server/metrics/metrics.js'
import { KEPT_HISTORY_MS } from '../../src/engine/cache/ring-buffer.js'
import { Primary } from '../../src/fleet/workers/primary.js'
import { WorkerChannel } from '../../src/fleet/workers/worker.js'
import { systemClock as clock } from '../../src/support/clock.js'
import { silentLogger as logger } from '../../src/support/log.js'
import { systemRandom as random } from '../../src/support/random.js'
import { type ServerForm, has, hasUncached, split } from './form.js'
import { fixedConfig } from '../support/process-parts.js'
import { socketPair } from '../fleet/workers-harness.js'

/** Gives each of the three processes the memory that the test intends for a single one. */
export const processFlags: ServerForm['processFlags'] = async (_t, flags) => {
  if (has(flags, '--workers') || hasUncached(flags)) return null
  const [memory, rest] = split(flags, (name) => name === '--memory-target')
  const text = memory.at(-1)?.replace(/^--memory-target=/, '')
  const bytes = text === undefined ? null : options.memoryTarget.parse([text])
  return [...rest, ...(bytes === null ? [] : [`--memory-target=${bytes * 3}`]), '--workers=2']
}

export const appParts: ServerForm['appParts'] = async (t, { flags, config: own, store, process }) => {
  const loaded = load(['--port', '0', ...flags], {}, () => '')
  if (loaded.kind !== 'run') throw new Error('the flags of a test must run')
  const config = { ...loaded.config, ...own }
  const metrics = new Metrics('0.0.0-test')
  const live = fixedConfig(config)
  const primary: Primary = new Primary({
    limits: countedLimits({ config, live, clock, metrics }, 1, { onSuspected: (client) => primary.suspect(client) }),
    openFeed: chooseFeeds({ config, upstream: store, others: [], clock, random, logger, metrics }),
    upstream: store,
    sources: [],
    feedMetrics: (resource) => metrics.forResource(resource).feed,
    onUnwatched: (resource) => metrics.forget(resource),
    mergeMetrics: (ofWorkers) => metrics.merge(ofWorkers),
    keepCounts: (ofWorker) => metrics.keepCounts(ofWorker),
    status: () => 'null',
    history: { ...ringBounds(config), keepAgeMs: KEPT_HISTORY_MS },
    clock,
  })
  t.teardown(() => primary.stop())
  const [near, far] = await socketPair(t)
  const onBug = (error: unknown): void => void t.fail(String(error))
  primary.attach(near, { onStarted: () => {}, onBug, onClosed: () => {} })
  const channel = new WorkerChannel({
    socket: far,
    clock,
    workers: 2,
    onClosed: () => {},
    collectMetrics: () => process().metrics.collect(),
    collectStatus: async () => JSON.stringify(await process().status()),
    onBug,
  })
  t.teardown(() => channel.close())
  return {
    flags,
    parts: {
      upstream: channel.upstream,
      openFeed: channel.openFeed,
      limits: channel.limits,
      exposeMetrics: async () => ({
        contentType: process().metrics.contentType,
        text: await channel.ask('metrics'),
      }),
    },
  }
}
