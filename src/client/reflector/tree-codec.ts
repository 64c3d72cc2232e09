/**
 * Reads objects as JavaScript trees with `JSON.parse`, for clients. Integers above 2^53 lose precision, but not
 * resourceVersions, because they are text.
 */
import { WatchFailure, type StatusLike } from './watch-failure.js'
import { StringPool } from './string-pool.js'
import {
  type DecodedEvent,
  type DecodedList,
  eventOf,
  INITIAL_EVENTS_END,
  type ObjectCodec,
  objectKey,
} from './object-codec.js'

/** The metadata of any object. */
export interface ObjectMetadata {
  readonly name: string
  readonly namespace?: string
  readonly uid?: string
  readonly resourceVersion?: string
  readonly generation?: number
  readonly creationTimestamp?: string
  readonly deletionTimestamp?: string
  readonly labels?: Readonly<Record<string, string>>
  readonly annotations?: Readonly<Record<string, string>>
  readonly ownerReferences?: readonly {
    readonly apiVersion: string
    readonly kind: string
    readonly name: string
    readonly uid: string
    readonly controller?: boolean
  }[]
  readonly finalizers?: readonly string[]
}

/**
 * The requirements on an object type. The types of `kubernetes-types` and `@kubernetes/client-node` meet them, although
 * their metadata and all of its members are optional.
 */
export interface ObjectLike {
  readonly apiVersion?: string
  readonly kind?: string
  readonly metadata?: {
    readonly name?: string
    readonly namespace?: string
    readonly uid?: string
    readonly resourceVersion?: string
    readonly labels?: Readonly<Record<string, string>>
  }
}

/** Any Kubernetes object as a server sends it. Other members depend on the kind. */
export interface KubeObject {
  readonly apiVersion?: string
  readonly kind?: string
  readonly metadata: ObjectMetadata
}

interface WireList {
  readonly kind?: string
  readonly apiVersion?: string
  readonly metadata?: { readonly resourceVersion?: string; readonly continue?: string }
  readonly items?: (KubeObject & { kind?: string; apiVersion?: string })[] | null
}

export interface TreeCodecOptions {
  /**
   * Whether equal strings in objects share one copy, which saves memory if the objects are kept. It costs a walk over
   * each object.
   */
  readonly sharesStrings?: boolean
}

/** @typeParam T asserted by the caller, who chose the path. Only the metadata of objects is validated. */
export function treeCodec<T extends ObjectLike>(options: TreeCodecOptions = {}): ObjectCodec<T> {
  const pool = options.sharesStrings === true ? new StringPool() : null
  const decoder = new TextDecoder()
  const parse = (bytes: Uint8Array): unknown => {
    try {
      return JSON.parse(decoder.decode(bytes))
    } catch (cause) {
      throw new WatchFailure('malformed', 'not JSON', { cause })
    }
  }
  const keyOf = ({ metadata }: T): string => objectKey(metadata?.namespace, metadata?.name ?? '')
  const decoded = (type: unknown, tree: unknown): DecodedEvent<T> => {
    if (type === 'ERROR') return { type, status: (tree ?? {}) as StatusLike }
    const object = tree as T & KubeObject
    const metadata = object?.metadata as ObjectMetadata | undefined
    const key = objectKey(metadata?.namespace, metadata?.name ?? '')
    const resourceVersion = typeof metadata?.resourceVersion === 'string' ? metadata.resourceVersion : ''
    const endsInitialEvents = metadata?.annotations?.[INITIAL_EVENTS_END] === 'true'
    const event = eventOf<T>(String(type), { object, key, resourceVersion }, endsInitialEvents)
    if (event.type !== 'BOOKMARK') pool?.share(object)
    return event
  }
  return {
    keyOf,
    decodeEvent(line) {
      const event = parse(line) as { type?: unknown; object?: unknown } | null
      return decoded(event?.type, event?.object)
    },
    decodeEvents(lines) {
      // JSON contains line feeds only between tokens. One call for many objects costs half as much as one call per
      // object.
      const ends = exchange(lines, LINE_FEED, COMMA)
      try {
        const events = JSON.parse(`[${decoder.decode(lines)}]`) as ({ type?: unknown; object?: unknown } | null)[]
        return events.map((event) => decoded(event?.type, event?.object))
      } catch {
        for (const end of ends) lines[end] = LINE_FEED
        return null
      }
    },
    decodeObject: (type, object) => decoded(type, parse(object)),
    decodeList(body): DecodedList<T> {
      const list = parse(body) as WireList | null
      const resourceVersion = list?.metadata?.resourceVersion
      if (typeof resourceVersion !== 'string') throw new WatchFailure('malformed', 'a list without a resourceVersion')
      const items = list?.items ?? []
      // Events have these members and list items lack them, but the stored object must not depend on its source.
      const kind = list?.kind?.endsWith('List') === true ? list.kind.slice(0, -'List'.length) : undefined
      for (const item of items) {
        if (kind !== undefined) item.kind ??= kind
        if (list?.apiVersion !== undefined) item.apiVersion ??= list.apiVersion
        pool?.share(item)
      }
      return { resourceVersion, continueToken: list?.metadata?.continue ?? '', items: items as unknown as T[] }
    },
  }
}

const LINE_FEED = 0x0a
const COMMA = 0x2c

/** Replaces every occurrence of one byte by another. @returns the positions. */
function exchange(bytes: Uint8Array, from: number, to: number): number[] {
  const places: number[] = []
  for (let at = bytes.indexOf(from); at !== -1; at = bytes.indexOf(from, at + 1)) {
    bytes[at] = to
    places.push(at)
  }
  return places
}
