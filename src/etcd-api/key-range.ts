/** A range of keys, as requests name it: one key, all keys from one on, or those up to an end. */
import { type Key, prefixEnd } from '../engine/model/event.js'

export interface KeyRange {
  readonly start: Key
  /** Exclusive; null when the range has no end. */
  readonly end: Key | null
  /** Whether the range has room for one key only. */
  readonly isOne: boolean
}

/** Returns the next key, in the order of bytes. */
function after(key: Key): Key {
  return `${key}\0` as Key
}

/** @param rangeEnd as in a request: '' for one key, a zero byte for all keys from `key` on. */
export function keyRange(key: Key, rangeEnd: Key): KeyRange {
  if (rangeEnd === '') return { start: key, end: after(key), isOne: true }
  if (rangeEnd === '\0') return { start: key, end: null, isOne: false }
  return { start: key, end: rangeEnd, isOne: rangeEnd === after(key) }
}

export function isEmptyRange({ start, end }: KeyRange): boolean {
  return end !== null && start >= end
}

export function contains({ start, end }: KeyRange, key: Key): boolean {
  return key >= start && (end === null || key < end)
}

/** Whether every key of the range has the prefix. An empty range has no keys outside it. */
export function isWithin({ start, end }: KeyRange, prefix: Key): boolean {
  const last = prefixEnd(prefix)
  return start.startsWith(prefix) && (last === '\0' || (end !== null && end <= last))
}

export function overlaps({ start, end }: KeyRange, prefix: Key): boolean {
  const last = prefixEnd(prefix)
  return (end === null || end > prefix) && (last === '\0' || start < last)
}

/**
 * Returns the longest prefix that all keys of the range have; '' if they have none in common. It is needed before the
 * caller is known, so a long key must not take long: every shorter prefix is common too, so a binary search finds it.
 */
export function commonPrefix(range: KeyRange): Key {
  let length = 0
  let most = range.start.length
  while (length < most) {
    const middle = (length + most + 1) >>> 1
    if (isWithin(range, range.start.slice(0, middle) as Key)) length = middle
    else most = middle - 1
  }
  return range.start.slice(0, length) as Key
}

/** Whether the range has all keys with some prefix, and no others. */
export function isPrefixRange(range: KeyRange): boolean {
  return range.end !== null && prefixEnd(range.start) === range.end
}
