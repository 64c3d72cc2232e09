/**
 * Runs expensive writes in worker threads, so that no write delays a watch. Small writes stay on the event loop, where
 * they finish sooner.
 *
 * A write stays on the loop if its body and the stored object are small JSON. Every step (decoding, defaults, merging,
 * comparing, managed fields, checking the metadata) visits each value a bounded number of times. A value takes at least
 * one byte, so the number of bytes bounds the time. Formats in which a few bytes can stand for many values have a
 * smaller limit:
 *
 * - YAML (aliases, a slower parser) and protobuf (an empty message may become many members in JSON);
 * - a JSON Patch, whose operations may each visit the whole object.
 *
 * A custom resource and a definition always go to a thread, because nothing bounds the cost of a schema: compiling one
 * pattern of a few KB can take seconds. So does a DELETE of an object that is not small, alone or in a collection. The
 * size of the stored object is known only after reading it. If it is too large, the write starts over in a thread.
 * `npm run bench -- loop` measures the effect.
 */
import type { JsonRecord } from '../codec/json-tree.js'
import { EVICTION_NAME, type ServedResource } from '../dialect/resource-registry.js'
import { toShared } from '../dialect/shared-resource.js'
import { apiVersion, type ObjectName } from '../model/api-resource.js'
import {
  InternalError,
  RequestEntityTooLargeError,
  ServiceUnavailableError,
  StatusError,
  TimeoutError,
} from '../model/status.js'
import { getOrMake } from '../../support/memo.js'
import { type JobCalls, ThreadEndedError, type ThreadPool } from '../../support/thread-pool.js'
import {
  type ResponseMessage,
  fromResponseMessage,
  type Returned,
  returnedBy,
  type ServedMessage,
  valueOf,
  withBuffers,
  type WriteMessage,
} from './thread-messages.js'
import { isContainer, isDefinition } from './containers.js'
import type { SingleResponse, WriteRequest, WriteResponse } from './write-context.js'
import type { ObjectLocation } from './object-store.js'
import { type OneVerb, type OwnDecision, Writer, type WriterOptions, type WriteVerb } from './writer.js'
import { MAX_KNOWN_RESOURCES, MAX_LOOP_BODY_BYTES } from '../model/limits.js'

export interface OffLoopWriterOptions extends WriterOptions {
  readonly threads: Pick<ThreadPool, 'run'>
  /** A semaphore with one slot per thread. */
  readonly semaphore: { acquire(identity: string, signal?: AbortSignal): Promise<() => void> }
  readonly deadlineMs: number
  /** Called before a write that takes much memory, with its estimate in bytes. @throws TooManyRequestsError */
  readonly admit: (bytes: number) => void
  /** Called with the seconds that a write took in a thread, or until the thread was terminated. */
  readonly onJob: (seconds: number) => void
}

const MAX_DENSE_BODY_BYTES = 512
/** The most JSON objects in a body that the loop reads. */
const MAX_LOOP_OBJECTS = 200
const OPEN_BRACE = '{'.charCodeAt(0)
/** The largest stored object in bytes that the loop may replace. */
const MAX_HELD_BYTES = 32 * 1024
/**
 * A write that takes more than this needs a place in the memory target, and its thread ends with it, because V8 returns
 * little of a heap that has grown.
 */
const LARGE_BYTES = 32 * 2 ** 20
/** Memory of a body in its thread, for each of its bytes and for each value, as measured. */
const BYTES_PER_BYTE = 8
const BYTES_PER_VALUE = 300
/** 1 for the bytes that begin or separate values in JSON and YAML. Encoded text, such as base64, has none of them. */
const IS_SEPARATOR = new Uint8Array(256)
for (const byte of Buffer.from(',:[{&*!\n', 'latin1')) IS_SEPARATOR[byte] = 1

/** Functions of a request that a thread can call. */
const CALLABLE: ReadonlySet<string> = new Set(['mayCreate', 'mayDelete', 'confirm'])

export class OffLoopWriter {
  readonly #options: OffLoopWriterOptions
  readonly #local: Writer
  /** A writer without the limit on stored objects, for writes that cannot run in a thread. */
  readonly #unbounded: Writer
  readonly #ids = new WeakMap<ServedResource, number>()
  #lastId = 0

  constructor(options: OffLoopWriterOptions) {
    this.#options = options
    this.#unbounded = new Writer(options)
    this.#local = new Writer({ ...options, upstream: onlySmall(options.upstream) })
  }

  /** Whether responses can have a resource's objects in protobuf. Only built-in kinds have it, as in Kubernetes. */
  hasProtobuf({ resource, origin }: ServedResource): boolean {
    if (origin !== 'well-known') return false
    return this.#options.schema.messageOfKind(apiVersion(resource), resource.kind) !== undefined
  }

