/**
 * What an object is to the reflector: something with a key and a resourceVersion. Whether it is a tree of JavaScript
 * objects or the bytes as they came is the codec's business: `tree-codec.ts` for clients, `bytes-codec.ts` for a server
 * that only hands them on.
 */
import type { StatusLike } from './failure.js'

export type ChangeType = 'ADDED' | 'MODIFIED' | 'DELETED'

export interface Change<T> {
  readonly type: ChangeType
  readonly object: T
  /** `namespace/name`, or `name` where there are no namespaces. */
  readonly key: string
  /** Opaque: only ever compared for equality. */
  readonly resourceVersion: string
}

export interface Bookmark {
  readonly type: 'BOOKMARK'
  readonly resourceVersion: string
  readonly endsInitialEvents: boolean
}

export interface ErrorEvent {
  readonly type: 'ERROR'
  readonly status: StatusLike
}

export type DecodedEvent<T> = Change<T> | Bookmark | ErrorEvent

export interface DecodedList<T> {
  readonly resourceVersion: string
  /** '' on the last page. */
  readonly continueToken: string
  /** Beyond this page; left out where the server does not say. */
  readonly remainingItemCount?: number
  readonly items: T[]
}

export interface ObjectCodec<T> {
  /** What to ask for in lists and watches, where that is not the wire's own media type: a projection, such as a Table. */
  readonly accept?: string
  /** A watch event as a line of JSON: `{"type":…,"object":…}`. @throws WatchFailure 'malformed' */
  decodeEvent(line: Uint8Array): DecodedEvent<T>
  /**
   * Several of them at once, where that costs less: whole lines, the last without its end. null: one by one, please, so
   * that what comes before a bad one is still decoded.
   */
  decodeEvents?(lines: Uint8Array): readonly DecodedEvent<T>[] | null
  /** The same from an SSE message, where the type stands apart. @throws WatchFailure 'malformed' */
  decodeObject(type: string, object: Uint8Array): DecodedEvent<T>
  /** @throws WatchFailure 'malformed' */
  decodeList(body: Uint8Array): DecodedList<T>
  keyOf(object: T): string
}

/** Set on the bookmark that ends the initial events. Source: Kubernetes API concepts, "streaming lists". */
export const INITIAL_EVENTS_END = 'k8s.io/initial-events-end'

export function objectKey(namespace: string | undefined, name: string): string {
  // Not a template: what V8 makes of one is a pair of texts that stays a pair as the key of a Map, 32 bytes for each object.
  return namespace === undefined || namespace === '' ? name : [namespace, name].join('/')
}
