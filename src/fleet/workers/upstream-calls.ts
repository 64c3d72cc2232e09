/**
 * Lets a worker call the primary's upstream, mostly for writes, and for reads that no cache answers. Calls and answers
 * are JSON with values in base64, because they are small, and infrequent compared with events.
 */
import type { KeyValue } from '../../engine/model/event.js'
import type { Revision } from '../../engine/model/revision.js'
import {
  type Compare,
  type Page,
  type ReadOptions,
  type Upstream,
  UpstreamError,
  type UpstreamStatus,
  type WriteOperation,
  type WriteResult,
} from '../../engine/upstream/upstream.js'

type Call =
  | { readonly method: 'read'; readonly options: Omit<ReadOptions, 'signal'> }
  | { readonly method: 'readKey'; readonly key: KeyValue['key']; readonly revision: Revision | null }
  | { readonly method: 'currentRevision' | 'status' }
  | { readonly method: 'write'; readonly compares: readonly Compare[]; readonly operations: readonly WriteOperation[] }
  | { readonly method: 'grantLease'; readonly ttlSeconds: number }
  | { readonly method: 'dropLease'; readonly leaseId: string }

/** Sends a call to the primary. @throws UpstreamError */
export type CallUpstream = (request: string, signal?: AbortSignal) => Promise<string>

/** Answers a worker's call, in the primary. @throws UpstreamError */
export async function answerUpstreamCall(upstream: Upstream, request: string, signal: AbortSignal): Promise<string> {
  const call = parse(request) as Call
  return stringify(await perform(upstream, call, signal))
}

function perform(upstream: Upstream, call: Call, signal: AbortSignal): Promise<unknown> {
  switch (call.method) {
    case 'read':
      return upstream.read({ ...call.options, signal })
    case 'readKey':
      return upstream.readKey(call.key, { signal, ...(call.revision === null ? {} : { revision: call.revision }) })
    case 'currentRevision':
      return upstream.currentRevision(signal)
    case 'status':
      return upstream.status(signal)
    case 'write':
      return upstream.write(call.compares, call.operations)
    case 'grantLease':
      return upstream.grantLease(call.ttlSeconds)
    case 'dropLease':
      return upstream.dropLease(call.leaseId).then(() => null)
    default:
      throw new UpstreamError('protocol', `no such call: ${JSON.stringify(call satisfies never)}`)
  }
}

/** The upstream of a worker, without watches: the primary has those. */
export class PrimaryUpstream implements Upstream {
  readonly #call: CallUpstream

  constructor(call: CallUpstream) {
    this.#call = call
  }

  async read({ signal, ...options }: ReadOptions): Promise<Page> {
    return (await this.#ask({ method: 'read', options }, signal)) as Page
  }

  async readKey(
    key: KeyValue['key'],
    { revision, signal }: { revision?: Revision; signal?: AbortSignal } = {},
  ): Promise<KeyValue | null> {
    return (await this.#ask({ method: 'readKey', key, revision: revision ?? null }, signal)) as KeyValue | null
  }

  async currentRevision(signal?: AbortSignal): Promise<Revision> {
    return (await this.#ask({ method: 'currentRevision' }, signal)) as Revision
  }

  async status(signal?: AbortSignal): Promise<UpstreamStatus> {
    return (await this.#ask({ method: 'status' }, signal)) as UpstreamStatus
  }

  watch(): never {
    throw new Error('a worker is fed by its primary: it watches nothing')
  }

  async write(compares: readonly Compare[], operations: readonly WriteOperation[]): Promise<WriteResult> {
    return (await this.#ask({ method: 'write', compares, operations })) as WriteResult
  }

  async grantLease(ttlSeconds: number): Promise<string> {
    return (await this.#ask({ method: 'grantLease', ttlSeconds })) as string
  }

  async dropLease(leaseId: string): Promise<void> {
    await this.#ask({ method: 'dropLease', leaseId })
  }

  async close(): Promise<void> {}

  async #ask(call: Call, signal?: AbortSignal): Promise<unknown> {
    return parse(await this.#call(stringify(call), signal))
  }
}

/** Encodes values in base64: a Buffer would serialize as an array of numbers, several times its size. */
function stringify(value: unknown): string {
  return JSON.stringify(value, function (this: Record<string, unknown>, name, plain: unknown) {
    const original = this[name]
    return Buffer.isBuffer(original) ? { $base64: original.toString('base64') } : plain
  })
}

function parse(text: string): unknown {
  return JSON.parse(text, (_name, value: unknown) =>
    typeof value === 'object' && value !== null && '$base64' in value
      ? Buffer.from(String(value.$base64), 'base64')
      : value,
  )
}
