/**
 * Writes a list in pieces of about 64 KB. It selects the snapshot's objects for the page and encodes them. The search
 * for matches is sliced, so that a selector over many objects does not block the event loop.
 */
import type { Key } from '../../engine/model/event.js'
import type { ObjectState } from '../../engine/model/object-state.js'
import { formatResourceVersion } from '../model/resource-version.js'
import type { StoredObject } from '../../engine/model/stored-object.js'
import { encodeContinueToken, tokenAfter } from './continue-token.js'
import type { ListInPieces, ObjectEncoder } from './encoding/object-encoder.js'
import { LIST_TAIL } from './partial-object.js'
import type { ListMetadata } from '../codec/protobuf/encode.js'
import { Scratch } from '../../support/scratch.js'
import { sortSteps } from '../codec/sort-steps.js'
import { stepsInTurns, turns } from '../../support/turns.js'

export interface ListPage {
  readonly snapshot: ObjectState
  /** The prefix of the resource or of one namespace; it ends in '/'. */
  readonly prefix: Key
  /** The first key of the page, absolute. */
  readonly startKey: Key
  /** null for no limit. */
  readonly limit: number | null
  /** null for no selector. */
  readonly matches: ((object: StoredObject) => boolean) | null
  /** The shard selector to repeat in the metadata; null for none. */
  readonly shard: string | null
  readonly encoder: ObjectEncoder
}

const PIECE_BYTES = 128 * 1024

/** A null piece asks for another turn of the event loop (`support/turns.ts`). */
export function* listPieces(page: ListPage): Generator<Buffer | null, void, void> {
  const { list, place } = page.encoder
  if (page.limit !== null || typeof list === 'function' || place !== undefined) {
    return yield* gatheredPieces(page, page.limit ?? Number.POSITIVE_INFINITY)
  }
  const { snapshot, prefix, startKey, matches, shard } = page
  const metadata = { resourceVersion: formatResourceVersion(snapshot.revision), ...shardInfo(shard) }
  yield* itemPieces(list, metadata, snapshot.objects(prefix, startKey), matches)
}

/** The head states whether more follows, or how long the list is, so collect references to the objects first. */
function* gatheredPieces(page: ListPage, limit: number): Generator<Buffer | null, void, void> {
  const { snapshot, prefix, startKey, matches, shard, encoder } = page
  const objects: StoredObject[] = []
  let hasMore = false
  for (const object of snapshot.objects(prefix, startKey)) {
    if (turns.isOver) yield null
    if (matches !== null && !matches(object)) continue
    if (objects.length === limit) {
      hasMore = true
      break
    }
    objects.push(object)
  }
  const last = objects.at(-1)
  const next = hasMore && last !== undefined ? encodeContinueToken(tokenAfter(prefix, last.key, snapshot.revision)) : ''
  const metadata = {
    resourceVersion: formatResourceVersion(snapshot.revision),
    ...(next === '' ? {} : { continue: next }),
    // With a selector, the number of remaining objects is unknown.
    ...(next === '' || matches !== null
      ? {}
      : { remainingItemCount: (yield* stepsInTurns(snapshot.count(prefix, startKey))) - objects.length }),
    ...shardInfo(shard),
  }
  yield* piecesOf(encoder, metadata, objects)
}

function shardInfo(selector: string | null): Pick<ListMetadata, 'shardInfo'> {
  return selector === null ? {} : { shardInfo: { selector } }
}

/** A null piece asks for another turn of the event loop. */
export function* piecesOf(
  encoder: ObjectEncoder,
  metadata: ListMetadata,
  objects: readonly StoredObject[],
): Generator<Buffer | null, void, void> {
  const { list, place } = encoder
  if (typeof list === 'function') return yield* list(metadata, objects)
  const ordered = place === undefined ? objects : yield* inPlaces(objects, place)
  yield* itemPieces(list, metadata, ordered, null)
}

function* inPlaces(
  objects: readonly StoredObject[],
  placeOf: (object: StoredObject) => number,
): Generator<null, StoredObject[], void> {
  const placed: { readonly object: StoredObject; readonly place: number }[] = []
  for (const object of objects) {
    if (turns.isOver) yield null
    placed.push({ object, place: placeOf(object) })
  }
  const sorted = yield* stepsInTurns(sortSteps(placed, (a, b) => a.place - b.place))
  return sorted.map(({ object }) => object)
}

const COMMA = Buffer.from(',')

function* itemPieces(
  list: ListInPieces,
  metadata: ListMetadata,
  objects: Iterable<StoredObject>,
  matches: ListPage['matches'],
): Generator<Buffer | null, void, void> {
  const pieces = new PieceWriter()
  pieces.add(list.head(metadata))
  let isFirst = true
  for (const object of objects) {
    if (turns.isOver) yield null
    if (matches !== null && !matches(object)) continue
    const item = list.item(object, pieces.scratch)
    if (item === null) continue
    if (!isFirst) pieces.add(COMMA)
    isFirst = false
    pieces.add(item)
    if (pieces.isFull) yield pieces.take()
  }
  pieces.add(LIST_TAIL)
  yield pieces.take()
}

class PieceWriter {
  /** Memory for items that are added before the piece is taken. */
  readonly scratch = new Scratch(PIECE_BYTES)
  #buffers: Buffer[] = []
  #length = 0

  get isFull(): boolean {
    return this.#length >= PIECE_BYTES
  }

  add(bytes: Buffer): void {
    this.#buffers.push(bytes)
    this.#length += bytes.length
  }

  take(): Buffer {
    const piece = Buffer.concat(this.#buffers, this.#length)
    this.#buffers = []
    this.#length = 0
    this.scratch.reset()
    return piece
  }
}
