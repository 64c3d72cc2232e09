/**
 * Creates spans, using only OpenTelemetry's API. Without an SDK (from `export-traces.ts`, or loaded by the operator
 * with `node --import`) every call here does nothing.
 *
 * Unlike the clock and the logger, the tracer is not passed as a parameter. The asynchronous context says which request
 * a piece of work belongs to. Passing it explicitly would add a parameter to every function in between. Only lists are
 * traced, never an event or a watcher, so the hot path does not use this file.
 */
import {
  type Attributes,
  context,
  type Context,
  propagation,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api'
import { errorMessage } from './error-message.js'

export type { Span }

export interface SpanOptions {
  /** `server` handles a request, `client` sends a request to another server, and `internal` does neither. */
  readonly kind: 'server' | 'client' | 'internal'
  readonly attributes?: Attributes
  /** The headers of the request being handled. The caller's `traceparent` becomes the parent of the span. */
  readonly carrier?: object
  /** Whether the span belongs to no request, even if it begins during one. */
  readonly isRoot?: boolean
}

const KINDS = { server: SpanKind.SERVER, client: SpanKind.CLIENT, internal: SpanKind.INTERNAL } as const

const tracer = trace.getTracer('distributary')

/** Begins a span. The caller must end it in `finally`. */
export function beginSpan(name: string, options: SpanOptions): Span {
  return start(name, options, parentOf(options))
}

/** Marks a span as failed, with a reason to display. */
export function failSpan(span: Span, reason: string): void {
  span.setStatus({ code: SpanStatusCode.ERROR, message: reason })
}

/**
 * Runs work inside a span. Spans that begin while the work runs become its children, and an error in the work marks the
 * span as failed.
 */
export async function inSpan<T>(name: string, options: SpanOptions, work: (span: Span) => Promise<T>): Promise<T> {
  const parent = parentOf(options)
  const span = start(name, options, parent)
  try {
    return await context.with(trace.setSpan(parent, span), work, undefined, span)
  } catch (error) {
    failSpan(span, errorMessage(error))
    throw error
  } finally {
    span.end()
  }
}

function parentOf({ carrier, isRoot }: SpanOptions): Context {
  if (isRoot === true) return ROOT_CONTEXT
  return carrier === undefined ? context.active() : propagation.extract(context.active(), carrier)
}

function start(name: string, { kind, attributes = {} }: SpanOptions, parent: Context): Span {
  return tracer.startSpan(name, { kind: KINDS[kind], attributes }, parent)
}
