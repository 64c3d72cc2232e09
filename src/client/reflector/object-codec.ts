/**
 * An object as the reflector sees it, with a key and a resourceVersion. The codec decides whether the object is a tree
 * of JavaScript objects or the received bytes. `tree-codec.ts` is for clients, and `bytes-codec.ts` is for a server
 * that passes objects on.
 */
import { errorMessage } from '../../support/error-message.js'
import { type StatusLike, WatchFailure } from './watch-failure.js'

/** The types of events with an object of the resource, listed once for all clients. */
export const CHANGE_TYPES = ['ADDED', 'MODIFIED', 'DELETED'] as const

/** The kind of change. */
export type ChangeType = (typeof CHANGE_TYPES)[number]

export function isChangeType(type: unknown): type is ChangeType {
  return (CHANGE_TYPES as readonly unknown[]).includes(type)
}

/** One change of one object. */
export interface Change<T> {
  readonly type: ChangeType
  readonly object: T
  /** `namespace/name`, or `name` without a namespace. */
  readonly key: string
  /** Opaque text that is only compared for equality. */
  readonly resourceVersion: string
}

/** Everything up to this resourceVersion has been sent. */
export interface Bookmark {
  readonly type: 'BOOKMARK'
  readonly resourceVersion: string
  readonly endsInitialEvents: boolean
}

export interface ErrorEvent {
  readonly type: 'ERROR'
  readonly status: StatusLike
}

/** One event of a watch, decoded. */
export type DecodedEvent<T> = Change<T> | Bookmark | ErrorEvent

/** One page of a list, decoded. */
export interface DecodedList<T> {
  readonly resourceVersion: string
  /** '' on the last page. */
  readonly continueToken: string
  /** The number of items after this page; absent if the server does not say. */
  readonly remainingItemCount?: number
  readonly items: T[]
}

/** Decodes objects from bytes, and decides how the program represents them. */
export interface ObjectCodec<T> {
  /**
   * The Accept header of lists and watches, if it differs from the format's own media type, as for a projection such as
   * a Table.
   */
  readonly accept?: string
  /** Decodes a watch event in a line of JSON: `{"type":…,"object":…}`. @throws WatchFailure 'malformed' */
  decodeEvent(line: Uint8Array): DecodedEvent<T>
  /**
   * Decodes several events at once, where that costs less. `lines` contains whole lines, the last without its line
   * feed, and the codec may change these bytes. To have the events decoded one by one instead, so that the events
   * before a malformed one are not lost, it restores the bytes and returns null.
   */
  decodeEvents?(lines: Uint8Array): readonly DecodedEvent<T>[] | null
  /** Decodes an SSE message, where the type is separate from the object. @throws WatchFailure 'malformed' */
  decodeObject(type: string, object: Uint8Array): DecodedEvent<T>
  /** @throws WatchFailure 'malformed' */
  decodeList(body: Uint8Array): DecodedList<T>
  keyOf(object: T): string
}

/** @throws WatchFailure 'malformed' */
export function eventOf<T>(
  type: string,
  { object, key, resourceVersion }: Omit<Change<T>, 'type'>,
  endsInitialEvents: boolean,
): Change<T> | Bookmark {
  if (resourceVersion === '') throw new WatchFailure('malformed', `an event of type ${type} without a resourceVersion`)
  if (type === 'BOOKMARK') return { type, resourceVersion, endsInitialEvents }
  if (isChangeType(type)) return { type, object, key, resourceVersion }
  throw new WatchFailure('malformed', `an event of unknown type ${type}`)
}

/** @throws WatchFailure 'malformed' for any error. */
export function orMalformed<R>(what: string, decode: () => R): R {
  try {
    return decode()
  } catch (error) {
    if (error instanceof WatchFailure) throw error
    throw new WatchFailure('malformed', `${what}: ${errorMessage(error)}`, { cause: error })
  }
}

/** The annotation of the bookmark that ends the initial events. Source: Kubernetes API concepts, "streaming lists". */
export const INITIAL_EVENTS_END = 'k8s.io/initial-events-end'

export function objectKey(namespace: string | undefined, name: string): string {
  // Not a template literal: V8 would create a concatenated string, which is not flattened when it becomes the key of a
  // Map, and costs 32 bytes more per object.
  return namespace === undefined || namespace === '' ? name : [namespace, name].join('/')
}
