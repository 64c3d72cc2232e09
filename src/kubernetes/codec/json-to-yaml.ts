/**
 * Writes JSON text as YAML, for responses in `application/yaml`. Numbers are copied unchanged, because `JSON.parse` and
 * YAML libraries would round integers above 2^53. A string is written plain only if no YAML reader, 1.1 or 1.2, could
 * read it as anything else; all other strings are double-quoted.
 *
 * The last of duplicate keys is kept, because YAML readers refuse duplicates. The layout is kubectl's: two spaces,
 * lists not indented. Keys are sorted, as the API server sorts them.
 *
 * A large object takes a tenth of a second, so the work can pause anywhere: the generators yield after a few dozen
 * microseconds and continue when called again. None of them recurses.
 */
import { decodeString } from '../../engine/facts/json-strings.js'
import { CLOSE_BRACE, CLOSE_BRACKET, COMMA, OPEN_BRACE, OPEN_BRACKET, QUOTE } from '../../support/json-walk.js'
import { JsonCursor } from './json-cursor.js'
import { sortSteps } from './sort-steps.js'

/** Values read, or lines written, between two yields. */
const STEPS_PER_YIELD = 256

/** @param json one valid JSON value. @returns text that ends with a newline. */
export function jsonToYaml(json: Buffer): string {
  const steps = yamlSteps(json)
  while (true) {
    const step = steps.next()
    if (step.done) return step.value
  }
}

/** `jsonToYaml` in steps, for large values. */
export function* yamlSteps(json: Buffer): Generator<void, string, void> {
  const lines: string[] = []
  const node = yield* new Reader(json).read()
  if (isBlock(node)) yield* writeBlock(node, lines)
  else lines.push(inline(node))
  return `${lines.join('\n')}\n`
}

/** Writes an object with long lists incrementally, in parts that are cut only between the items of its lists. */
export class YamlWriter {
  #hasStarted = false
  /** The member whose list is being written. */
  #list: { readonly name: string; isEmpty: boolean } | null = null
  /** Members read but not yet written. In the order of keys, each comes before or after the next list. */
  #held = new Map<string, Node>();

  /** Writes another part. @returns its lines. */
  *push(part: Buffer): Generator<void, Buffer, void> {
    const reader = new Reader(part)
    const lines: string[] = []
    if (!this.#hasStarted) reader.skip(OPEN_BRACE)
    this.#hasStarted = true
    while (!reader.isAtEnd) {
      if (this.#list !== null) yield* this.#writeItems(reader, this.#list, lines)
      else if (!reader.skip(CLOSE_BRACE)) yield* this.#writeMember(reader, lines)
      else yield* this.#writeHeld(() => true, lines)
    }
    return Buffer.from(lines.map((line) => `${line}\n`).join(''))
  }

  *#writeItems(
    reader: Reader,
    list: { readonly name: string; isEmpty: boolean },
    lines: string[],
  ): Generator<void, void, void> {
    while (!reader.isAtEnd) {
      if (reader.skip(CLOSE_BRACKET)) {
        if (list.isEmpty) lines.push(`${list.name}: []`)
        this.#list = null
        return
      }
      if (list.isEmpty) lines.push(`${list.name}:`)
      list.isEmpty = false
      yield* writeBlock([yield* reader.read()], lines)
    }
  }

  *#writeMember(reader: Reader, lines: string[]): Generator<void, void, void> {
    const key = reader.key()
    if (reader.skip(OPEN_BRACKET)) {
      yield* this.#writeHeld((name) => compareKeys(name, key) < 0, lines)
      this.#list = { name: yamlString(key), isEmpty: true }
    } else this.#held.set(key, yield* reader.read())
  }

  *#writeHeld(isDue: (name: string) => boolean, lines: string[]): Generator<void, void, void> {
    const due = new Map([...this.#held].filter(([name]) => isDue(name)))
    for (const name of due.keys()) this.#held.delete(name)
    if (due.size > 0) yield* writeBlock(due, lines)
  }
}

/** A scalar is stored as its YAML text. */
type Node = string | Block
type Block = Node[] | Map<string, Node>

/** A list or an object that has not been read to its end. */
interface Open {
  readonly node: Block
  /** The key of the next member. */
  key: string
}

class Reader extends JsonCursor {
  /** Whether nothing but white space and a comma follows. */
  get isAtEnd(): boolean {
    this.#toNext()
    return this.at >= this.json.length
  }

  /** Moves past `byte` if it is the next one. */
  skip(byte: number): boolean {
    this.#toNext()
    if (this.json[this.at] !== byte) return false
    this.at++
    return true
  }

  key(): string {
    this.#toNext()
    return this.name()
  }

  *read(): Generator<void, Node, void> {
    const open: Open[] = []
    for (let steps = 1; ; steps++) {
      if (steps % STEPS_PER_YIELD === 0) yield
      let node = this.#begin()
      if (typeof node !== 'string' && !this.#skipEnd(node)) {
        open.push({ node, key: Array.isArray(node) ? '' : this.key() })
        continue
      }
      while (true) {
        const parent = open.at(-1)
        if (parent === undefined) return node
        put(parent, node)
        if (!this.#skipEnd(parent.node)) {
          if (!Array.isArray(parent.node)) parent.key = this.key()
          break
        }
        node = parent.node
        open.pop()
      }
    }
  }

  /** Returns a scalar, or a list or an object that is still empty. */
  #begin(): Node {
    const { json } = this
    this.#toNext()
    switch (json[this.at]) {
      case OPEN_BRACE:
        this.at++
        return new Map()
      case OPEN_BRACKET:
        this.at++
        return []
      case QUOTE:
        return yamlString(decodeString(json, this.pass(), this.at))
      default:
        return json.toString('latin1', this.pass(), this.at)
    }
  }