  /**
   * Like `Writer.ensure`. It runs on the event loop, because the server's own objects are few and small.
   * @throws StatusError
   */
  async ensure(place: ObjectLocation, decide: OwnDecision): Promise<boolean> {
    return await this.#unbounded.ensure(place, decide)
  }

  /** @param identity the caller, for a fair share of the threads. @throws StatusError */
  async perform(
    verb: WriteVerb,
    request: WriteRequest,
    identity: string,
    signal?: AbortSignal,
  ): Promise<WriteResponse> {
    if (verb === 'deletecollection') return await this.#deleteCollection(request, identity, signal)
    if (!canLeave(verb, request)) return await this.#unbounded.perform(verb, request)
    if (isSmall(request)) {
      try {
        return await this.#local.perform(verb, request)
      } catch (error) {
        // Nothing was written, because the stored object was only read.
        if (!(error instanceof StatusError) || !(error.cause instanceof NotSmallError)) throw error
      }
    }
    return await this.#inThread(verb, request, identity, signal)
  }

  /** Lists the collection here and removes each of its larger objects in a thread. */
  async #deleteCollection(request: WriteRequest, identity: string, signal?: AbortSignal): Promise<WriteResponse> {
    requireSmallBody(request, 'DeleteOptions')
    const remove = (name: ObjectName): Promise<SingleResponse> =>
      this.#inThread('remove', { ...request, ...name, asProtobuf: false }, identity, signal)
    const apart = isContainer(request.served) ? {} : { apart: { overBytes: MAX_HELD_BYTES, remove } }
    return await this.#unbounded.perform('deletecollection', { ...request, ...apart })
  }

  /** @throws StatusError */
  async #inThread(
    verb: OneVerb,
    request: WriteRequest,
    identity: string,
    signal?: AbortSignal,
  ): Promise<SingleResponse> {
    const release = await this.#options.semaphore.acquire(identity, signal)
    try {
      return await this.#compute(verb, request)
    } finally {
      release()
    }
  }

  async #compute(verb: OneVerb, request: WriteRequest): Promise<SingleResponse> {
    const { threads, clock, onJob } = this.#options
    let hasWritten = false
    const calls = this.#callsOf(request, () => (hasWritten = true))
    const bytes = estimateOf(request)
    const isLarge = bytes > LARGE_BYTES
    if (isLarge) this.#options.admit(bytes)
    const startedMs = clock.monotonic()
    try {
      const returned = await threads.run({ message: (known) => this.#message(verb, request, known), calls, isLarge })
      return fromResponseMessage(valueOf(returned as Returned<ResponseMessage>))
    } catch (error) {
      throw error instanceof ThreadEndedError ? this.#endedError(error, hasWritten) : error
    } finally {
      onJob((clock.monotonic() - startedMs) / 1_000)
    }
  }

  /** Returns the functions that the thread may call. */
  #callsOf({ served, mayCreate, mayDelete, confirm }: WriteRequest, onWrite: () => void): JobCalls {
    const { upstream, onRetry, onUnusable } = this.#options
    const { containers } = this.#unbounded
    const call =
      <T extends readonly unknown[]>(work: (...values: T) => Promise<unknown>) =>
      (...values: readonly unknown[]) =>
        returnedBy(() => work(...(withBuffers(values) as unknown as T)))
    return {
      read: call((...values: Parameters<typeof upstream.read>) => upstream.read(...values)),
      readKey: call((...values: Parameters<typeof upstream.readKey>) => upstream.readKey(...values)),
      write: call((...values: Parameters<typeof upstream.write>) => {
        onWrite()
        return upstream.write(...values)
      }),
      grantLease: call((...values: Parameters<typeof upstream.grantLease>) => upstream.grantLease(...values)),
      dropLease: call((...values: Parameters<typeof upstream.dropLease>) => upstream.dropLease(...values)),
      mayCreate: call(() => mayCreate()),
      mayDelete: call(() => mayDelete()),
      confirm: call(async (before: string | null, after: string) =>
        confirm?.(before === null ? null : recordFrom(before), recordFrom(after)),
      ),
      assertDefined: call((namespace: string, name: string) => containers.assertDefined({ served, namespace, name })),
      afterChange: call((namespace: string, name: string) => containers.afterChange({ served, namespace, name })),
      afterGone: call((namespace: string, name: string) => containers.afterGone({ served, namespace, name })),
      onRetry: call(() => Promise.resolve(onRetry?.())),
      onUnusable: call((problem: string) => Promise.resolve(onUnusable?.(problem))),
    }
  }

  #message(verb: OneVerb, request: WriteRequest, known: Set<unknown>): WriteMessage {
    const { find, etcdPrefix, maxValueBytes, clock } = this.#options
    const { namespace, name, subresource, query, userAgent, requester = null, contentType, body } = request
    const forgets = known.size >= MAX_KNOWN_RESOURCES
    if (forgets) known.clear()
    const namespaces = find('', 'v1', 'namespaces')
    return {
      verb,
      served: this.#servedMessage(request.served, known),
      namespaces: namespaces === undefined ? null : this.#servedMessage(namespaces, known),
      forgets,
      namespace,
      name,
      subresource,
      query: query.toString(),
      userAgent,
      requester,
      contentType,
      body,
      asProtobuf: request.asProtobuf ?? false,
      confirms: request.confirm !== undefined,
      nowMs: clock.now(),
      etcdPrefix,
      maxValueBytes,
    }
  }

  #servedMessage(served: ServedResource, known: Set<unknown>): ServedMessage {
    const id = getOrMake(this.#ids, served, () => ++this.#lastId)
    if (known.has(id)) return { id, resource: null }
    known.add(id)
    return { id, resource: toShared(served) }
  }

  #endedError({ reason, cause }: ThreadEndedError, hasWritten: boolean): StatusError {
    const outcome = hasWritten ? 'the write may or may not have happened' : 'nothing was written'
    switch (reason) {
      case 'deadline':
        return new TimeoutError(
          `Timeout: the write took more than ${this.#options.deadlineMs} ms to compute: ${outcome}`,
        )
      case 'memory':
        return new RequestEntityTooLargeError(`the write exceeds the memory limit of a write: ${outcome}`)
      case 'closed':
        return new ServiceUnavailableError(`the server is shutting down: ${outcome}`)
      case 'crash':
        return new InternalError('an internal error occurred', { cause })
    }
  }
}

