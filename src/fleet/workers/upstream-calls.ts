/**
 * Lets a worker call the primary's upstream, mostly for writes, and for reads that no cache answers. Calls and answers
 * are JSON with values in base64, because they are small, and infrequent compared with events.
 */
import type { Key, KeyValue } from '../../engine/model/event.js'
import type { Revision } from '../../engine/model/revision.js'
import type {
  Compare,
  Page,
  ReadOptions,
  Upstream,
  UpstreamStatus,
  WriteOperation,
  WriteResult,
} from '../../engine/upstream/upstream.js'

/** The methods that a worker can call. */
const CALLS = {
  read: ({ upstream, signal }: Target, options: Omit<ReadOptions, 'signal'>) => upstream.read({ ...options, signal }),
  readKey: ({ upstream, signal }: Target, key: Key, options: { revision?: Revision }) =>
    upstream.readKey(key, { ...options, signal }),
  currentRevision: ({ upstream, signal }: Target) => upstream.currentRevision(signal),
  status: ({ upstream, signal }: Target) => upstream.status(signal),
  write: ({ upstream }: Target, compares: readonly Compare[], operations: readonly WriteOperation[]) =>
    upstream.write(compares, operations),
  grantLease: ({ upstream }: Target, ttlSeconds: number) => upstream.grantLease(ttlSeconds),
  dropLease: ({ upstream }: Target, leaseId: string) => upstream.dropLease(leaseId).then(() => null),
}

interface Target {
  readonly upstream: Upstream
  readonly signal: AbortSignal
}

type Calls = typeof CALLS
type Arguments<Name extends keyof Calls> = Calls[Name] extends (target: Target, ...args: infer A) => unknown ? A : never
type Result<Name extends keyof Calls> = Awaited<ReturnType<Calls[Name]>>

/** Answers a worker's call, in the primary. @throws UpstreamError */
export async function answerUpstreamCall(target: Target, request: string): Promise<string> {
  const [method, ...args] = parse(request) as [keyof Calls, ...unknown[]]
  return stringify(await (CALLS[method] as (target: Target, ...args: unknown[]) => Promise<unknown>)(target, ...args))
}

/** The upstream of a worker, without watches: the primary has those. */
export class PrimaryUpstream implements Upstream {
  readonly #call: (request: string, signal: AbortSignal | undefined) => Promise<string>

  /** @param call sends a call to the primary. @throws UpstreamError */
  constructor(call: (request: string, signal: AbortSignal | undefined) => Promise<string>) {
    this.#call = call
  }

  read({ signal, ...options }: ReadOptions): Promise<Page> {
    return this.#ask(signal, 'read', options)
  }

  readKey(
    key: Key,
    { signal, ...options }: { revision?: Revision; signal?: AbortSignal } = {},
  ): Promise<KeyValue | null> {
    return this.#ask(signal, 'readKey', key, options)
  }

  currentRevision(signal?: AbortSignal): Promise<Revision> {
    return this.#ask(signal, 'currentRevision')
  }

  status(signal?: AbortSignal): Promise<UpstreamStatus> {
    return this.#ask(signal, 'status')
  }

  watch(): never {
    throw new Error('a worker is fed by its primary: it watches nothing')
  }

  write(compares: readonly Compare[], operations: readonly WriteOperation[]): Promise<WriteResult> {
    return this.#ask(undefined, 'write', compares, operations)
  }

  grantLease(ttlSeconds: number): Promise<string> {
    return this.#ask(undefined, 'grantLease', ttlSeconds)
  }

  async dropLease(leaseId: string): Promise<void> {
    await this.#ask(undefined, 'dropLease', leaseId)
  }

  async close(): Promise<void> {}

  async #ask<Name extends keyof Calls>(
    signal: AbortSignal | undefined,
    method: Name,
    ...args: Arguments<Name>
  ): Promise<Result<Name>> {
    return parse(await this.#call(stringify([method, ...args]), signal)) as Result<Name>
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
