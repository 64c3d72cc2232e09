/**
 * The grammar of JSONPath templates in client-go: text, and actions in braces consisting of fields, slices, unions,
 * filters, wildcards and recursive descent. Printer columns use it.
 *
 * This grammar differs from other JSONPaths, and from its own documentation, in ways that a client sees: `$` and `@`
 * are skipped wherever they occur, `['a.b']` means `.a.b`, and names in brackets take single quotes only. This parser
 * keeps these differences. Source: k8s.io/client-go/util/jsonpath; `test/data/json-path.json` holds its results.
 */
import { unquote } from './unquote.js'

export type JsonPathNode =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'literal'; readonly value: Literal }
  | { readonly kind: 'field'; readonly name: string }
  | { readonly kind: 'wildcard' }
  | { readonly kind: 'recursive' }
  | ({ readonly kind: 'slice' } & Slice)
  | { readonly kind: 'union'; readonly paths: readonly JsonPath[] }
  /** Without an operator, the filter selects the items that have the left side. */
  | { readonly kind: 'filter'; readonly left: JsonPath; readonly operator: string | null; readonly right: JsonPath }
  /** A word has no meaning in a path, so evaluating one fails. */
  | { readonly kind: 'word'; readonly word: string }

/** The steps of one action. A text or a literal among them replaces what the steps before it found. */
export type JsonPath = readonly JsonPathNode[]

/** A number keeps its text, because an integer and a float of the same value are not comparable. */
export type Literal = boolean | { readonly number: string }

export interface Slice {
  readonly start: number | null
  readonly end: number | null
  readonly step: number | null
  /** Whether the slice is an index such as `[3]`, whose end follows from its start. */
  readonly isIndex: boolean
}

export type TemplatePart =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'action'; readonly path: JsonPath }

export class JsonPathSyntaxError extends Error {
  override readonly name = 'JsonPathSyntaxError'
}

/** The API server limits only the size of definitions, but a real path is much shorter. */
const MAX_LENGTH = 16_384

/** @throws JsonPathSyntaxError */
export function parseParts(text: string): readonly TemplatePart[] {
  if (text.length > MAX_LENGTH) throw new JsonPathSyntaxError(`it is longer than ${MAX_LENGTH} characters`)
  return new Parser(text).parts()
}

/** Parses one expression without braces around it. @throws JsonPathSyntaxError */
export function parseJsonPath(expression: string): JsonPath {
  const [part, ...more] = parseParts(`{${expression}}`)
  if (part?.kind !== 'action' || more.length > 0) throw new JsonPathSyntaxError('it is not one expression')
  return part.path
}

class Parser {
  #at = 0

  constructor(private readonly text: string) {}

