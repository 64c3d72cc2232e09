/**
 * How a place in an object is written: keys joined by dots, `spec.nodeName`, `data.tier`. A key that has a dot in it is
 * written with a backslash before the dot, as in kubectl's JSONPath and custom columns: `metadata.annotations.example\.com/owner`.
 * `\\`, `\[` and `\]` are the other escapes. A path never goes into a list: unescaped brackets are refused, so that
 * they stay free for `metadata.labels[KEY]`, the name of a label as a fact of its own (absent, not empty, when missing).
 */

/** Longer is no path anybody wrote by hand; matching costs one comparison per segment and object. */
export const MAX_PATH_SEGMENTS = 32

/**
 * @returns the keys from the top, none empty; null when it is not a path (empty key, unescaped bracket, unknown escape, white
 * space at an end of a key, too many segments).
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

/** The one spelling of a path: equal paths give equal text. */
export function formatFieldPath(segments: readonly string[]): string {
  return segments.map((segment) => segment.replaceAll(/[.\\[\]]/g, (char) => `\\${char}`)).join('.')
}

const LABEL_PREFIX = 'metadata.labels['

/** The name of a label as a fact: no field path looks like it. */
export function labelPath(key: string): string {
  return `${LABEL_PREFIX}${key}]`
}

/** null when the path is that of a field. */
export function labelKeyOfPath(path: string): string | null {
  return path.startsWith(LABEL_PREFIX) && path.endsWith(']') ? path.slice(LABEL_PREFIX.length, -1) : null
}
