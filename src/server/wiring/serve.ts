/**
 * Runs the server as a process: starts it, and drains it on SIGTERM. It exits with 0 after a clean stop, with 1 after a
 * fatal error, and as `exit-code-of.ts` says when it cannot start.
 */
import cluster from 'node:cluster'
import { readFileSync } from 'node:fs'
import { LiveConfig } from './live-config.js'
import { packageVersion } from './package-version.js'
import { exitCodeOf } from './exit-code-of.js'
import { exportTraces } from './export-traces.js'
import { readHello } from './worker-hello.js'
import { logAccess } from './describe-config.js'
import { countDeclared, banner } from './banner.js'
import { setHeapFlags } from './heap-flags.js'
import { yieldToEventLoop } from './helper-threads.js'
import type { Upstreams } from './open-upstream.js'
import { checkRuntime } from './runtime.js'
import { ConfigError } from '../config/config-error.js'
import { type Config, type ConfigFile, type Loaded, load } from '../config/load.js'
import { type Schema, kubernetesSchema } from '../../kubernetes/codec/protobuf/schema.js'
import { Metrics } from '../metrics/metrics.js'
import { createLogger } from './logger.js'
import { type Started, takeSignals } from './take-signals.js'
import { systemClock } from '../../support/clock.js'
import { systemRandom } from '../../support/random.js'
import { readRegularFile } from '../auth/read-regular-file.js'
import { errorMessage } from '../../support/error-message.js'

export interface ServeOptions {
  readonly argv: readonly string[]
  readonly environment: Readonly<Record<string, string | undefined>>
  /** Returns one line for each of the other commands, for `--help`. */
  commands(): Promise<string>
}

export async function serve(options: ServeOptions): Promise<void> {
  const version = packageVersion()
  const hello = cluster.isWorker ? readHello() : null
  const loaded = orExit(() => read(options, hello?.file ?? null))
  if (loaded.kind === 'help') return print(`${loaded.text}\nCommands:\n${await options.commands()}`)
  if (loaded.kind === 'version') return print(`distributary ${version}`)
  setHeapFlags(process.execArgv)
  yieldToEventLoop()
  const { config, file } = loaded
  const logger = createLogger({ level: config.logLevel, format: config.logFormat, worker: cluster.worker?.id ?? null })
  // Workers have the environment of their primary, and variables of their own.
  if (!cluster.isWorker) for (const warning of loaded.warnings) logger.warn({}, warning)
  orExit(() => checkRuntime(config, logger))
  const schema = await readSchema(config)
  const traces = await exportTraces({ endpoint: config.tracingOtlpEndpoint, version, logger }).catch(cannotStart)
  const metrics = new Metrics(version)
  const live = new LiveConfig({
    config,
    file,
    reread: () => readAgain(options),
    onLogLevel: (level) => void (logger.level = level),
    metrics: metrics.process,
    clock: systemClock,
    logger,
  })
  const started: Started = { config, live, logger, version, metrics, traces }
  // Each role loads only what it needs, and a rejected command line loads nothing.
  if (hello !== null) {
    const { runWorker } = await import('./run-worker.js')
    return await runWorker({ ...started, schema, hello })
  }
  const upstreams = await import('./open-upstream.js')
    .then(({ openUpstreams }) => openUpstreams(config, logger, metrics))
    .catch(cannotStart)
  if (config.workers > 1) {
    const { runPrimary } = await import('./run-primary.js')
    return await runPrimary({ ...started, ...upstreams, print }).catch(cannotStart)
  }
  await serveAlone(started, upstreams, schema).catch(cannotStart)
}

async function serveAlone(started: Started, upstreams: Upstreams, schema: Schema): Promise<void> {
  const { config, logger, version } = started
  const { Process } = await import('./server-process.js')
  const app = new Process({ ...started, ...upstreams, schema, clock: systemClock, random: systemRandom })
  takeSignals(started, {
    hangUp: () => app.reopenLogs(),
    checkConsistency: () => app.checkConsistency(),
    stop: async () => {
      await app.drain()
      await app.stop()
    },
    moreMs: 0,
  })
  const ports = await keepAlive(app.start())
  const counts = await countDeclared(config, upstreams.upstream)
  logAccess(config, logger)
  logger.info({ version, address: config.bindAddress, ...ports, embedded: config.embedded }, 'serving')
  print(banner(config, ports, app.servesKubernetes, counts))
}

/**
 * Keeps the process alive until `work` is done. Before the server listens, nothing else keeps the process alive, so
 * Node would exit while the server waits for an etcd that refuses connections.
 */
async function keepAlive<T>(work: Promise<T>): Promise<T> {
  const timer = setInterval(() => {}, 60_000)
  try {
    return await work
  } finally {
    clearInterval(timer)
  }
}

/**
 * @param adopted the configuration file as the other processes use it, which may not be what it contains now.
 * @throws ConfigError
 */
function read({ argv, environment }: ServeOptions, adopted: ConfigFile | null): Loaded {
  return load(argv, environment, (path) =>
    path === adopted?.path ? adopted.text : readRegularFile(path).toString('utf8'),
  )
}

/** Reports what is wrong with the configuration, and ends the process. */
function orExit<T>(work: () => T): T {
  try {
    return work()
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    process.stderr.write(`${error.message}\n`)
    process.exit(exitCodeOf(error))
  }
}

/** @throws ConfigError */
function readAgain(options: ServeOptions): Extract<Loaded, { kind: 'run' }> {
  const loaded = read(options, null)
  if (loaded.kind !== 'run') throw new ConfigError(['--help and --version do not start a server'])
  return loaded
}

async function readSchema({ protoDescriptors }: Config): Promise<Schema> {
  if (protoDescriptors === null) return kubernetesSchema()
  try {
    // Loaded on demand, because few servers need it and loading takes long.
    const { loadDescriptors } = await import('../../kubernetes/codec/protobuf/descriptors.js')
    return loadDescriptors(readFileSync(protoDescriptors), kubernetesSchema())
  } catch (error) {
    process.stderr.write(`--proto-descriptors: ${protoDescriptors}: ${errorMessage(error)}\n`)
    process.exit(exitCodeOf(error))
  }
}

function cannotStart(error: unknown): never {
  process.stderr.write(`distributary cannot start: ${errorMessage(error)}\n`)
  process.exit(exitCodeOf(error))
}

function print(text: string): void {
  process.stdout.write(`${text}\n`)
}
