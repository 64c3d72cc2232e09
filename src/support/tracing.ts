/**
 * Spans, using only OpenTelemetry's API. Without an SDK (`export-traces.ts`, or one that the operator loads with `node
 * --import`) every call here does nothing.
 *
 * Unlike clock and logger, the tracer is ambient: the request that a piece of work belongs to travels with the
 * asynchronous call, and passing it by hand would add a parameter to every function in between. Only lists are traced,
 * never an event or a watcher, so the hot path does not use this file.
 */
import {
  type Attributes,
  context,
  type Context,
  propagation,
  ROOT_CONTEXT,
  type Span as ApiSpan,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api'
import { errorMessage } from './error-message.js'

export interface Span {
  /** Adds attributes; undefined values are skipped. */
  note(attributes: Attributes): void
  /** Marks the span as failed, with a reason to display. */
  fail(reason: string): void
  end(): void
}

export interface SpanOptions {
  /** `server` answers a request, `client` asks another server, `internal` does neither. */
  readonly kind: 'server' | 'client' | 'internal'
  readonly attributes?: Attributes
  /** The headers of the answered request: the caller's `traceparent` becomes the parent of the span. */
  readonly carrier?: object
  /** Whether the span belongs to no request, whatever the current call. */
  readonly isRoot?: boolean
}

const KINDS = { server: SpanKind.SERVER, client: SpanKind.CLIENT, internal: SpanKind.INTERNAL } as const

const tracer = trace.getTracer('distributary')

/** The caller must end the span in `finally`. */
export function beginSpan(name: string, options: SpanOptions): Span {
  return new ApiSpanOf(start(name, options, parentOf(options)))
}

/**
 * Runs work inside a span: spans that begin while it runs are its children, and an error of the work is its failure.
 */
export async function inSpan<T>(name: string, options: SpanOptions, work: (span: Span) => Promise<T>): Promise<T> {
  const parent = parentOf(options)
  const begun = start(name, options, parent)
  const span = new ApiSpanOf(begun)
  try {
    return await context.with(trace.setSpan(parent, begun), work, undefined, span)
  } catch (error) {
    span.fail(errorMessage(error))
    throw error
  } finally {
    span.end()
  }
}

function parentOf({ carrier, isRoot }: SpanOptions): Context {
  if (isRoot === true) return ROOT_CONTEXT
  return carrier === undefined ? context.active() : propagation.extract(context.active(), carrier)
}

function start(name: string, { kind, attributes = {} }: SpanOptions, parent: Context): ApiSpan {
  return tracer.startSpan(name, { kind: KINDS[kind], attributes }, parent)
}

class ApiSpanOf implements Span {
  constructor(readonly span: ApiSpan) {}

  note(attributes: Attributes): void {
    this.span.setAttributes(attributes)
  }

  fail(reason: string): void {
    this.span.setStatus({ code: SpanStatusCode.ERROR, message: reason })
  }

  end(): void {
    this.span.end()
  }
}
