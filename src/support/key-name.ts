/**
 * Converts between a key under a declared prefix and the name of its object. Every key has exactly one spelling as a
 * name, and every spelling means exactly one key. So two keys never become one object, and the key that is read is the
 * one whose name was authorized.
 *
 *     eu/checkout     eu:checkout      a slash is a colon
 *     web/10.0.0.1:80 web:10.0.0.1~3a80  other characters that paths, selectors or terminals treat specially are ~XX
 *                     ~                the key that is the prefix itself
 *
 * Kubernetes' clients refuse names that contain `/` or `%`, and the names `.` and `..`, in any encoding, so these never
 * appear. Letters of any language stay as they are. Bytes that are not UTF-8 are written as ~XX, one by one. The set of
 * escaped characters is fixed here instead of being taken from Unicode's classes, which grow from one version of Node
 * to the next.
 *
 * Nothing from Node is used, because the client also runs in browsers.
 */

const PLAIN_REST = /^(?!\.\.?$)[A-Za-z0-9._@/][-A-Za-z0-9._@/]*$/
const PLAIN_NAME = /^(?!\.\.?$)[A-Za-z0-9._@:][-A-Za-z0-9._@:]*$/
const ONLY_DOTS = /^\.\.?$/
const ASCII_KEPT = /[-A-Za-z0-9._@]/
/**
 * Ranges of invisible characters and of characters that change the text around them: controls, spaces of all widths,
 * joiners, direction marks, fillers.
 */
const HIDDEN: readonly (readonly [first: number, last: number])[] = [
  [0x80, 0xa0],
  [0xad, 0xad],
  [0x34f, 0x34f],
  [0x61c, 0x61c],
  [0x115f, 0x1160],
  [0x1680, 0x1680],
  [0x17b4, 0x17b5],
  [0x180b, 0x180f],
  [0x2000, 0x200f],
  [0x2028, 0x202f],
  [0x205f, 0x206f],
  [0x2800, 0x2800],
  [0x3000, 0x3000],
  [0x3164, 0x3164],
  [0xfe00, 0xfe0f],
  [0xfeff, 0xfeff],
  [0xffa0, 0xffa0],
  [0xfff0, 0xffff],
  [0xe0000, 0xe0fff],
]
const EMPTY = '~'

const encoder = new TextEncoder()
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** @param rest the key after its prefix, one character per byte as in `Key`. */
export function nameOfRest(rest: string): string {
  if (PLAIN_REST.test(rest)) return rest.replaceAll('/', ':')
  if (rest === '') return EMPTY
  if (ONLY_DOTS.test(rest)) return escaped(rest)
  const text = textOf(rest)
  if (text === null) return Array.from(rest, (byte, i) => asciiSpelled(byte, i) ?? escaped(byte)).join('')
  return Array.from(text, (char, i) => {
    if (char.charCodeAt(0) < 0x80) return asciiSpelled(char, i) ?? escaped(char)
    return isHidden(char.codePointAt(0)!) ? escaped(bytesOf(char)) : char
  }).join('')
}

/** The inverse of `nameOfRest`; null if no key has this spelling. */
export function restOfName(name: string): string | null {
  if (PLAIN_NAME.test(name)) return name.replaceAll(':', '/')
  if (name === EMPTY) return ''
  const rest = bytesOf(name)
    .replaceAll(':', '/')
    .replaceAll(/~([0-9a-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
  return nameOfRest(rest) === name ? rest : null
}

/**
 * Returns the name of an object under a declared prefix from its key: `eu/checkout` is named `eu:checkout`.
 *
 * @param key the key after the prefix and, if there is one, the namespace.
 */
export function keyName(key: string): string {
  return nameOfRest(bytesOf(key))
}

function isHidden(code: number): boolean {
  return HIDDEN.some(([first, last]) => code >= first && code <= last)
}

/** Returns null if the character must be escaped. A hyphen at the start must be, because it would look like a flag. */
function asciiSpelled(char: string, at: number): string | null {
  if (char === '/') return ':'
  return ASCII_KEPT.test(char) && !(char === '-' && at === 0) ? char : null
}

function escaped(bytes: string): string {
  return Array.from(bytes, (byte) => `~${byte.charCodeAt(0).toString(16).padStart(2, '0')}`).join('')
}

function bytesOf(text: string): string {
  return Array.from(encoder.encode(text), (byte) => String.fromCharCode(byte)).join('')
}

/** Returns null for bytes that are not UTF-8. */
function textOf(bytes: string): string | null {
  try {
    return decoder.decode(Uint8Array.from(bytes, (byte) => byte.charCodeAt(0)))
  } catch {
    return null
  }
}
