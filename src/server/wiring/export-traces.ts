/**
 * Wraps OpenTelemetry's SDK and its exporter, which sends spans over OTLP/HTTP. The packages are optional and are
 * loaded only when an endpoint is configured, so a server without tracing does not need them.
 *
 * If the collector is unreachable, spans are lost and one line is logged, but no request fails. At most QUEUED_SPANS
 * spans wait for the collector. OpenTelemetry's own environment variables (`OTEL_EXPORTER_OTLP_HEADERS`,
 * `OTEL_RESOURCE_ATTRIBUTES`) apply.
 */
import { hostname } from 'node:os'
import { context, propagation, trace } from '@opentelemetry/api'
import type { Logger } from '../../support/log.js'

export interface TraceExport {
  /** Sends what is still queued, for a few seconds at most. */
  stop(): Promise<void>
}

export interface TraceExportOptions {
  /** The collector's base address, such as `http://127.0.0.1:4318`; null for no tracing. */
  readonly endpoint: string | null
  readonly version: string
  readonly logger: Logger
}

const PACKAGES = [
  '@opentelemetry/sdk-trace',
  '@opentelemetry/context-async-hooks',
  '@opentelemetry/core',
  '@opentelemetry/resources',
  '@opentelemetry/exporter-trace-otlp-http',
]
const QUEUED_SPANS = 2_048
const SEND_EVERY_MS = 1_000
const EXPORT_TIMEOUT_MS = 5_000
/** Clients choose their user agent and path, so values are cut. */
const MAX_VALUE_LENGTH = 256
const NOTHING: TraceExport = { stop: () => Promise.resolve() }

/** @throws Error that says what to install if the optional packages are missing. */
export async function exportTraces(options: TraceExportOptions): Promise<TraceExport> {
  const { endpoint, version, logger } = options
  if (endpoint === null) return NOTHING
  const { sdk, hooks, core, resources, exporter } = await loadSdk()
  const otlp = new exporter.OTLPTraceExporter({ url: `${endpoint}/v1/traces`, timeoutMillis: EXPORT_TIMEOUT_MS })
  let isFailing = false
  const noticing: typeof otlp = Object.create(otlp, {
    export: {
      value: (spans: Parameters<typeof otlp.export>[0], done: Parameters<typeof otlp.export>[1]): void =>
        otlp.export(spans, (result) => {
          const isLost = result.code !== core.ExportResultCode.SUCCESS
          if (isLost && !isFailing)
            logger.warn({ endpoint, reason: result.error?.message }, 'traces cannot be exported')
          else if (!isLost && isFailing) logger.info({ endpoint }, 'traces are exported again')
          isFailing = isLost
          done(result)
        }),
    },
  }) as typeof otlp
  const own = resources.resourceFromAttributes({
    'service.name': 'distributary',
    'service.version': version,
    'service.instance.id': `${hostname()}-${process.pid}`,
  })
  const provider = new sdk.TracerProvider({
    resource: own.merge(resources.detectResources({ detectors: [resources.envDetector] })),
    spanLimits: { attributeValueLengthLimit: MAX_VALUE_LENGTH },
    spanProcessors: [
      new sdk.BatchSpanProcessor({
        exporter: noticing,
        maxQueueSize: QUEUED_SPANS,
        scheduledDelayMillis: SEND_EVERY_MS,
        exportTimeoutMillis: EXPORT_TIMEOUT_MS,
      }),
    ],
  })
  context.setGlobalContextManager(new hooks.AsyncLocalStorageContextManager().enable())
  propagation.setGlobalPropagator(new core.W3CTraceContextPropagator())
  trace.setGlobalTracerProvider(provider)
  return { stop: () => provider.shutdown().catch(() => {}) }
}

/** In the published bundle, a CommonJS package imported late has only `default`. */
async function exportsOf<T extends object>(loading: Promise<T>): Promise<T> {
  const module = await loading
  return 'default' in module ? (module.default as T) : module
}

async function loadSdk() {
  try {
    return {
      sdk: await exportsOf(import('@opentelemetry/sdk-trace')),
      hooks: await exportsOf(import('@opentelemetry/context-async-hooks')),
      core: await exportsOf(import('@opentelemetry/core')),
      resources: await exportsOf(import('@opentelemetry/resources')),
      exporter: await exportsOf(import('@opentelemetry/exporter-trace-otlp-http')),
    }
  } catch (cause) {
    throw new Error(`--tracing-otlp-endpoint needs optional packages: npm install ${PACKAGES.join(' ')}`, { cause })
  }
}
