/**
 * Reads lists and watches as rows of a server-side table (`as=Table`). A server without tables sends the objects
 * themselves, and this codec makes a table of their names and ages.
 */
import { equalTrees, type Json, parseJsonTree } from '../../kubernetes/codec/json-tree.js'
import { type StatusLike, WatchFailure } from '../../client/reflector/watch-failure.js'
import { ageOf } from '../../support/human-duration.js'
import { INITIAL_EVENTS_END, isChangeType, type ObjectCodec, objectKey } from '../../client/reflector/object-codec.js'
import { bufferOf } from '../../support/buffer-of.js'

export interface Column {
  readonly name: string
  /** Columns of priority 0 are always shown, and the others only in the wide form. */
  readonly priority: number
}

export interface Row {
  readonly columns: readonly Column[]
  readonly cells: readonly unknown[]
  readonly namespace: string
  readonly name: string
  readonly resourceVersion: string
  readonly metadata: Metadata
}

interface Metadata {
  readonly name?: string
  readonly namespace?: string
  readonly resourceVersion?: string
  readonly continue?: string
  readonly creationTimestamp?: string
  readonly annotations?: Readonly<Record<string, string>>
}

interface TableOrObject {
  readonly kind?: string
  readonly metadata?: Metadata
  readonly columnDefinitions?: readonly Column[] | null
  readonly rows?:
    | readonly { readonly cells: readonly unknown[]; readonly object?: { readonly metadata?: Metadata } }[]
    | null
  readonly items?: readonly TableOrObject[] | null
}

const PLAIN_COLUMNS: readonly Column[] = [
  { name: 'Name', priority: 0 },
  { name: 'Age', priority: 0 },
]

/**
 * Creates a codec for one stream. A codec serves only one, because only the first event of a stream contains the
 * columns.
 */
export function tableCodec(): ObjectCodec<Row> {
  let columns: readonly Column[] = []
  const rowsOf = (document: TableOrObject): Row[] => {
    if (document.kind !== 'Table') return [plainRow(document)]
    if (document.columnDefinitions !== undefined && document.columnDefinitions !== null)
      columns = document.columnDefinitions
    return (document.rows ?? []).map(({ cells, object }) => rowAt(columns, cells, object))
  }
  const keyOf = ({ namespace, name }: Row): string => objectKey(namespace, name)
  const parse = (bytes: Uint8Array): unknown => {
    try {
      return parseCells(bytes)
    } catch (cause) {
      throw new WatchFailure('malformed', 'not JSON', { cause })
    }
  }
  const eventOf = (type: unknown, object: TableOrObject): ReturnType<ObjectCodec<Row>['decodeEvent']> => {
    if (type === 'ERROR') return { type, status: object as StatusLike }
    if (type === 'BOOKMARK') {
      const metadata = object.rows?.[0]?.object?.metadata ?? object.metadata
      return {
        type,
        resourceVersion: metadata?.resourceVersion ?? '',
        endsInitialEvents: metadata?.annotations?.[INITIAL_EVENTS_END] === 'true',
      }
    }
    const [row] = rowsOf(object)
    if (row === undefined || !isChangeType(type)) {
      throw new WatchFailure('malformed', `an event of type ${String(type)} without a row`)
    }
    return { type, object: row, key: keyOf(row), resourceVersion: row.resourceVersion }
  }
  return {
    accept: 'application/json;as=Table;v=v1;g=meta.k8s.io,application/json',
    keyOf,
    decodeEvent(line) {
      const { type, object } = parse(line) as { type?: unknown; object?: TableOrObject }
      return eventOf(type, object ?? {})
    },
    decodeObject: (type, object) => eventOf(type, parse(object) as TableOrObject),
    decodeList(body) {
      const list = parse(body) as TableOrObject
      const { resourceVersion, continue: continueToken = '' } = list.metadata ?? {}
      if (resourceVersion === undefined) throw new WatchFailure('malformed', 'a list without a resourceVersion')
      const items = list.kind === 'Table' ? rowsOf(list) : (list.items ?? []).map(plainRow)
      return { resourceVersion, continueToken, items }
    },
  }
}

/** Returns the rows of a single object, or of a response from a server without tables. */
export function rowsOfBody(body: Uint8Array): readonly Row[] {
  const codec = tableCodec()
  const object = parseCells(body) as TableOrObject
  if (object.kind === 'Table' || object.items !== undefined) return codec.decodeList(body).items
  return [plainRow(object)]
}

/**
 * Whether both are the same version of the same object. Comparing resourceVersions is not enough, because a restored
 * etcd reuses revisions for different contents.
 */
export function isSameRow(a: Row, b: Row): boolean {
  return equalTrees(contentOf(a), contentOf(b))
}

/**
 * Returns a row's content without ages, because ages grow by themselves. In a row with a creation time, any cell may
 * contain an age, such as the one for a pod's restarts.
 */
function contentOf({ metadata, cells }: Row): Json {
  const shown = cells as Json[]
  const withoutAges =
    metadata.creationTimestamp === undefined
      ? shown
      : shown.map((cell) => (typeof cell === 'string' ? cell.replaceAll(/\b(\d+[ydhms])+\b/g, '') : cell))
  return [metadata as Json, withoutAges]
}

/**
 * Parses rows. A tree that keeps every digit is slower to build, so it is used only if a number is so long that it
 * could be rounded.
 */
function parseCells(body: Uint8Array): unknown {
  const bytes = bufferOf(body)
  const text = bytes.toString('utf8')
  return /\d{16}/.test(text) ? parseJsonTree(bytes).value : (JSON.parse(text) as Json)
}

function rowAt(columns: readonly Column[], cells: readonly unknown[], object: TableOrObject = {}): Row {
  const { metadata = {} } = object
  const { namespace = '', name = '', resourceVersion = '' } = metadata
  return { columns, cells, namespace, name, resourceVersion, metadata }
}

function plainRow(object: TableOrObject): Row {
  const { name, creationTimestamp } = object.metadata ?? {}
  return rowAt(PLAIN_COLUMNS, [name, ageOf(creationTimestamp, Date.now())], object)
}
