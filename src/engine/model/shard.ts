/**
 * A shard: the objects for which the hash of one field is in certain ranges. The hash is 64-bit FNV-1a, as in
 * Kubernetes (KEP-5866), stored in two halves because a JavaScript number cannot hold it.
 */

/** A number below 2^64. The end of a range may also be 2^64, whose `high` is 2^32. */
export interface Hash {
  readonly high: number
  readonly low: number
}

/** The hashes from `start` on that are below `end`. */
export interface HashRange {
  readonly start: Hash
  readonly end: Hash
}

/**
 * The hashed field. Each of these two is the same in every version of an object; the identity distinguishes an object from
 * earlier ones with its name.
 */
export type ShardField = 'identity' | 'scope'

export interface Shard {
  readonly field: ShardField
  /** At least one, in ascending order and without overlaps. */
  readonly ranges: readonly HashRange[]
}

const OFFSET_BASIS = { high: 0xcbf29ce4, low: 0x84222325 }
/** The prime of FNV-1a is 2^40 plus this. */
const LOW_PRIME = 0x1b3
const TWO_32 = 2 ** 32

/** Returns the hash of the text's UTF-8. */
export function hashOf(text: string): Hash {
  let { high, low } = OFFSET_BASIS
  for (const byte of Buffer.from(text)) {
    low = (low ^ byte) >>> 0
    // No product exceeds 2^41, so all of this is exact.
    const product = low * LOW_PRIME
    high = (high * LOW_PRIME + Math.floor(product / TWO_32) + ((low << 8) >>> 0)) % TWO_32
    low = product % TWO_32
  }
  return { high, low }
}

/** Returns a negative number if `a` is less than `b`, 0 if they are equal. */
export function compareHashes(a: Hash, b: Hash): number {
  return a.high - b.high || a.low - b.low
}

/** The number of leading bits that are kept with an object. V8 stores this many without an allocation. */
const HEAD_BITS = 31

/** Returns the first bits of a hash. For 2^64, the result is 2^31. */
export function headOf({ high }: Hash): number {
  return Math.floor(high / 2)
}

/** Whether the ranges contain a hash that begins with `head`; null if the bits after it decide. */
export function containHead({ ranges }: Shard, head: number): boolean | null {
  const last = lastBeginning(ranges, (start) => headOf(start) <= head)
  if (last === undefined) return false
  const [start, end] = [headOf(last.start), headOf(last.end)]
  if (head === start || head === end) return null
  return head < end
}

export function containHash({ ranges }: Shard, hash: Hash): boolean {
  const last = lastBeginning(ranges, (start) => compareHashes(start, hash) <= 0)
  return last !== undefined && compareHashes(hash, last.end) < 0
}

/** Returns the last range whose start passes. All starts that pass must come before the others. */
function lastBeginning(ranges: readonly HashRange[], passes: (start: Hash) => boolean): HashRange | undefined {
  let low = 0
  let high = ranges.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (passes(ranges[middle]!.start)) low = middle + 1
    else high = middle
  }
  return ranges[low - 1]
}

/** Sorts ranges and joins those that overlap or touch. */
export function joined(ranges: readonly HashRange[]): readonly HashRange[] {
  const all: HashRange[] = []
  for (const range of ranges.toSorted((a, b) => compareHashes(a.start, b.start))) {
    const last = all.at(-1)
    if (last === undefined || compareHashes(last.end, range.start) < 0) all.push(range)
    else if (compareHashes(last.end, range.end) < 0) all[all.length - 1] = { start: last.start, end: range.end }
  }
  return all
}

/** An inclusive interval of cells, which are equal parts of the hash space. */
export interface Cells {
  readonly first: number
  readonly last: number
}

/**
 * Divides the hash space into 2^bits cells. Returns the cells that the ranges touch, as ascending intervals with gaps
 * between them.
 */
export function cellsOf({ ranges }: Shard, bits: number): readonly Cells[] {
  const all: Cells[] = []
  for (const { start, end } of ranges) {
    const first = cellOfHead(headOf(start), bits)
    // The hash before `end` is in the last cell.
    const last =
      end.low === 0 ? cellOfHead(headOf({ high: end.high - 1, low: 0 }), bits) : cellOfHead(headOf(end), bits)
    const before = all.at(-1)
    if (before !== undefined && first <= before.last + 1) all[all.length - 1] = { first: before.first, last }
    else all.push({ first, last })
  }
  return all
}

/** @param bits at most 31. */
export function cellOfHead(head: number, bits: number): number {
  return head >>> (HEAD_BITS - bits)
}