/**
 * Whether a thread can do the write. Objects that contain others are emptied one by one, and an eviction checks the
 * budgets, so both need more than one object and stay here.
 */
function canLeave(verb: OneVerb, request: WriteRequest): boolean {
  const isEviction = request.subresource === EVICTION_NAME
  if (isEviction || (verb === 'delete' && isContainer(request.served))) {
    requireSmallBody(request, isEviction ? 'an Eviction' : 'DeleteOptions')
    return false
  }
  // Threads cannot call functions that are not in `CALLABLE`.
  return Object.entries(request).every(([name, value]) => typeof value !== 'function' || CALLABLE.has(name))
}

/** @throws RequestEntityTooLargeError */
function requireSmallBody({ body, contentType = '' }: WriteRequest, kind: string): void {
  const isDense = /yaml/i.test(contentType)
  const most = isDense ? MAX_DENSE_BODY_BYTES : MAX_LOOP_BODY_BYTES
  if (body.length <= most) return
  throw new RequestEntityTooLargeError(
    `Request entity too large: limit of ${kind}${isDense ? ' in YAML' : ''} is ${most}`,
  )
}

/**
 * Parses JSON for permission checks, which need no lossless tree. Building such a tree here would take several times
 * as long.
 */
function recordFrom(text: string): JsonRecord {
  return JSON.parse(text) as JsonRecord
}

function isSmall({ served, body, contentType = '' }: WriteRequest): boolean {
  if (served.origin === 'custom' || isDefinition(served)) return false
  const isPlain = /^application\/((strategic-)?merge-patch\+)?json *(;|$)/i.test(contentType)
  if (body.length > (isPlain ? MAX_LOOP_BODY_BYTES : MAX_DENSE_BODY_BYTES)) return false
  // The defaults of an object may be many times as large as what was sent.
  if (isPlain) return body.reduce((count, byte) => count + Number(byte === OPEN_BRACE), 0) <= MAX_LOOP_OBJECTS
  // A copy multiplies what is stored. Its name may be escaped.
  return !/json-patch/i.test(contentType) || !/copy|\\/.test(body.toString('latin1'))
}

/** Estimates the memory of a write from its body alone. Other formats than JSON and YAML count as dense. */
function estimateOf({ body, contentType = '' }: WriteRequest): number {
  let values = 0
  if (/json|yaml/i.test(contentType)) for (const byte of body) values += IS_SEPARATOR[byte]!
  else values = body.length / 2
  return body.length * BYTES_PER_BYTE + values * BYTES_PER_VALUE
}

/** Thrown when the stored object is too large for the event loop. */
class NotSmallError extends Error {
  override readonly name = 'NotSmallError'
}

function onlySmall(upstream: WriterOptions['upstream']): WriterOptions['upstream'] {
  const small = <T extends { readonly value: Buffer } | null>(held: T): T => {
    if (held !== null && held.value.length > MAX_HELD_BYTES) throw new NotSmallError(`${held.value.length} bytes`)
    return held
  }
  return {
    read: (request) => upstream.read(request),
    grantLease: (seconds) => upstream.grantLease(seconds),
    dropLease: (leaseId) => upstream.dropLease(leaseId),
    readKey: async (key) => small(await upstream.readKey(key)),
    write: async (compares, operations) => {
      const result = await upstream.write(compares, operations)
      if (result.kind === 'conflict') result.current.forEach(small)
      return result
    },
  }
}
