/** The primary process of a server with `--workers`: it has the upstream's watches and the workers, and no clients. */
import closeWithGrace from 'close-with-grace'
import { KEPT_HISTORY_MS } from '../../engine/cache/ring-buffer.js'
import { chooseFeeds } from './choose-feeds.js'
import type { Config } from '../config/load.js'
import type { TraceExport } from './export-traces.js'
import { Primary } from '../../fleet/workers/primary.js'
import { Supervisor } from '../../fleet/workers/supervisor.js'
import { tellAccess } from './describe-config.js'
import { greeting } from './greeting.js'
import { isAnythingStored } from '../served/stored-kubernetes.js'
import { keyFromText } from '../../engine/model/event.js'
import { countedLimits } from './open-client-limits.js'
import { ringBounds } from './open-resources.js'
import type { Metrics } from '../metrics/metrics.js'
import type { LiveConfig } from './live-config.js'
import { OutageLog } from './outage-log.js'
import type { PortNumbers } from './ports.js'
import type { WorkerHello } from './worker.js'
import { resourceId } from '../../engine/model/resource.js'
import { systemClock as clock } from '../../support/clock.js'
import { freePort } from '../../support/free-port.js'
import type { Logger } from '../../support/log.js'
import { systemRandom as random } from '../../support/random.js'
import type { FeedFigures } from '../ui/page/figures.js'
import { feedFigures, primaryStatus } from '../ui/status.js'
import { closeAll, type Upstreams } from './open-upstream.js'

export interface PrimaryParts extends Upstreams {
  readonly config: Config
  readonly live: LiveConfig
  readonly logger: Logger
  readonly version: string
  readonly metrics: Metrics
  readonly print: (text: string) => void
  readonly traces: TraceExport
}

/** How much longer the primary waits than workers allow themselves. */
const GRACE_MS = 1_000

export async function runPrimary(parts: PrimaryParts): Promise<void> {
  const { config, live, upstream, others, logger, version, metrics, print, traces } = parts
  const { bindAddress: address } = config
  // Workers that picked their own port would pick another one after all of them had died.
  const { metricsBindAddress } = config
  const ports: PortNumbers = {
    port: await portOf(address, config.port),
    securePort: await portOf(address, config.securePort),
    metricsPort: metricsBindAddress && (await portOf(metricsBindAddress.host, metricsBindAddress.port)),
  }
  const limits = countedLimits({ config, live, clock, metrics }, 1, {
    onSuspected: (client) => primary.suspect(client),
  })
  const primary: Primary = new Primary({
    limits,
    openFeed: chooseFeeds({
      config,
      upstream,
      others,
      clock,
      random,
      logger,
      metrics,
    }),
    upstream,
    feedMetrics: (resource) => metrics.forResource(resource).feed,
    mergeMetrics: (ofWorkers) => metrics.merge(ofWorkers),
    status: () => primaryStatus(feedLines(primary)),
    history: { ...ringBounds(config), keepAgeMs: KEPT_HISTORY_MS },
    clock,
  })
  live.onChange((changed) => primary.setHistoryBounds({ ...ringBounds(changed), keepAgeMs: KEPT_HISTORY_MS }))
  metrics.process.observeWorkers(() => {
    let serving = 0
    let queuedBytes = 0
    for (const link of primary.links) {
      queuedBytes += link.queuedBytes
      if (link.isServing) serving++
    }
    return { serving, queuedBytes }
  })
  const supervisor = new Supervisor({
    workers: config.workers,
    primary,
    hello: (isReplacement) => JSON.stringify({ isReplacement, ports } satisfies WorkerHello),
    logger,
    clock,
    random,
    graceMs: config.shutdownDelayDuration + config.shutdownGracePeriod + GRACE_MS,
    onRestart: () => metrics.process.workerRestarted(),
    onServing: () => {
      const { workers, embedded } = config
      tellAccess(config, logger)
      logger.info({ version, address, ...ports, embedded, workers }, 'serving')
      void servesKubernetes(config, upstream).then((isServed) => print(greeting(config, ports, isServed)))
    },
    onGivenUp: () => {
      logger.error({}, 'no worker could start')
      process.exit(1)
    },
  })
  process.on('SIGHUP', () => {
    live.reload()
    supervisor.hangUp()
  })
  process.on('SIGUSR2', () => void primary.checkConsistency())
  const outages = new OutageLog({ sources: () => primary.relays(), others: config.otherEtcds, clock, logger })
  outages.start()
  const delay = config.shutdownDelayDuration + config.shutdownGracePeriod + 2 * GRACE_MS
  const skip: closeWithGrace.AllEvents[] = ['SIGHUP', 'SIGUSR2']
  closeWithGrace({ delay, logger: false, skip }, async ({ signal, err }) => {
    if (err !== undefined) logger.error({ err }, 'stopping after an error')
    else logger.info({ signal }, 'draining the workers')
    live.close()
    outages.stop()
    await supervisor.stop()
    await primary.stop()
    await closeAll(parts)
    await traces.stop()
    logger.info({}, 'stopped')
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

/** The workers find out for themselves; this is for the greeting. */
async function servesKubernetes(
  { awaitsKubernetes, etcdPrefix }: Config,
  upstream: Upstreams['upstream'],
): Promise<boolean> {
  if (!awaitsKubernetes) return true
  return await isAnythingStored(upstream, keyFromText(`${etcdPrefix}/`)).catch(() => false)
}