  parts(): readonly TemplatePart[] {
    const { text } = this
    const parts: TemplatePart[] = []
    while (this.#at < text.length) {
      const brace = text.indexOf('{', this.#at)
      const end = brace === -1 ? text.length : brace
      if (end > this.#at) parts.push({ kind: 'text', text: text.slice(this.#at, end) })
      if (brace === -1) break
      this.#at = end + 1
      parts.push({ kind: 'action', path: this.#action() })
    }
    return parts
  }

  /** Reads an action up to and including its closing brace. */
  #action(): JsonPath {
    const { text } = this
    const nodes: JsonPathNode[] = []
    for (;;) {
      if (text.startsWith('[?(', this.#at)) {
        nodes.push(this.#filter())
        continue
      }
      if (text.startsWith('..', this.#at)) {
        if (nodes.at(-1)?.kind === 'recursive') this.#fail('invalid multiple recursive descent')
        this.#at += 2
        nodes.push({ kind: 'recursive' })
        if (/^[_\p{L}\p{Nd}]/u.test(text.slice(this.#at, this.#at + 2))) nodes.push(this.#field())
        continue
      }
      const character = text[this.#at]
      if (character === undefined || character === '\n' || character === '\r') this.#fail('unclosed action')
      this.#at++
      if (character === '}') return nodes
      if (character === ' ' || character === '@' || character === '$') continue
      if (character === '[') nodes.push(...this.#brackets())
      else if (character === '"' || character === "'") nodes.push({ kind: 'text', text: this.#quoted(character) })
      else if (character === '.') nodes.push(this.#field())
      else {
        this.#at--
        nodes.push(this.#numberOrWord())
      }
    }
  }

  #field(): JsonPathNode {
    const name = this.#take(/(?:\\[^]|[^ \t\r\n.,[\]$@{}\\])*/y)
    return name === '*' ? { kind: 'wildcard' } : { kind: 'field', name: name.replaceAll('\\', '') }
  }

  #numberOrWord(): JsonPathNode {
    const digits = this.#take(/[+-]?[\d.]+|[+-]/y)
    if (digits !== '') {
      if (!/^[+-]?(?:\d+(?:\.\d*)?|\.\d+)$/.test(digits)) this.#fail(`cannot parse number ${digits}`)
      return { kind: 'literal', value: { number: digits } }
    }
    const word = this.#take(/[_\p{L}\p{Nd}][^ \t\r\n.,[\]$@{}]*/uy)
    if (word === '') this.#fail(`unrecognized character in action: ${JSON.stringify(this.text[this.#at])}`)
    if (word === 'true' || word === 'false') return { kind: 'literal', value: word === 'true' }
    return { kind: 'word', word }
  }

  #brackets(): readonly JsonPathNode[] {
    const inner = this.#take(/[^\]\n]*/y)
    if (this.text[this.#at] !== ']') this.#fail('unterminated array')
    this.#at++
    return this.#subscript(inner)
  }

  #subscript(inner: string): readonly JsonPathNode[] {
    const texts = inner.split(',')
    if (texts.length > 1) {
      return [{ kind: 'union', paths: texts.map((one) => parseJsonPath(`[${withoutSpaces(one)}]`)) }]
    }
    const name = /^'([^']*)'$/.exec(inner)?.[1]
    if (name !== undefined) return parseJsonPath(`.${name}`)
    const bounds = /^(-?\d*)(:-?\d*)?(:-?\d*)?$/.exec(inner === '*' ? ':' : inner)
    if (bounds === null) this.#fail(`invalid array index ${inner}`)
    const [, start = '', end, step = ''] = bounds
    return [
      {
        kind: 'slice',
        start: this.#bound(start),
        end: end === undefined ? null : this.#bound(end.slice(1)),
        step: this.#bound(step.slice(1)),
        isIndex: end === undefined,
      },
    ]
  }

  #bound(text: string): number | null {
    if (text === '') return null
    const value = Number(text)
    if (!Number.isSafeInteger(value)) this.#fail(`array index ${text} is not a number`)
    return value
  }

  #filter(): JsonPathNode {
    this.#at += 3
    const inner = this.#untilParenthesis()
    if (this.text[this.#at] !== ']') this.#fail('unclosed array expect ]')
    this.#at++
    const comparison = /^([^!<>=]+)([!<>=]+)(.+)$/s.exec(inner)
    if (comparison === null) return { kind: 'filter', left: parseJsonPath(inner), operator: null, right: [] }
    const [, left = '', operator = '', right = ''] = comparison
    return { kind: 'filter', left: parseJsonPath(left), operator, right: parseJsonPath(right) }
  }

  /** Reads a filter up to and including its closing parenthesis. Parentheses inside quoted strings are skipped. */
  #untilParenthesis(): string {
    const { text } = this
    const start = this.#at
    let quote = ''
    let isClosed = false
    for (; this.#at < text.length && text[this.#at] !== '\n'; this.#at++) {
      const character = text[this.#at]!
      if (character === '"' || character === "'") {
        if (quote === '') quote = character
        else if (character === quote && text[this.#at - 1] !== '\\') isClosed = true
      } else if (character === ')' && (quote === '' || isClosed)) {
        return text.slice(start, this.#at++)
      }
    }
    return this.#fail('unterminated filter')
  }

  #quoted(quote: string): string {
    const { text } = this
    const start = this.#at - 1
    for (; this.#at < text.length && text[this.#at] !== '\n'; this.#at++) {
      if (text[this.#at] !== quote || text[this.#at - 1] === '\\') continue
      const literal = text.slice(start, ++this.#at)
      return unquote(literal) ?? this.#fail(`unquote string ${literal} error invalid syntax`)
    }
    return this.#fail('unterminated quoted string')
  }

  /** @param pattern a sticky pattern. @returns '' when it does not match here. */
  #take(pattern: RegExp): string {
    pattern.lastIndex = this.#at
    const found = pattern.exec(this.text)?.[0] ?? ''
    this.#at += found.length
    return found
  }

  #fail(problem: string): never {
    throw new JsonPathSyntaxError(`${problem} at ${this.#at}`)
  }
}

/** `/ +$/` would take time quadratic in the number of spaces. */
function withoutSpaces(text: string): string {
  let end = text.length
  while (text[end - 1] === ' ') end--
  return text.slice(0, end).replace(/^ +/, '')
}
