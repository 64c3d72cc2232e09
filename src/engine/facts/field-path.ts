/**
 * The notation for a field of an object: keys joined by dots, such as `spec.nodeName` or `data.tier`. A dot inside a
 * key has a backslash before it, as in kubectl's JSONPath and custom columns:
 * `metadata.annotations.example\.com/owner`. The other escapes are `\\`, `\[` and `\]`. A path never leads into a list.
 * Unescaped brackets are refused in a field's path, because `metadata.labels[KEY]` stands for an attribute: a member of
 * a map of strings that is the same in every version of the object. A missing attribute has no fact, whereas a missing
 * field has an empty one.
 */

/**
 * No one writes a longer path by hand. The limit exists because matching costs one comparison per segment and object.
 */
const MAX_PATH_SEGMENTS = 32

const KEY = String.raw`(?:\\[.\\[\]]|[^.\\[\]])+`
const KEYS = new RegExp(KEY, 'g')
const PATH = new RegExp(String.raw`^${KEY}(?:\.${KEY}){0,${MAX_PATH_SEGMENTS - 1}}$`)

/**
 * @returns the keys from the top down, none of them empty; null if the path is malformed (empty key, unescaped bracket,
 * unknown escape, white space at either end of a key, too many segments).
 */
export function parseFieldPath(text: string): readonly string[] | null {
  if (!PATH.test(text)) return null
  const segments = text.match(KEYS)!.map((key) => key.replaceAll(/\\(.)/g, '$1'))
  return segments.every((segment) => segment.trim() === segment) ? segments : null
}

/** Returns the canonical text of a path. Equal paths give equal text. */
export function formatFieldPath(segments: readonly string[]): string {
  return segments.map((segment) => segment.replaceAll(/[.\\[\]]/g, (char) => `\\${char}`)).join('.')
}

/** Returns the path of an attribute. No field path has this form. @param map the path of the map, without brackets. */
export function attributePath(map: string, key: string): string {
  return `${map}[${key}]`
}

export function isAttributePath(path: string): boolean {
  const bracketAt = path.indexOf('[')
  return bracketAt > 0 && path[bracketAt - 1] !== '\\'
}

/** Returns the keys of an attribute's path from the top down, like `parseFieldPath`. */
export function parseAttributePath(path: string): readonly string[] | null {
  const bracketAt = path.indexOf('[')
  const map = parseFieldPath(path.slice(0, bracketAt))
  return map === null ? null : [...map, path.slice(bracketAt + 1, -1)]
}
