/** The configured ports: plain HTTP, HTTPS, or both, with the same routes; and the metrics port. */
import type { AddressInfo } from 'node:net'
import type { Server } from 'node:http'
import type { FastifyInstance } from 'fastify'
import { type TlsServerOptions, watchServerTls } from '../auth/tls.js'
import type { WatchedFiles } from '../auth/watched-file.js'
import type { Config } from '../config/load.js'
import type { RapidResets } from '../transports/limits/rapid-resets.js'
import { descriptorLimit, DescriptorReserve, maxConnections } from '../transports/limits/descriptor-reserve.js'
import type { IdleConnections } from '../transports/limits/idle-connections.js'
import { type Listener, createPlainListener, createSecureListener } from '../transports/server/listeners.js'
import { createMetricsServer } from '../transports/server/metrics-server.js'
import { type ServerOptions, createServer } from '../transports/server/server.js'
import { type Clock, sleep } from '../../support/clock.js'
import type { ServerDeps } from './server-deps.js'

/** null if the port is not configured. */
export interface PortNumbers {
  readonly port: number | null
  readonly securePort: number | null
  readonly metricsPort: number | null
}

export interface PortsOptions extends Pick<ServerDeps, 'config' | 'live' | 'clock' | 'random' | 'logger' | 'metrics'> {
  readonly server: ServerOptions
  readonly resets: RapidResets
  readonly idleConnections: IdleConnections
}

export class Ports {
  readonly #config: Config
  readonly #clock: Clock
  readonly #plain: FastifyInstance | null
  readonly #secure: FastifyInstance | null
  readonly #metrics: FastifyInstance | null
  readonly #tls: WatchedFiles<TlsServerOptions> | null

  /** @throws Error that names the file when a certificate or key is unusable. */
  constructor(options: PortsOptions) {
    const { config, live, clock, random, server, resets, idleConnections } = options
    this.#config = config
    this.#clock = clock
    const { clients, metrics: scrapes } = maxConnections(descriptorLimit())
    const bounded = (most: number) =>
      new DescriptorReserve({
        clock,
        logger: options.logger,
        maxConnections: most,
        onRejected: () => options.metrics.requests.rejected('descriptors'),
      })
    const limits = {
      maxStreams: config.http2MaxStreamsPerConnection,
      movesClient: () => random.next() < config.goawayChance,
      resets,
      idleConnections,
      descriptors: bounded(clients),
    }
    this.#plain = config.port === null ? null : createServer(server, (handler) => createPlainListener(handler, limits))
    this.#tls = config.securePort === null ? null : openTls(options)
    const tls = this.#tls
    this.#secure =
      tls === null
        ? null
        : createServer(server, (handler) => {
            const listener = createSecureListener(handler, limits, tls.value)
            tls.onChange((context) => listener.setSecureContext(context))
            // An HTTP/2 server has all the server methods that Fastify uses.
            return listener as unknown as Server
          })
    // These routes require no credentials, so only the configured host names are allowed.
    const metrics = { ...server, allowedHosts: () => live.current.allowedHosts }
    this.#metrics =
      config.metricsBindAddress === null
        ? null
        : createMetricsServer(metrics, (handler) =>
            createPlainListener(handler, { ...limits, descriptors: bounded(scrapes) }),
          )
  }

  /** @throws when a port is taken. */
  async start(): Promise<PortNumbers> {
    const { bindAddress: host, port, securePort, metricsBindAddress } = this.#config
    return {
      port: await listen(this.#plain, { host, port }),
      securePort: await listen(this.#secure, { host, port: securePort }),
      metricsPort: await listen(this.#metrics, metricsBindAddress),
    }
  }

  /** Ends connections after their next responses; clients may reconnect. */
  announceDrain(): void {
    for (const listener of this.#listeners()) listener.announceDrain()
  }

  /** Ends connections when their running requests end. The metrics port keeps answering until the server stops. */
  drain(): void {
    for (const listener of this.#listeners()) listener.beginDrain()
  }

  /** Accepts no more connections, and waits until no request is in progress; for `ms` at most. */
  async finish(ms: number): Promise<void> {
    const late = new AbortController()
    const finished = Promise.all(this.#listeners().map((listener) => listener.finish())).then(() => late.abort())
    await Promise.race([finished, sleep(this.#clock, ms, late.signal)])
  }

  #listeners(): Listener[] {
    return [this.#plain, this.#secure].flatMap((port) => (port === null ? [] : (port.server as Server & Listener)))
  }

  async stop(): Promise<void> {
    await Promise.all([this.#plain?.close(), this.#secure?.close(), this.#metrics?.close()])
    this.#tls?.close()
  }
}

async function listen(
  server: FastifyInstance | null,
  address: { readonly host: string; readonly port: number | null } | null,
): Promise<number | null> {
  if (server === null || address === null || address.port === null) return null
  await server.listen({ host: address.host, port: address.port })
  return (server.server.address() as AddressInfo).port
}

function openTls({ config, clock, logger, metrics }: PortsOptions): WatchedFiles<TlsServerOptions> {
  return watchServerTls({
    // A secure port always has both files; see `config/relations.ts`.
    certFile: config.tlsCertFile!,
    keyFile: config.tlsPrivateKeyFile!,
    minVersion: config.tlsMinVersion,
    clientCaFiles: [config.clientCaFile, config.requestheaderClientCaFile].filter((file) => file !== null),
    clock,
    logger,
    metrics: metrics.process,
  })
}
