/**
 * kubectl's JSONPath templates: text with expressions in braces, `{.items[*].metadata.name}`, `{range …}{end}`, filters
 * `[?(@.type=="Ready")]`. A template without braces is one expression. Source: Kubernetes reference, "JSONPath support".
 */
import { type JsonNumber, numberFromText } from '../../codec/json-tree.js'
import { UsageError } from '../exit-code.js'

export type Part =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'path'; readonly path: Path }
  | { readonly kind: 'range'; readonly path: Path; readonly body: readonly Part[] }

export interface Path {
  /** `$`, or a path outside of every range. */
  readonly fromRoot: boolean
  readonly steps: readonly Step[]
}

export type Step =
  | { readonly kind: 'field'; readonly name: string }
  | { readonly kind: 'all' }
  /** Every value below, this one included. */
  | { readonly kind: 'descend' }
  /** An index is a slice of one. Negative: from the end. null: open. */
  | { readonly kind: 'slice'; readonly start: number | null; readonly end: number | null; readonly step: number }
  | { readonly kind: 'index'; readonly index: number }
  | { readonly kind: 'union'; readonly of: readonly Step[] }
  | {
      readonly kind: 'filter'
      readonly left: Operand
      readonly operator: Operator | null
      readonly right: Operand | null
    }

export type Operand = { readonly path: Path } | { readonly value: string | number | JsonNumber | boolean | null }

const OPERATORS = ['==', '!=', '<=', '>=', '<', '>'] as const
export type Operator = (typeof OPERATORS)[number]

/** @throws UsageError that names the place. */
export function parseTemplate(text: string): readonly Part[] {
  const reader = new Reader(text.includes('{') ? text : `{${/^[.[$@]/.test(text) ? '' : '.'}${text}}`)
  const parts = reader.parts()
  if (!reader.atEnd) reader.fail('{end} without {range}')
  return parts
}

class Reader {
  #at = 0

  constructor(private readonly text: string) {}

  get atEnd(): boolean {
    return this.#at >= this.text.length
  }

  fail(problem: string): never {
    throw new UsageError(`jsonpath ${JSON.stringify(this.text)}: ${problem} at ${this.#at}`)
  }

  /** Until the end or `{end}`, which is left standing. */
  parts(): readonly Part[] {
    const parts: Part[] = []
    while (!this.atEnd) {
      const brace = this.text.indexOf('{', this.#at)
      const until = brace === -1 ? this.text.length : brace
      if (until > this.#at) parts.push({ kind: 'text', text: this.text.slice(this.#at, until) })
      this.#at = until
      if (this.atEnd || this.#looksAt(/\{\s*end\s*\}/y)) return parts
      this.#at++
      this.#expression(parts)
    }
    return parts
  }

  #expression(parts: Part[]): void {
    if (this.#take(/\s*range\s+/y) !== null) {
      const path = this.#path()
      this.#closeBrace()
      const body = this.parts()
      if (this.#take(/\{\s*end\s*\}/y) === null) this.fail('{range} without {end}')
      parts.push({ kind: 'range', path, body })
      return
    }
    while (this.#take(/\s*\}/y) === null) {
      this.#take(/\s+/y)
      if (this.atEnd) this.fail('no closing brace')
      if (this.#looksAt(/["']/y)) parts.push({ kind: 'text', text: this.#string() })
      else parts.push({ kind: 'path', path: this.#path() })
    }
  }

  #closeBrace(): void {
    if (this.#take(/\s*\}/y) === null) this.fail('no closing brace')
  }

  #path(): Path {
    const fromRoot = this.#take(/\$/y) !== null
    if (!fromRoot) this.#take(/@/y)
    const steps: Step[] = []
    const startAt = this.#at
    for (;;) {
      if (this.#take(/\.\./y) !== null) {
        steps.push({ kind: 'descend' })
        const name = this.#take(NAME)
        if (name !== null) steps.push(field(name))
      } else if (this.#take(/\./y) !== null) {
        const name = this.#take(NAME)
        // A lone dot is the object itself.
        if (name !== null) steps.push(field(name))
      } else if (this.#take(/\[/y) !== null) {
        steps.push(this.#brackets())
        if (this.#take(/\s*\]/y) === null) this.fail('no closing bracket')
      } else break
    }
    if (steps.length === 0 && this.#at === startAt && !fromRoot && this.text[this.#at - 1] !== '@') {
      this.fail('a path begins with a dot')
    }
    return { fromRoot, steps }
  }

  #brackets(): Step {
    if (this.#take(/\s*\?\s*\(\s*/y) !== null) {
      const left = this.#operand()
      const operator = this.#take(/\s*(==|!=|<=|>=|<|>)\s*/y)?.trim() ?? null
      const right = operator === null ? null : this.#operand()
      if (this.#take(/\s*\)/y) === null) this.fail('no closing parenthesis')
      return { kind: 'filter', left, operator: operator as Operator | null, right }
    }
    const of: Step[] = []
    do of.push(this.#subscript())
    while (this.#take(/\s*,\s*/y) !== null)
    return of.length === 1 ? of[0]! : { kind: 'union', of }
  }

  #subscript(): Step {
    this.#take(/\s+/y)
    if (this.#take(/\*/y) !== null) return { kind: 'all' }
    if (this.#looksAt(/["']/y)) return { kind: 'field', name: this.#string() }
    const slice = this.#take(/-?\d*(:-?\d*(:\d+)?)?/y)
    if (slice === null || slice === '') return this.fail('an index, a name in quotes or * is missing')
    const [start = '', end, step = '1'] = slice.split(':')
    if (end === undefined) return { kind: 'index', index: Number(start) }
    if (Number(step) === 0) this.fail('a step of 0')
    return {
      kind: 'slice',
      start: start === '' ? null : Number(start),
      end: end === '' ? null : Number(end),
      step: Number(step),
    }
  }

  #operand(): Operand {
    if (this.#looksAt(/["']/y)) return { value: this.#string() }
    const literal = this.#take(/-?\d+(\.\d+)?|true\b|false\b|null\b/y)
    if (literal !== null) {
      return { value: /^[tfn]/.test(literal) ? (JSON.parse(literal) as boolean | null) : numberFromText(literal) }
    }
    return { path: this.#path() }
  }

  #string(): string {
    const quoted = this.#take(/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/y)
    if (quoted === null) return this.fail('no closing quote')
    return quoted.slice(1, -1).replace(/\\(.)/g, (_all, escaped: string) => ESCAPES[escaped] ?? escaped)
  }

  #looksAt(pattern: RegExp): boolean {
    pattern.lastIndex = this.#at
    return pattern.test(this.text)
  }

  /** null when it does not stand here. */
  #take(pattern: RegExp): string | null {
    pattern.lastIndex = this.#at
    const found = pattern.exec(this.text)?.[0] ?? null
    if (found !== null) this.#at += found.length
    return found
  }
}

/** A dot of a name is written `\.`: `.metadata.labels.app\.kubernetes\.io/name`. */
const NAME = /(?:\*|(?:[\w/-]|\\.)+)/y

const ESCAPES: Readonly<Record<string, string>> = { n: '\n', t: '\t', r: '\r' }

function field(name: string): Step {
  return name === '*' ? { kind: 'all' } : { kind: 'field', name: name.replace(/\\(.)/g, '$1') }
}
