/**
 * Answers a transaction of nothing but ranges from one state of a cache, as etcd would: its compares choose a branch,
 * and all ranges of that branch are read from the same state.
 *
 * etcd answers those that name past revisions, contain transactions, or read more than is worth holding up others for.
 *
 * Source: etcd server/etcdserver/txn/txn.go.
 */
import { MAX_CACHED_TXN_KEYS, MAX_CACHED_TXN_OPERATIONS } from './limits.js'
import { BinaryWriter, type BinaryReader, WireType } from '@bufbuild/protobuf/wire'
import type { Key } from '../engine/model/event.js'
import type { StoredObject } from '../engine/model/stored-object.js'
import { type KeyRange, keyRange } from './key-range.js'
import { type LargeSlot, rangeBody, type RangeState, type ResponseBody, selectRange } from './range-reader.js'
import { decode, decodeRange, keyIn, NO_OPTIONS, type RangeRequest } from './requests.js'
import { field, lengthOf, rawValue } from './responses.js'

export interface ReadTransaction {
  readonly compares: readonly Compare[]
  readonly success: readonly RangeRequest[]
  readonly failure: readonly RangeRequest[]
}

interface Compare {
  readonly range: KeyRange
  readonly result: number
  readonly target: number
  readonly operand: bigint | Uint8Array
}

const RESULT = { equal: 0, greater: 1, less: 2, notEqual: 3 } as const
const VALUE = 3
/** The operand of a target has this number more than the target itself. */
const OPERANDS = 4

/** What etcd compares by each target but the value; undefined for a key that does not exist. */
const NUMBERS: Readonly<Record<number, (object: StoredObject | undefined) => bigint>> = {
  0: (object) => BigInt(object?.version ?? 0),
  1: (object) => BigInt(object?.createRevision ?? 0),
  2: (object) => BigInt(object?.modRevision ?? 0),
  4: (object) => BigInt(object?.leaseId ?? 0),
}

/** Returns null for a transaction that etcd must answer. @param request has been visited, so it can be read. */
export function decodeReadTransaction(request: Uint8Array): ReadTransaction | null {
  const compares: (Compare | null)[] = []
  const success: (RangeRequest | null)[] = []
  const failure: (RangeRequest | null)[] = []
  decode(request, {
    lengths: {
      1: (reader) => compares.push(decodeCompare(reader.bytes())),
      2: (reader) => success.push(decodeOperation(reader.bytes())),
      3: (reader) => failure.push(decodeOperation(reader.bytes())),
    },
  })
  const isComplete = <T>(list: (T | null)[]): list is T[] =>
    list.length <= MAX_CACHED_TXN_OPERATIONS && list.every((one) => one !== null)
  if (!isComplete(compares) || !isComplete(success) || !isComplete(failure)) return null
  return { compares, success, failure }
}

export function rangesOf({ compares, success, failure }: ReadTransaction): readonly KeyRange[] {
  return [...compares, ...success, ...failure].map(({ range }) => range)
}

/** As in etcd, one linearizable range makes the whole transaction linearizable. */
export function isSerializable({ success, failure }: ReadTransaction): boolean {
  return [...success, ...failure].every(({ serializable }) => serializable)
}

function decodeOperation(bytes: Uint8Array): RangeRequest | null {
  let range = null as RangeRequest | null
  decode(bytes, { lengths: { 1: (reader) => (range = decodeRange(reader.bytes())) } })
  return range === null || range.revision !== 0 ? null : range
}

function decodeCompare(bytes: Uint8Array): Compare | null {
  let key = '' as Key
  let rangeEnd = '' as Key
  let result = 0
  let target = 0
  let operand = null as Pick<Compare, 'target' | 'operand'> | null
  const number = (of: number) => (reader: BinaryReader) => {
    operand = { target: of, operand: BigInt(reader.int64()) }
  }
  decode(bytes, {
    lengths: {
      3: (reader) => (key = keyIn(reader)),
      [OPERANDS + VALUE]: (reader) => (operand = { target: VALUE, operand: reader.bytes() }),
      64: (reader) => (rangeEnd = keyIn(reader)),
    },
    varints: {
      1: (reader) => (result = reader.int32()),
      2: (reader) => (target = reader.int32()),
      ...Object.fromEntries(Object.keys(NUMBERS).map((of) => [OPERANDS + Number(of), number(Number(of))])),
    },
  })
  const isKnown = target === VALUE || NUMBERS[target] !== undefined
  if (!isKnown || !Object.values<number>(RESULT).includes(result) || (operand ?? { target }).target !== target)
    return null
  const none = target === VALUE ? new Uint8Array(0) : 0n
  return { range: keyRange(key, rangeEnd), result, target, operand: operand?.operand ?? none }
}

export interface AnswerOptions {
  /** Has all keys of all ranges. */
  readonly prefix: Key
  /** As for `rangeBody`. */
  readonly showsLeases: boolean
  readonly slot: LargeSlot
}

/** Returns the fields of a TxnResponse after its header; null if it reads so many keys that etcd must answer. */
export async function answerReads(
  transaction: ReadTransaction,
  { snapshot, revision }: RangeState,
  { prefix, showsLeases, slot }: AnswerOptions,
): Promise<ResponseBody | null> {
  let keys = 0
  const select = async (request: RangeRequest): ReturnType<typeof selectRange> => {
    const result = await selectRange(snapshot, prefix, request)
    if (!request.countOnly) keys += result?.count ?? 0
    return keys > MAX_CACHED_TXN_KEYS ? null : result
  }
  let succeeded = true
  for (const compare of transaction.compares) {
    const found = await select({ ...NO_OPTIONS, range: compare.range })
    if (found === null) return null
    if (!holds(compare, found.objects)) {
      succeeded = false
      break
    }
  }
  const parts: Uint8Array[] = []
  let shown = 0
  if (succeeded) parts.push(new BinaryWriter().tag(2, WireType.Varint).bool(true).finish())
  // etcd gives these ranges a header too, which has nothing but the revision.
  const header = field(1, [new BinaryWriter().tag(3, WireType.Varint).int64(revision).finish()])
  for (const request of succeeded ? transaction.success : transaction.failure) {
    const result = await select(request)
    if (result === null) return null
    shown += result.objects.length
    await slot.forKeys(shown)
    const body = await rangeBody(result, request, showsLeases)
    parts.push(...field(3, field(1, [...header, ...body.parts])))
  }
  return { parts, bytes: lengthOf(parts) }
}

/** A comparison of values never holds for a key that does not exist; all others see zeros there. */
function holds(compare: Compare, objects: readonly StoredObject[]): boolean {
  if (objects.length === 0) return compare.target !== VALUE && hasResult(compare, undefined)
  return objects.every((object) => hasResult(compare, object))
}

function hasResult({ result, target, operand }: Compare, object: StoredObject | undefined): boolean {
  const order =
    typeof operand === 'bigint'
      ? compareNumbers(NUMBERS[target]!(object), operand)
      : Buffer.compare(rawValue(object!), operand)
  if (result === RESULT.equal) return order === 0
  if (result === RESULT.notEqual) return order !== 0
  return result === RESULT.greater ? order > 0 : order < 0
}

function compareNumbers(a: bigint, b: bigint): number {
  return a < b ? -1 : a > b ? 1 : 0
}
