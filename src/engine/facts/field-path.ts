/**
 * The notation of a place in an object: keys joined by dots, `spec.nodeName`, `data.tier`. A dot inside a key has a
 * backslash before it, as in kubectl's JSONPath and custom columns: `metadata.annotations.example\.com/owner`. The
 * other escapes are `\\`, `\[` and `\]`. A path never leads into a list. Unescaped brackets are refused, because
 * `metadata.labels[KEY]` stands for a label, whose fact is absent, not empty, when the label is missing.
 */

/** Nobody writes a longer path by hand. Matching costs one comparison per segment and object. */
const MAX_PATH_SEGMENTS = 32

/**
 * @returns the keys from the top, none empty; null if malformed (empty key, unescaped bracket, unknown escape, white
 * space at either end of a key, too many segments).
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

/** Returns the canonical text of a path: equal paths give equal text. */
export function formatFieldPath(segments: readonly string[]): string {
  return segments.map((segment) => segment.replaceAll(/[.\\[\]]/g, (char) => `\\${char}`)).join('.')
}

const LABEL_PREFIX = 'metadata.labels['

/** Returns the name under which a label is a fact. No field path looks like it. */
export function labelPath(key: string): string {
  return `${LABEL_PREFIX}${key}]`
}

/** Returns null when the path is that of a field. */
export function labelKeyOfPath(path: string): string | null {
  return path.startsWith(LABEL_PREFIX) && path.endsWith(']') ? path.slice(LABEL_PREFIX.length, -1) : null
}
