/**
 * Spans, through OpenTelemetry's API and nothing more of it: without an SDK (`export-traces.ts`, or one that the operator
 * loads with `node --import`) every call here ends in the API's empty one.
 *
 * The tracer is ambient, unlike clock and logger: whose request a piece of work belongs to travels with the asynchronous
 * call, and passing it by hand would put a parameter on everything in between. Only lists are traced, never an event or a
 * watcher: the hot path does not know this file.
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

export interface Span {
  /** More about it; undefined values are left out. */
  note(attributes: Attributes): void
  /** It ended badly, for a reason to show. */
  fail(reason: string): void
  end(): void
}

export interface SpanOptions {
  /** `server`: answers a request; `client`: asks another server; `internal`: neither. */
  readonly kind: 'server' | 'client' | 'internal'
  readonly attributes?: Attributes
  /** Of the request it answers: the caller's `traceparent` becomes its parent. */
  readonly carrier?: object
  /** It belongs to nobody's request, whatever the call it happens to be made in. */
  readonly isRoot?: boolean
}

const KINDS = { server: SpanKind.SERVER, client: SpanKind.CLIENT, internal: SpanKind.INTERNAL } as const

const tracer = trace.getTracer('distributary')

/** Whoever begins one ends it, in `finally`. */
export function beginSpan(name: string, options: SpanOptions): Span {
  return new ApiSpanOf(start(name, options, parentOf(options)))
}

/** Work with a span around it: spans begun meanwhile are its children, and what the work throws is its failure. */
export async function inSpan<T>(name: string, options: SpanOptions, work: (span: Span) => Promise<T>): Promise<T> {
  const parent = parentOf(options)
  const begun = start(name, options, parent)
  const span = new ApiSpanOf(begun)
  try {
    return await context.with(trace.setSpan(parent, begun), work, undefined, span)
  } catch (error) {
    span.fail(error instanceof Error ? error.message : String(error))
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
