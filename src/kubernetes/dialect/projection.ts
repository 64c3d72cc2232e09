/**
 * `fields=metadata.name,spec.nodeName,status.phase` reduces each object to the chosen parts. The members by which
 * clients identify objects (apiVersion, kind, metadata.name, metadata.namespace) are always included.
 *
 * Values are copied from the source bytes in document order, never parsed and re-encoded, so equal parts give equal
 * bytes. Comparing two buffers therefore shows that an update changes none of a watcher's fields. The
 * resourceVersion, which every update changes, is not among these bytes; it is inserted afterwards, as into a whole
 * object.
 */
import { formatFieldPath, parseFieldPath } from '../../engine/facts/field-path.js'
import { endOfString, endOfValue } from '../../support/json-walk.js'
import type { Spliceable } from '../codec/json-scan.js'
import { KeyTree, nextWalk } from '../../engine/facts/key-tree.js'
import { BadRequestError } from '../../engine/model/status.js'

/** Far more fields than anyone writes by hand. Each costs a comparison for every key along its path. */
const MAX_FIELDS = 64
const MAX_FIELDS_LENGTH = 4_096

/** `whole` means that everything under the key is included. */
interface Chosen {
  whole: boolean
}

export interface Projection {
  /**
   * Sorted, without fields that are always included or are under another path, so that equal choices have equal text.
   */
  readonly canonical: string
  /** @internal */
  readonly root: KeyTree<Chosen>
}

const ALWAYS: readonly (readonly string[])[] = [
  ['apiVersion'],
  ['kind'],
  ['metadata', 'name'],
  ['metadata', 'namespace'],
]

/**
 * Parses paths as in field selectors, joined by commas. A path may lead to an object or a list, which is then included
 * as a whole. A comma in a key is written `\,`.
 *
 * @throws BadRequestError naming the invalid path.
 */
export function parseProjection(text: string): Projection {
  if (text.length > MAX_FIELDS_LENGTH) {
    throw new BadRequestError(`fields is ${text.length} characters long, at most ${MAX_FIELDS_LENGTH} are allowed`)
  }
  const parts = splitAtCommas(text)
  if (parts.length > MAX_FIELDS)
    throw new BadRequestError(`fields names ${parts.length} paths, at most ${MAX_FIELDS} are allowed`)
  const root = newTree()
  for (const part of parts) {
    const segments = parseFieldPath(part)
    if (segments === null) throw new BadRequestError(`fields: ${JSON.stringify(part.slice(0, 64))} is not a path`)
    choose(root, segments)
  }
  const canonical = chosenPaths(root, []).toSorted().join(',')
  for (const segments of ALWAYS) choose(root, segments)
  return { canonical, root }
}

function newTree(): KeyTree<Chosen> {
  return new KeyTree<Chosen>('', { whole: false })
}

function choose(root: KeyTree<Chosen>, segments: readonly string[]): void {
  let node = root
  for (const segment of segments) node = node.child(segment, () => ({ whole: false }))
  node.data.whole = true
}

/** Returns the chosen paths without those that add nothing: paths under a wholly chosen key, or always included. */
function chosenPaths(node: KeyTree<Chosen>, path: readonly string[]): string[] {
  if (node.data.whole) {
    const isAlways = ALWAYS.some((always) => always.length === path.length && always.every((key, i) => key === path[i]))
    return isAlways ? [] : [formatFieldPath(path).replaceAll(',', '\\,')]
  }
  return node.children.flatMap((child) => chosenPaths(child, [...path, child.key]))
}

/** Splits at unescaped commas. Other escapes are left to the path parser. */
function splitAtCommas(text: string): string[] {
  const parts: string[] = []
  let part = ''
  for (let i = 0; i < text.length; i++) {
    const char = text[i]!
    if (char === ',') {
      parts.push(part)
      part = ''
    } else if (char === '\\' && text[i + 1] === ',') {
      part += ','
      i++
    } else if (char === '\\') {
      part += char + (text[i + 1] ?? '')
      i++
    } else {
      part += char
    }
  }
  parts.push(part)
  return parts
}

const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d
const QUOTE = 0x22
const COMMA = 0x2c
const COLON = 0x3a
const NULL = Buffer.from('null')

/** Scratch space for a copy of unknown size. It grows to the largest object seen, which etcd limits. */
let scratch = Buffer.allocUnsafeSlow(65_536)

interface Writing {
  readonly json: Buffer
  readonly walk: number
  at: number
  /**
   * The index in `scratch` just after the brace of the last top-level metadata; -1 if there is none or it is not an
   * object.
   */
  metadataOffset: number
}

/**
 * Returns the chosen parts of an object. Compare two results by their `bytes`, and serve one with
 * `spliceResourceVersion`.
 *
 * Objects along a path that have no chosen part are dropped, except metadata. A path does not lead into lists.
 *
 * @param json as returned by `scanObject`: valid, no white space between tokens, no resourceVersion in its metadata.
 */
export function project(json: Buffer, projection: Projection): Spliceable {
  // Twice the length is enough: at worst, a duplicate key's digit becomes null.
  if (scratch.length < 2 * json.length) scratch = Buffer.allocUnsafeSlow(2 * json.length)
  const writing: Writing = { json, walk: nextWalk(), at: 0, metadataOffset: -1 }
  writeObject(writing, 0, projection.root, true)
  const bytes = Buffer.allocUnsafeSlow(writing.at)
  scratch.copy(bytes, 0, 0, writing.at)
  return { bytes, metadataOffset: writing.metadataOffset }
}

/** @param start the opening brace. @returns the index after the closing one. Recursion is as deep as the paths. */
function writeObject(writing: Writing, start: number, node: KeyTree<Chosen>, isTop: boolean): number {
  const { json } = writing
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
    if (child === null) {
      i = endOfValue(json, valueStart)
      continue
    }
    const before = writing.at
    if (!isFirst) scratch[writing.at++] = COMMA
    writing.at += json.copy(scratch, writing.at, keyStart, keyEnd)
    scratch[writing.at++] = COLON
    const isMetadata = isTop && child.key === 'metadata'
    const isRepeated = child.seenInWalk === writing.walk
    child.seenInWalk = writing.walk
    const isObject = json[valueStart] === OPEN_BRACE
    if (isMetadata) writing.metadataOffset = isObject ? writing.at + 1 : -1
    let hasContent = true
    if (child.data.whole) {
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
