/**
 * Runs a worker process: the whole server, except that its source is the primary.
 *
 * A worker exits when it loses its link to the primary, because the batches that it then misses are not sent again. A
 * new worker replaces it. SIGTERM may arrive twice, from the primary and from a service manager, so the second SIGTERM
 * does not force an immediate exit. The primary handles SIGINT, which a terminal sends to all processes, and SIGUSR2,
 * which requests a consistency check. A worker ignores both (`early-signals.ts`).
 */
import cluster from 'node:cluster'
import { Socket } from 'node:net'
import { Process } from './server-process.js'
import { exitCodeOf } from './exit-code-of.js'
import type { Schema } from '../../kubernetes/codec/protobuf/schema.js'
import type { ConsistencyReport } from '../../engine/feed/consistency-report.js'
import type { Config } from '../config/load.js'
import { LINK_DESCRIPTOR } from '../../fleet/workers/supervisor.js'
import { WorkerChannel } from '../../fleet/workers/worker.js'
import { ServiceUnavailableError } from '../../kubernetes/model/status.js'
import type { PortNumbers } from './ports.js'
import type { WorkerHello } from './worker-hello.js'
import type { Started } from './take-signals.js'
import { systemClock as clock } from '../../support/clock.js'
import { systemRandom as random } from '../../support/random.js'
import type { ProcessStatus } from '../ui/status-figures.js'
import { errorMessage } from '../../support/error-message.js'

export interface WorkerParts extends Started {
  readonly schema: Schema
  readonly hello: WorkerHello
}

/** How long a replacement worker may spend filling its caches before it accepts connections. */
const READY_WITHIN_MS = 10_000

export async function runWorker(parts: WorkerParts): Promise<void> {
  const { config, live, logger, traces, hello } = parts
  let isStopping = false
  let app: Process | null = null
  const stop = (): void => {
    if (isStopping) return
    isStopping = true
    setTimeout(() => process.exit(1), config.shutdownDelayDuration + config.shutdownGracePeriod).unref()
    const end = async (): Promise<void> => {
      await app?.drain()
      await app?.stop()
      await traces.stop()
    }
    void end().finally(() => process.exit(0))
  }
  process.on('SIGTERM', stop)
  process.on('SIGHUP', () => {
    app?.reopenLogs()
    live.reload()
  })

  const channel = new WorkerChannel({
    socket: new Socket({ fd: LINK_DESCRIPTOR }),
    clock,
    workers: config.workers,
    onClosed: (reason) => {
      if (isStopping) return
      logger.error({ reason }, 'lost the connection to the primary process; exiting')
      process.exit(1)
    },
    collectMetrics: async () => (await app?.metrics.collect()) ?? '[]',
    collectStatus: async () => (await app?.status()) ?? null,
    onBug: (error) => logger.error({ err: error }, 'a message from the primary process could not be processed'),
  })
  try {
    app = new Process({
      ...parts,
      clock,
      random,
      config: withPorts(config, hello.ports),
      upstream: channel.upstream,
      logsOutages: false,
      openFeed: channel.openFeed,
      limits: channel.limits,
      exposeMetrics: async () => ({
        contentType: app?.metrics.contentType ?? '',
        text: await channel.ask('metrics'),
      }),
      name: `worker ${cluster.worker?.id ?? ''}`,
      statuses: async () => {
        const statuses = (await channel.ask('status')) as readonly (ProcessStatus | null)[]
        return statuses.filter((status) => status !== null)
      },
      checkConsistency: async () => await checkOnPrimary(channel),
    })
    await app.start({ readyWithinMs: hello.isReplacement ? READY_WITHIN_MS : 0 })
    channel.started()
  } catch (error) {
    const reason = errorMessage(error)
    logger.error({ reason }, 'cannot start')
    process.exit(exitCodeOf(error))
  }
}

function withPorts(config: Config, { port, securePort, metricsPort }: PortNumbers): Config {
  const { metricsBindAddress: address } = config
  const metricsBindAddress = address && { ...address, port: metricsPort ?? address.port }
  return { ...config, port, securePort, metricsBindAddress }
}

/**
 * The primary runs the check, because it holds the watches on the upstream and relays their events to all workers.
 * @throws ServiceUnavailableError
 */
async function checkOnPrimary(channel: WorkerChannel): Promise<ConsistencyReport> {
  try {
    return await channel.ask('checkConsistency')
  } catch (error) {
    const reason = errorMessage(error)
    throw new ServiceUnavailableError(`the primary process could not be reached: ${reason}`, { cause: error })
  }
}
