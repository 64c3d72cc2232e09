/**
 * The messages between a process and the threads that compute its writes: plain values, which a structured clone
 * preserves.
 */
import type { Requester } from './kind-rules.js'
import type { SharedResource } from '../dialect/shared-resource.js'
import { InternalError, RelayedStatusError, type Status } from '../model/status.js'
import { statusOf } from '../model/status-of.js'
import { LooseObject, type StoredObject } from '../../engine/model/stored-object.js'
import { UpstreamError, type UpstreamErrorCode } from '../../engine/upstream/upstream.js'
import type { SingleResponse } from './write-context.js'
import type { OneVerb } from './writer.js'
import { bufferOf } from '../../support/buffer-of.js'

/** A served resource by number. The first job of a thread that needs the resource includes it. */
export interface ServedMessage {
  readonly id: number
  readonly resource: SharedResource | null
}

export interface WriteMessage {
  readonly verb: OneVerb
  readonly served: ServedMessage
  /** The Namespace resource, if it is served. */
  readonly namespaces: ServedMessage | null
  /** Whether to forget the resources from earlier jobs. */
  readonly forgets: boolean
  readonly namespace: string
  readonly name: string
  readonly subresource: string
  readonly query: string
  readonly userAgent: string
  readonly requester: Requester | null
  readonly contentType: string | undefined
  readonly body: Uint8Array
  readonly asProtobuf: boolean
  /** Whether to call `confirm` before an object is put. */
  readonly confirms: boolean
  readonly nowMs: number
  readonly etcdPrefix: string
  readonly maxValueBytes: number
}

export type ErrorMessage =
  | {
      readonly kind: 'status'
      readonly status: Status
      readonly warnings: readonly string[]
      readonly cause: string | null
    }
  | { readonly kind: 'upstream'; readonly code: UpstreamErrorCode; readonly message: string }

export type Returned<T> =
  | { readonly kind: 'value'; readonly value: T }
  | { readonly kind: 'error'; readonly error: ErrorMessage }

/** Returns the result of the work. An error is also returned, so this never rejects. */
export async function returnedBy<T>(work: () => Promise<T>): Promise<Returned<T>> {
  try {
    return { kind: 'value', value: await work() }
  } catch (error) {
    return { kind: 'error', error: errorMessage(error) }
  }
}

/** @throws the returned error. */
export function valueOf<T>(returned: Returned<T>): T {
  if (returned.kind === 'value') return returned.value
  const { error } = returned
  if (error.kind === 'upstream') throw new UpstreamError(error.code, error.message)
  const relayed = new RelayedStatusError(error.status, error.cause === null ? {} : { cause: new Error(error.cause) })
  relayed.warnings = error.warnings
  throw relayed
}

function errorMessage(error: unknown): ErrorMessage {
  if (error instanceof UpstreamError) return { kind: 'upstream', code: error.code, message: error.message }
  const status = statusOf(error)
  const isOurs = status instanceof InternalError
  const cause = status.cause instanceof Error ? (status.cause.stack ?? status.cause.message) : null
  return { kind: 'status', status: status.toStatus(), warnings: status.warnings, cause: isOurs ? cause : null }
}

/** Converts byte arrays to Buffers. A structured clone returns plain arrays, but all other code expects Buffers. */
export function withBuffers<T>(value: T): T
export function withBuffers(value: unknown): unknown {
  if (value instanceof Uint8Array) return bufferOf(value)
  if (Array.isArray(value)) return value.map((item) => withBuffers(item as unknown))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, withBuffers(inner as unknown)]))
}

/** A stored object without its accessors, because a structured clone copies only fields. */
type StoredMessage = Omit<StoredObject, 'size' | 'notes' | 'wholeChecksum'>

type ObjectResponse = Extract<SingleResponse, { kind: 'object' }>

/** A response in the form in which a thread sends it. */
export type ResponseMessage =
  | Exclude<SingleResponse, ObjectResponse>
  | (Omit<ObjectResponse, 'stored'> & { readonly stored: StoredMessage })

export function toResponseMessage(response: SingleResponse): ResponseMessage {
  if (response.kind !== 'object') return response
  const { key, scope, name, createRevision, modRevision, version, leaseId, encoding, schemaVersion, typeName } =
    response.stored
  const { bytes, revisionOffset } = response.stored
  const revisions = { createRevision, modRevision, version, leaseId }
  const stored = { key, scope, name, ...revisions, encoding, schemaVersion, typeName, bytes, revisionOffset }
  return { ...response, stored }
}

export function fromResponseMessage(message: ResponseMessage): SingleResponse {
  const response = withBuffers(message)
  if (response.kind !== 'object') return response
  return { ...response, stored: new LooseObject(response.stored) }
}
