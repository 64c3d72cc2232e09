/**
 * The notation for a field of an object: keys joined by dots, such as `spec.nodeName` or `data.tier`. A dot inside a
 * key has a backslash before it, as in kubectl's JSONPath and custom columns:
 * `metadata.annotations.example\.com/owner`. The other escapes are `\\`, `\[` and `\]`. A path never leads into a list.
 * Unescaped brackets are refused, because `metadata.labels[KEY]` stands for a label. A missing label has no fact,
 * whereas a missing field has an empty one.
 */

/**
 * No one writes a longer path by hand. The limit exists because matching costs one comparison per segment and object.
 */
const MAX_PATH_SEGMENTS = 32

/**
 * @returns the keys from the top down, none of them empty; null if the path is malformed (empty key, unescaped bracket,
 * unknown escape, white space at either end of a key, too many segments).
 */
export function parseFieldPath(text: string): readonly string[] | null {
  const segments: string[] = []
  let segment = ''
  for (let i = 0; i <= text.length; i++) {
    const char = i < text.length ? text[i]! : '.'
    if (char === '.') {
      if (segment === '' || segment.trim() !== segment || segments.length === MAX_PATH_SEGMENTS) return null
      segments.push(segment)
      segment = ''
    } else if (char === '\\') {
      i++
      const escaped = text[i]
      if (escaped !== '.' && escaped !== '\\' && escaped !== '[' && escaped !== ']') return null
      segment += escaped
    } else if (char === '[' || char === ']') {
      return null
    } else {
      segment += char
    }
  }
  return segments
}

/** Returns the canonical text of a path. Equal paths give equal text. */
export function formatFieldPath(segments: readonly string[]): string {
  return segments.map((segment) => segment.replaceAll(/[.\\[\]]/g, (char) => `\\${char}`)).join('.')
}

const LABEL_PREFIX = 'metadata.labels['

/** Returns the path of a label's fact. No field path has this form. */
export function labelPath(key: string): string {
  return `${LABEL_PREFIX}${key}]`
}

/** Returns the label key in a label's path; null if the path is a field path. */
export function labelKeyOfPath(path: string): string | null {
  return path.startsWith(LABEL_PREFIX) && path.endsWith(']') ? path.slice(LABEL_PREFIX.length, -1) : null
}
