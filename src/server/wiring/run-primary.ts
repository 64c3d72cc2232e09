/**
 * Runs the primary process of a server with `--workers`. It watches the upstream and supervises the workers, and serves
 * no clients.
 */
import { KEPT_HISTORY_MS } from '../../engine/cache/ring-buffer.js'
import { chooseFeeds } from './choose-feeds.js'
import type { Config } from '../config/load.js'
import { Primary } from '../../fleet/workers/primary.js'
import { Supervisor } from '../../fleet/workers/supervisor.js'
import { logAccess } from './describe-config.js'
import { countDeclared, banner } from './banner.js'
import { isAnythingStored } from '../served/stored-kubernetes.js'
import { keyFromText } from '../../engine/model/event.js'
import { openRemoteApiServer } from './open-remote-api-server.js'
import { countedLimits } from './open-client-limits.js'
import { ringBounds } from './open-resources.js'
import { OutageLog } from './outage-log.js'
import type { PortNumbers } from './ports.js'
import type { WorkerHello } from './worker-hello.js'
import { resourceId } from '../../kubernetes/model/api-resource.js'
import { systemClock as clock } from '../../support/clock.js'
import { freePort } from './free-port.js'
import { systemRandom as random } from '../../support/random.js'
import type { FeedFigures } from '../ui/page/figures.js'
import { feedFigures, primaryStatus } from '../ui/status-figures.js'
import { closeAll, type Upstreams } from './open-upstream.js'
import { type Started, takeSignals } from './take-signals.js'

export interface PrimaryParts extends Started, Upstreams {
  readonly print: (text: string) => void
}

/** How much longer the primary waits than the workers' own limit. */
const GRACE_MS = 1_000

export async function runPrimary(parts: PrimaryParts): Promise<void> {
  const { config, live, upstream, others, logger, version, metrics, print } = parts
  const { bindAddress: address } = config
  // The primary picks the ports, because the workers would pick different ones after all of them had died.
  const { metricsBindAddress } = config
  const ports: PortNumbers = {
    port: await portOf(address, config.port),
    securePort: await portOf(address, config.securePort),
    metricsPort: metricsBindAddress && (await portOf(metricsBindAddress.host, metricsBindAddress.port)),
  }
  const limits = countedLimits({ config, live, clock, metrics }, 1, {
    onSuspected: (client) => primary.suspect(client),
  })
  const server = config.upstream === null ? null : openRemoteApiServer(config, { clock, logger, metrics })
  const primary: Primary = new Primary({
    limits,
    openFeed: chooseFeeds({ config, upstream, others, server, clock, random, logger, metrics }),
    upstream,
    sources: [upstream, ...others.map((other) => other.upstream), ...(server === null ? [] : [server])],
    feedMetrics: (resource) => metrics.forResource(resource).feed,
    onUnwatched: (resource) => metrics.forget(resource),
    mergeMetrics: (ofWorkers) => metrics.merge(ofWorkers),
    keepCounts: (ofWorker) => metrics.keepCounts(ofWorker),
    status: () => primaryStatus(feedLines(primary)),
    history: { ...ringBounds(config), keepAgeMs: KEPT_HISTORY_MS },
    clock,
  })
  live.onChange((changed) => primary.setHistoryBounds({ ...ringBounds(changed), keepAgeMs: KEPT_HISTORY_MS }))
  metrics.beforeScrape(() => {
    let serving = 0
    let queuedBytes = 0
    for (const link of primary.links) {
      queuedBytes += link.queuedBytes
      if (link.isServing) serving++
    }
    metrics.process.workers(serving)
    metrics.process.workerQueue(queuedBytes)
  })
  const supervisor = new Supervisor({
    workers: config.workers,
    primary,
    hello: (isReplacement) => JSON.stringify({ isReplacement, ports, file: live.file } satisfies WorkerHello),
    logger,
    clock,
    random,
    graceMs: config.shutdownDelayDuration + config.shutdownGracePeriod + GRACE_MS,
    onRestart: () => metrics.process.workerRestarted(),
    onServing: () => {
      const { workers, embedded } = config
      logAccess(config, logger)
      logger.info({ version, address, ...ports, embedded, workers }, 'serving')
      void Promise.all([servesKubernetes(config, upstream), countDeclared(config, upstream)]).then(
        ([isServed, counts]) => print(banner(config, ports, isServed, counts)),
      )
    },
    onGivenUp: (code) => {
      logger.error({}, 'no worker could start')
      process.exit(code)
    },
  })
  const outages = new OutageLog({ sources: () => primary.relays(), others: config.otherEtcds, clock, logger })
  outages.start()
  takeSignals(parts, {
    hangUp: () => supervisor.hangUp(),
    checkConsistency: () => primary.checkConsistency(),
    stop: async () => {
      outages.stop()
      await supervisor.stop()
      await primary.stop()
      await closeAll(parts)
    },
    moreMs: 2 * GRACE_MS,
  })
  supervisor.start()
}

function feedLines(primary: Primary): readonly FeedFigures[] {
  return [...primary.relays()].map(({ resource, feed }) => ({
    resource: resourceId(resource),
    ...feedFigures(feed.status),
  }))
}

/** Returns the port itself, or a free one for 0. */
async function portOf(host: string, port: number | null): Promise<number | null> {
  return port === 0 ? await freePort(host) : port
}

/** Whether Kubernetes stores anything, for the banner. The workers find this out themselves. */
async function servesKubernetes(
  { awaitsKubernetes, etcdPrefix }: Config,
  upstream: Upstreams['upstream'],
): Promise<boolean> {
  if (!awaitsKubernetes) return true
  return await isAnythingStored(upstream, keyFromText(`${etcdPrefix}/`), clock).catch(() => false)
}
