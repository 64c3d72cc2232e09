/**
 * `fields=metadata.name,spec.nodeName,status.phase` reduces each object to the chosen parts. The members by which
 * clients identify objects (apiVersion, kind, metadata.name, metadata.namespace) are always included.
 */
import { formatFieldPath, parseFieldPath } from '../../engine/facts/field-path.js'
import { addPart, newParts, type Parts } from '../codec/json-parts.js'
import { BadRequestError } from '../model/status.js'
import { MAX_SELECTED_FIELDS } from '../model/limits.js'

const MAX_FIELDS_LENGTH = 4_096

export interface Projection {
  /**
   * Sorted, without fields that are always included or are under another path, so that equal choices have equal text.
   */
  readonly canonical: string
  /** @internal */
  readonly root: Parts
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
  if (parts.length > MAX_SELECTED_FIELDS)
    throw new BadRequestError(`fields names ${parts.length} paths, at most ${MAX_SELECTED_FIELDS} are allowed`)
  const root = newParts()
  for (const part of parts) {
    const segments = parseFieldPath(part)
    if (segments === null) throw new BadRequestError(`fields: ${JSON.stringify(part.slice(0, 64))} is not a path`)
    addPart(root, segments)
  }
  const canonical = chosenPaths(root, []).toSorted().join(',')
  for (const segments of ALWAYS) addPart(root, segments)
  return { canonical, root }
}

/** Returns the chosen paths without those that add nothing: paths under a wholly chosen key, or always included. */
function chosenPaths(node: Parts, path: readonly string[]): string[] {
  if (node.data.whole) {
    const isAlways = ALWAYS.some((always) => always.length === path.length && always.every((key, i) => key === path[i]))
    return isAlways ? [] : [formatFieldPath(path).replaceAll(',', '\\,')]
  }
  return node.children.flatMap((child) => chosenPaths(child, [...path, child.key]))
}

/** A comma after an even number of backslashes. It begins with the comma, so that a run of backslashes is read once. */
const UNESCAPED_COMMA = /,(?<=(?<!\\)(?:\\\\)*,)/

/** Splits at unescaped commas. Other escapes are left to the path parser. */
function splitAtCommas(text: string): string[] {
  return text.split(UNESCAPED_COMMA).map((part) => part.replaceAll('\\,', ','))
}
