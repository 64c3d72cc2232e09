/**
 * Copies chosen parts of an object, or all others. Values are copied from the source bytes in document order, never
 * parsed and re-encoded, so equal parts give equal bytes. Comparing two buffers therefore shows that an update changes
 * none of a watcher's fields. The resourceVersion, which every update changes, is not among these bytes; it is inserted
 * afterwards, as into a whole object.
 */
import { KeyTree, nextWalk } from '../../engine/facts/key-tree.js'
import { CLOSE_BRACE, COMMA, endOfString, endOfValue, OPEN_BRACE, QUOTE } from '../../support/json-walk.js'
import type { Spliceable } from './json-scan.js'

/** The paths of members. `whole` means that everything under the key is meant. */
export type Parts = KeyTree<{ whole: boolean }>

export function newParts(): Parts {
  return new KeyTree('', { whole: false })
}

/** Adds a path. */
export function addPart(parts: Parts, segments: readonly string[]): void {
  let node = parts
  for (const segment of segments) node = node.child(segment, () => ({ whole: false }))
  node.data.whole = true
}

const COLON = 0x3a
const NULL = Buffer.from('null')

/** Scratch space for a copy of unknown size. It grows to the largest object seen, which etcd limits. */
let scratch = Buffer.allocUnsafeSlow(65_536)

interface Writing {
  readonly json: Buffer
  readonly walk: number
  readonly isRest: boolean
  at: number
  /**
   * The index in `scratch` just after the brace of the last top-level metadata; -1 if there is none or it is not an
   * object.
   */
  revisionOffset: number
}

/**
 * Returns the named parts of an object, or everything else (`isRest`). Compare two results by their `bytes`, and serve
 * one with `spliceResourceVersion`.
 *
 * Objects along a path of which nothing is left are dropped, except metadata. A path does not lead into lists.
 *
 * @param json as returned by `scanObject`: valid, no white space between tokens, no resourceVersion in its metadata.
 */
export function copyParts(json: Buffer, parts: Parts, isRest: boolean): Spliceable {
  // Twice the length is enough: at worst, a duplicate key's digit becomes null.
  if (scratch.length < 2 * json.length) scratch = Buffer.allocUnsafeSlow(2 * json.length)
  const writing: Writing = { json, walk: nextWalk(), isRest, at: 0, revisionOffset: -1 }
  writeObject(writing, 0, parts, true)
  const bytes = Buffer.allocUnsafeSlow(writing.at)
  scratch.copy(bytes, 0, 0, writing.at)
  return { bytes, revisionOffset: writing.revisionOffset }
}

/** @param start the opening brace. @returns the index after the closing one. Recursion is as deep as the paths. */
function writeObject(writing: Writing, start: number, node: Parts, isTop: boolean): number {
  const { json, isRest } = writing
  scratch[writing.at++] = OPEN_BRACE
  let isFirst = true
  let i = start + 1
  while (i < json.length) {
    const byte = json[i]!
    if (byte === CLOSE_BRACE) {
      i++
      break
    }
    if (byte !== QUOTE) {
      i++
      continue
    }
    const keyStart = i
    const keyEnd = endOfString(json, i)
    const valueStart = keyEnd + 1
    const child = node.find(json, keyStart, keyEnd)
    if (child === null ? !isRest : child.data.whole && isRest) {
      i = endOfValue(json, valueStart)
      continue
    }
    const before = writing.at
    if (!isFirst) scratch[writing.at++] = COMMA
    writing.at += json.copy(scratch, writing.at, keyStart, keyEnd)
    scratch[writing.at++] = COLON
    const isMetadata = isTop && child?.key === 'metadata'
    const isRepeated = child?.seenInWalk === writing.walk
    if (child !== null) child.seenInWalk = writing.walk
    const isObject = json[valueStart] === OPEN_BRACE
    if (isMetadata) writing.revisionOffset = isObject ? writing.at + 1 : -1
    let hasContent = true
    if (child === null || child.data.whole || (isRest && !isObject)) {
      i = endOfValue(json, valueStart)
      writing.at += json.copy(scratch, writing.at, valueStart, i)
    } else if (isObject) {
      const valueAt = writing.at
      i = writeObject(writing, valueStart, child, false)
      hasContent = writing.at > valueAt + 2
    } else {
      // The path does not lead through this value, but as a duplicate key the value still replaces the earlier one.
      i = endOfValue(json, valueStart)
      writing.at += NULL.copy(scratch, writing.at)
      hasContent = false
    }
    if (hasContent || isRepeated || (isMetadata && isObject)) isFirst = false
    else writing.at = before
  }
  scratch[writing.at++] = CLOSE_BRACE
  return i
}
