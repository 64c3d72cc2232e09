/**
 * Writes JSON text as YAML, for answers in `application/yaml`. Numbers are copied as they are written, since a tree
 * from `JSON.parse` would round integers above 2^53, and so would a YAML library. A string is written plain only where
 * no YAML reader, 1.1 or 1.2, could read it as anything else; all others are double-quoted.
 *
 * Of duplicate keys the last is kept, because YAML readers refuse them. The layout is kubectl's: two spaces, lists not
 * indented.
 */
import { decodeString } from './json-strings.js'
import { endOfString, endOfValue, skipSpace } from '../support/json-walk.js'

/** A scalar is stored as its YAML text. */
type Node = string | Node[] | Map<string, Node>

/**
 * @param json one valid JSON value, no deeper than `MAX_JSON_DEPTH` (this recurses).
 *
 * @returns text that ends in a new line.
 */
export function jsonToYaml(json: Buffer): string {
  const reader = new Reader(json)
  const lines: string[] = []
  const node = reader.read()
  if (isBlock(node)) writeBlock(node, '', lines)
  else lines.push(inline(node))
  return `${lines.join('\n')}\n`
}

class Reader {
  private at = 0

  constructor(private readonly json: Buffer) {}

  read(): Node {
    const { json } = this
    this.at = skipSpace(json, this.at)
    const start = this.at
    switch (json[start]) {
      case 0x7b: {
        const members = new Map<string, Node>()
        while (this.nextItem(0x7d)) {
          const keyEnd = endOfString(json, this.at)
          const key = decodeString(json, this.at, keyEnd)
          this.at = skipSpace(json, keyEnd) + 1
          const value = this.read()
          members.delete(key)
          members.set(key, value)
        }
        return members
      }
      case 0x5b: {
        const items: Node[] = []
        while (this.nextItem(0x5d)) items.push(this.read())
        return items
      }
      case 0x22:
        this.at = endOfString(json, start)
        return yamlString(decodeString(json, start, this.at))
      default:
        this.at = endOfValue(json, start)
        return json.toString('latin1', start, this.at)
    }
  }

  /**
   * Moves past the opening bracket or a comma to the next item. At the closing bracket it moves past that and returns
   * false.
   */
  private nextItem(close: number): boolean {
    this.at = skipSpace(this.json, this.at)
    if (this.at >= this.json.length) return false
    const byte = this.json[this.at]
    this.at++
    if (byte === close) return false
    this.at = skipSpace(this.json, this.at)
    if (this.json[this.at] !== close) return true
    this.at++
    return false
  }
}

function isBlock(node: Node): node is Node[] | Map<string, Node> {
  return typeof node !== 'string' && (Array.isArray(node) ? node.length > 0 : node.size > 0)
}

function inline(node: Node): string {
  return typeof node === 'string' ? node : Array.isArray(node) ? '[]' : '{}'
}

function writeBlock(node: Node[] | Map<string, Node>, indent: string, lines: string[]): void {
  if (Array.isArray(node)) {
    for (const item of node) {
      if (!isBlock(item)) {
        lines.push(`${indent}- ${inline(item)}`)
        continue
      }
      const first = lines.length
      writeBlock(item, `${indent}  `, lines)
      // The dash replaces the indentation of the item's first line.
      lines[first] = `${indent}- ${lines[first]!.slice(indent.length + 2)}`
    }
    return
  }
  for (const [key, value] of node) {
    const name = yamlString(key)
    if (isBlock(value)) {
      lines.push(`${indent}${name}:`)
      writeBlock(value, Array.isArray(value) ? indent : `${indent}  `, lines)
    } else {
      lines.push(`${indent}${name}: ${inline(value)}`)
    }
  }
}

function yamlString(text: string): string {
  return isPlain(text) ? text : quote(text)
}

/**
 * A plain string starts with a letter, so that it is no number, date or indicator, and is none of the words with a
 * meaning.
 */
function isPlain(text: string): boolean {
  const first = text.charCodeAt(0)
  if (text.length === 0 || text.length > 1_024 || !(isLetter(first) || first === 0x5f || first === 0x2f)) return false
  for (let i = 1; i < text.length; i++) {
    const char = text[i]!
    const unit = text.charCodeAt(i)
    if (isLetter(unit) || (unit >= 0x30 && unit <= 0x39) || '_./@+=%-'.includes(char)) continue
    // A colon ends a key only before white space or at the end; a space between words is safe.
    const next = text[i + 1]
    if ((char !== ':' && char !== ' ') || next === undefined || next === ' ' || next === ':' || next === '#')
      return false
  }
  return !WORDS.has(text.toLowerCase())
}

const WORDS: ReadonlySet<string> = new Set(['true', 'false', 'null', 'yes', 'no', 'on', 'off', 'y', 'n'])

function isLetter(unit: number): boolean {
  return (unit >= 0x41 && unit <= 0x5a) || (unit >= 0x61 && unit <= 0x7a)
}

/** JSON's escapes are valid in YAML. Characters that YAML calls unprintable or line breaks are escaped too. */
function quote(text: string): string {
  return JSON.stringify(text).replaceAll(
    /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}