  #skipEnd(node: Block): boolean {
    return this.isAtEnd || this.skip(Array.isArray(node) ? CLOSE_BRACKET : CLOSE_BRACE)
  }

  #toNext(): void {
    if (this.peek() !== COMMA) return
    this.at++
    this.peek()
  }
}

function put({ node, key }: Open, value: Node): void {
  if (Array.isArray(node)) {
    node.push(value)
    return
  }
  node.delete(key)
  node.set(key, value)
}

function isBlock(node: Node): node is Block {
  return typeof node !== 'string' && (Array.isArray(node) ? node.length > 0 : node.size > 0)
}

function inline(node: Node): string {
  return typeof node === 'string' ? node : Array.isArray(node) ? '[]' : '{}'
}

/** A list or an object whose lines are being written. */
interface Writing {
  readonly indent: string
  /** The start of its next line: the first line of an item starts with the item's dash. */
  lead: string
  readonly items: Iterator<Node, void> | null
  readonly members: Iterator<[string, Node], void> | null
}

function* writingOf(node: Block, indent: string, lead: string): Generator<void, Writing, void> {
  if (Array.isArray(node)) return { indent, lead, items: node.values(), members: null }
  const members = yield* sortSteps([...node], ([a], [b]) => compareKeys(a, b))
  return { indent, lead, items: null, members: members.values() }
}

/** Orders keys as Go's YAML does: other characters before letters, and numbers by their value. */
function compareKeys(a: string, b: string): number {
  const at = firstDifference(a, b)
  if (at === Math.min(a.length, b.length)) return a.length - b.length
  const [x, y] = [characterAt(a, at), characterAt(b, at)]
  const [isLetterX, isLetterY] = [LETTER.test(x), LETTER.test(y)]
  if (isLetterX !== isLetterY) return isLetterX ? 1 : -1
  if (isLetterX) return x < y ? -1 : 1
  const [m, n] = [numberFrom(a, at), numberFrom(b, at)]
  const isInNumber = (x === '0' || y === '0') && isInNumberAt(a, at)
  const [p, q] = isInNumber ? [`1${m}`, `1${n}`] : [m, n]
  if (Number(p) !== Number(q)) return Number(p) - Number(q)
  if (m.length !== n.length) return m.length - n.length
  return x < y ? -1 : 1
}

/** Returns the index of the first character that differs, or the length of the shorter text. */
function firstDifference(a: string, b: string): number {
  const length = Math.min(a.length, b.length)
  let at = 0
  while (at < length && a.charCodeAt(at) === b.charCodeAt(at)) at++
  // Do not return the second half of a surrogate pair.
  return at > 0 && a.codePointAt(at - 1) !== b.codePointAt(at - 1) ? at - 1 : at
}

function characterAt(text: string, at: number): string {
  return String.fromCodePoint(text.codePointAt(at)!)
}

const LETTER = /\p{L}/u

/** Whether digits that are not all zeros end at `at`. */
function isInNumberAt(text: string, at: number): boolean {
  let from = at
  while (text[from - 1] === '0') from--
  const digit = text[from - 1] ?? ''
  return digit >= '1' && digit <= '9'
}

function numberFrom(text: string, at: number): string {
  return /^\d*/.exec(text.slice(at))![0]
}

/** A list or an object to be written before the next line. */
interface Inner {
  readonly node: Block
  readonly indent: string
  readonly lead: string
}

function* writeBlock(node: Block, lines: string[]): Generator<void, void, void> {
  const open = [yield* writingOf(node, '', '')]
  for (let steps = 1; open.length > 0; steps++) {
    if (steps % STEPS_PER_YIELD === 0) yield
    const next = writeNext(open.at(-1)!, lines)
    if (next === 'end') open.pop()
    else if (next !== 'line') open.push(yield* writingOf(next.node, next.indent, next.lead))
  }
}

/** Writes one line, unless a list or an object comes first. */
function writeNext(writing: Writing, lines: string[]): Inner | 'line' | 'end' {
  const { indent, lead, items, members } = writing
  writing.lead = indent
  if (items !== null) {
    const item = items.next()
    if (item.done) return 'end'
    if (isBlock(item.value)) return { node: item.value, indent: `${indent}  `, lead: `${lead}- ` }
    lines.push(`${lead}- ${inline(item.value)}`)
    return 'line'
  }
  const member = members!.next()
  if (member.done) return 'end'
  const [key, value] = member.value
  const name = yamlString(key)
  if (!isBlock(value)) {
    lines.push(`${lead}${name}: ${inline(value)}`)
    return 'line'
  }
  lines.push(`${lead}${name}:`)
  const inner = Array.isArray(value) ? indent : `${indent}  `
  return { node: value, indent: inner, lead: inner }
}

function yamlString(text: string): string {
  return isPlain(text) ? text : quote(text)
}

/**
 * A plain string must start with a letter, so that it is not a number, date or indicator, and must not be one of the
 * words with a special meaning.
 */
function isPlain(text: string): boolean {
  return text.length <= 1_024 && PLAIN.test(text) && !WORDS.has(text.toLowerCase())
}

/** A colon ends a key only before white space or at the end; a space between words is safe. */
const PLAIN = /^[A-Za-z_/](?:[\w./@+=%-]|[: ](?![ :#]|$))*$/
const WORDS: ReadonlySet<string> = new Set(['true', 'false', 'null', 'yes', 'no', 'on', 'off', 'y', 'n'])

/**
 * Quotes a string. JSON's escapes are valid in YAML. Characters that YAML calls unprintable or line breaks are
 * escaped.
 */
function quote(text: string): string {
  return JSON.stringify(text).replaceAll(
    /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}
