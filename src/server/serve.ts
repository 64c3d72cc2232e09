/**
 * The server as a process: starts, drains on SIGTERM. Exit codes: 0 after a clean stop, 1 when it cannot go on, 2 when it
 * cannot start as configured (a wrong flag, a port in use).
 */
import cluster from 'node:cluster'
import { readFileSync } from 'node:fs'
import closeWithGrace from 'close-with-grace'
import { App } from './app.js'
import type { PortNumbers } from './ports.js'
import { packageVersion } from './package-version.js'
import { exportTraces, type TraceExport } from './export-traces.js'
import { greeting } from './greeting.js'
import { ConfigError } from '../config/config-error.js'
import { type Config, type Loaded, load } from '../config/load.js'
import { loadDescriptors } from '../codec/protobuf/descriptors.js'
import { type Schema, kubernetesSchema } from '../codec/protobuf/schema.js'
import { Metrics } from '../metrics/metrics.js'
import { createLogger } from './logger.js'
import { runPrimary } from './primary.js'
import { runWorker } from './worker.js'
import { noUpstream } from './nats-fleet.js'
import type { Logger } from '../support/log.js'
import { createEmbeddedUpstream } from '../upstream/embedded/embedded-upstream.js'
import { startDemoCluster } from '../upstream/embedded/demo/demo-cluster.js'
import { connectEtcd } from '../upstream/etcd/etcd-upstream.js'
import type { Upstream } from '../upstream/upstream.js'

export interface ServeOptions {
  readonly argv: readonly string[]
  readonly environment: Readonly<Record<string, string | undefined>>
  /** The other commands, a line each, for `--help`. */
  commands(): Promise<string>
}

export async function serve(options: ServeOptions): Promise<void> {
  const version = packageVersion()
  const loaded = readConfig(options)
  if (loaded.kind === 'help') return print(`${loaded.text}\nCommands:\n${await options.commands()}`)
  if (loaded.kind === 'version') return print(`distributary ${version}`)
  const { config } = loaded
  const logger = createLogger({ level: config.logLevel, format: config.logFormat, worker: cluster.worker?.id ?? null })
  const schema = readSchema(config)
  const traces = await openTraces(config, logger, version)
  if (cluster.isWorker) return await runWorker({ config, logger, version, schema, traces })
  const metrics = new Metrics(version)
  const upstream = openUpstream(config, logger, metrics)
  if (config.workers > 1) return await runPrimary({ config, upstream, logger, version, metrics, print, traces })
  let app: App
  let ports: PortNumbers
  try {
    app = new App({ config, upstream, logger, version, metrics, schema })
    ports = await app.start()
  } catch (error) {
    process.stderr.write(`distributary cannot start: ${error instanceof Error ? error.message : String(error)}\n`)
    process.exit(2)
  }
  logger.info({ version, address: config.bindAddress, ...ports, embedded: config.embedded }, 'serving')
  print(greeting(config, ports))
  // Connections that are left after the grace of the drain are cut.
  process.on('SIGHUP', () => app.reopenLogs())
  process.on('SIGUSR2', () => void app.checkConsistency())
  const skip: closeWithGrace.AllEvents[] = ['SIGHUP', 'SIGUSR2']
  const delay = config.shutdownDelayDuration + config.shutdownGracePeriod
  closeWithGrace({ delay, logger: false, skip }, async ({ signal, err }) => {
    if (err !== undefined) logger.error({ err }, 'stopping after an error')
    else logger.info({ signal }, 'draining')
    await app.drain()
    await app.stop()
    await traces.stop()
    logger.info({}, 'stopped')
  })
}

function readConfig({ argv, environment }: ServeOptions): Loaded {
  try {
    return load(argv, environment, (path) => readFileSync(path, 'utf8'))
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    process.stderr.write(`${error.message}\n`)
    process.exit(2)
  }
}

function readSchema({ protoDescriptors }: Config): Schema {
  if (protoDescriptors === null) return kubernetesSchema()
  try {
    return loadDescriptors(readFileSync(protoDescriptors), kubernetesSchema())
  } catch (error) {
    process.stderr.write(
      `--proto-descriptors: ${protoDescriptors}: ${error instanceof Error ? error.message : String(error)}\n`,
    )
    process.exit(2)
  }
}

async function openTraces(config: Config, logger: Logger, version: string): Promise<TraceExport> {
  const { tracingOtlpEndpoint: endpoint, tracingSamplingRatePerMillion: samplesPerMillion } = config
  try {
    return await exportTraces({ endpoint, samplesPerMillion, version, logger })
  } catch (error) {
    process.stderr.write(`distributary cannot start: ${error instanceof Error ? error.message : String(error)}\n`)
    process.exit(2)
  }
}

function openUpstream(config: Config, logger: Logger, metrics: Metrics): Upstream {
  if (config.embedded) {
    const upstream = createEmbeddedUpstream()
    startDemoCluster(upstream)
    return upstream
  }
  if (config.upstream !== null) return noUpstream('what comes by --upstream is only read')
  if (config.etcdServers.length === 0) return noUpstream('an edge has no route to etcd (--nats-role=edge)')
  const { etcdCafile, etcdCertfile, etcdKeyfile, etcdUsername } = config
  const user = etcdUsername === null ? {} : { user: { name: etcdUsername, password: etcdPassword(config) } }
  const tls = {
    ...(etcdCafile === null ? {} : { ca: readFileSync(etcdCafile) }),
    ...(etcdCertfile === null ? {} : { cert: readFileSync(etcdCertfile) }),
    ...(etcdKeyfile === null ? {} : { key: readFileSync(etcdKeyfile) }),
  }
  return connectEtcd({ endpoints: config.etcdServers, tls, ...user, logger, metrics: metrics.requests })
}

function etcdPassword({ etcdPasswordFile, etcdPassword: password }: Config): string {
  return etcdPasswordFile === null ? (password ?? '') : readFileSync(etcdPasswordFile, 'utf8').replace(/\r?\n$/, '')
}

function print(text: string): void {
  process.stdout.write(`${text}\n`)
}
