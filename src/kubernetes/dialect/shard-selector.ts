/**
 * Parses `shardSelector`: `shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000') || …`. The API
 * server parses it as a CEL expression and then accepts only such calls, joined by `||`. This parser has the part of
 * CEL's grammar that can occur in an accepted expression. It also has literals, so that common mistakes get the API
 * server's error messages.
 *
 * Source: k8s.io/apiserver/pkg/sharding; KEP-5866.
 */
import { checkSelectorLength } from '../model/selector-length.js'
import { BadRequestError } from '../model/status.js'
import { type Hash, type HashRange, joined, type Shard } from '../../engine/model/shard.js'
import { checkSelectorTerms } from './subject.js'

export interface ShardSelector extends Shard {
  /** The hashed field's path. */
  readonly path: string
  /** As the API server spells it; lists repeat it in `metadata.shardInfo.selector`. */
  readonly text: string
}

/** @returns null for '', which selects everything. @throws BadRequestError in the API server's words. */
export function parseShardSelector(text: string): ShardSelector | null {
  if (text === '') return null
  checkSelectorLength('shardSelector', text)
  if (text.trim() === '') throw refused('empty shard selector is not allowed; omit the parameter for unfiltered lists')
  const calls = new Parser(text).parse().flatMap(rangeOf)
  const [{ field }] = calls as [Range]
  for (const call of calls) {
    if (call.field !== field) {
      throw refused(`all shard ranges must use the same field, got ${quoted(field)} and ${quoted(call.field)}`)
    }
  }
  return {
    field: field === 'object.metadata.uid' ? 'identity' : 'scope',
    path: field.slice('object.'.length),
    ranges: joined(calls.map(({ range }) => range)),
    text: calls.map((call) => `shardRange(${call.field}, '${call.start}', '${call.end}')`).join(' || '),
  }
}

function refused(message: string): BadRequestError {
  return new BadRequestError(`invalid shard selector: ${message}`)
}

function quoted(text: string): string {
  return JSON.stringify(text)
}

/** The numbers with which the API server's messages name a kind of expression. */
const KIND = { call: 1, identifier: 3, literal: 5, select: 7 } as const

type Expression =
  | { readonly kind: 'call'; readonly name: string; readonly args: readonly Expression[] }
  | { readonly kind: 'identifier' | 'select'; readonly path: string }
  /** `type` is Go's name for the type of the value. */
  | { readonly kind: 'literal'; readonly type: string; readonly text: string }

interface Range {
  readonly field: string
  readonly start: string
  readonly end: string
  readonly range: HashRange
}

function rangeOf(expression: Expression): Range {
  if (expression.kind !== 'call') {
    throw refused(`unexpected expression kind ${KIND[expression.kind]}; expected shardRange() call or || operator`)
  }
  const { name, args } = expression
  if (name !== 'shardRange') throw refused(`unsupported function ${quoted(name)}; only shardRange() and || are allowed`)
  if (args.length !== 3) throw refused(`shardRange() requires exactly 3 arguments, got ${args.length}`)
  const field = fieldOf(args[0]!)
  const [start, end] = [hexOf(args[1]!, 'hexStart'), hexOf(args[2]!, 'hexEnd')]
  const range = { start: hashOfHex(start), end: hashOfHex(end) }
  // All bounds have the same length except 2^64, which is longer.
  if (start.length > end.length || (start.length === end.length && start >= end)) {
    throw refused(`shard range start ${start} must be less than end ${end}`)
  }
  return { field, start, end, range }
}

function fieldOf(expression: Expression): string {
  if (expression.kind !== 'identifier' && expression.kind !== 'select') {
    const what = `expected field path (e.g. object.metadata.uid), got expression kind ${KIND[expression.kind]}`
    throw refused(`shardRange() first argument: ${what}`)
  }
  const { path } = expression
  if (path === 'object.metadata.uid' || path === 'object.metadata.namespace') return path
  throw refused(`unsupported field path ${quoted(path)}; supported: object.metadata.uid, object.metadata.namespace`)
}

const TWO_64 = '0x10000000000000000'

function hexOf(expression: Expression, name: string): string {
  if (expression.kind !== 'literal') {
    throw refused(`${name} must be a string literal (e.g. '0xff'), got expression kind ${KIND[expression.kind]}`)
  }
  const { type, text } = expression
  if (type !== 'string') throw refused(`${name} must be a string literal, got ${type}`)
  if (!text.startsWith('0x')) throw refused(`${name} must have '0x' prefix, got ${quoted(text)}`)
  const hex = text.slice(2)
  if (hex === '') throw refused(`${name}: hex value is required after '0x'`)
  if (hex.length > 17) {
    throw refused(`${name}: hex value too long (${hex.length} chars, max 17): ${quoted(hex)}`)
  }
  const wrong = /[^0-9a-f]/u.exec(hex)
  if (wrong !== null) throw refused(`${name}: invalid hex character ${quoted(wrong[0])} in ${quoted(text)}`)
  if (hex.length === 17 && text !== TWO_64) {
    throw refused(`${name}: 17-digit hex value must be '${TWO_64}' (2^64), got ${quoted(text)}`)
  }
  if (hex.length < 16) {
    const padded = quoted(`0x${hex.padStart(16, '0')}`)
    throw refused(`${name} must be a 0x-prefixed 16-digit hex value, got ${quoted(text)} (did you mean ${padded}?)`)
  }
  return text
}

function hashOfHex(text: string): Hash {
  return { high: Number(text.slice(0, -8)), low: Number(`0x${text.slice(-8)}`) }
}

const TOKEN = new RegExp(
  [
    /[ \t\r\n\f]+|\/\/[^\n]*/, // white space and comments
    /(?<identifier>[A-Za-z_][A-Za-z_0-9]*)/,
    /(?<number>\d[\w.]*)/,
    /"(?<double>[^"\\\r\n]*)"|'(?<single>[^'\\\r\n]*)'/,
    /(?<mark>\|\||[().,])/,
  ]
    .map(({ source }) => source)
    .join('|'),
  'y',
)

interface Token {
  readonly kind: 'identifier' | 'number' | 'string' | 'mark' | 'end'
  readonly text: string
  /** The token's position in the selector. */
  readonly at: number
}

/** As in the API server, deeper nesting is refused. */
const MAX_DEPTH = 250

/** Takes one step per token; only parentheses and arguments nest. */
class Parser {
  readonly #text: string
  #next: Token
  #at = 0
  #depth = 0

  constructor(text: string) {
    this.#text = text
    this.#next = this.#scan()
  }

  /** Returns the operands of `||`; a single one if there is no `||`. */
  parse(): readonly Expression[] {
    const operands = this.#or()
    if (this.#next.kind !== 'end') throw this.#unexpected()
    checkSelectorTerms('shardSelector', operands.length, 'ranges')
    return operands
  }

  #or(): readonly Expression[] {
    if (++this.#depth > MAX_DEPTH) throw refused(`CEL parse error: more than ${MAX_DEPTH} levels of nesting`)
    const operands: Expression[] = []
    do {
      if (this.#takes('(')) {
        for (const operand of this.#or()) operands.push(operand)
        this.#require(')')
      } else operands.push(this.#operand())
    } while (this.#takes('||'))
    this.#depth--
    return operands
  }

  #operand(): Expression {
    const { kind, text } = this.#next
    if (kind === 'string') return this.#literal('string')
    if (kind === 'number') {
      return this.#literal(/^\d+u$/i.test(text) ? 'uint64' : /^(0x[\da-f]+|\d+)$/i.test(text) ? 'int64' : 'float64')
    }
    if (kind !== 'identifier') throw this.#unexpected()
    if (text === 'true' || text === 'false') return this.#literal('bool')
    if (text === 'null') return this.#literal('structpb.NullValue')
    return this.#path()
  }

  #literal(type: string): Expression {
    const { text } = this.#next
    this.#next = this.#scan()
    return { kind: 'literal', type, text }
  }

  /** Reads a field path, or a call, whose target the API server ignores. */
  #path(): Expression {
    let kind: 'identifier' | 'select' = 'identifier'
    let name = this.#next.text
    let path = name
    this.#next = this.#scan()
    for (;;) {
      if (this.#takes('(')) return { kind: 'call', name, args: this.#args() }
      if (!this.#takes('.')) return { kind, path }
      if (this.#next.kind !== 'identifier') throw this.#unexpected()
      name = this.#next.text
      path += `.${name}`
      kind = 'select'
      this.#next = this.#scan()
    }
  }

  #args(): readonly Expression[] {
    const args: Expression[] = []
    if (this.#takes(')')) return args
    do {
      const [argument, ...others] = this.#or()
      args.push(others.length === 0 ? argument! : { kind: 'call', name: '_||_', args: [] })
    } while (this.#takes(','))
    this.#require(')')
    return args
  }

  #takes(mark: string): boolean {
    const { kind, text } = this.#next
    if (kind !== 'mark' || text !== mark) return false
    this.#next = this.#scan()
    return true
  }

  #require(mark: string): void {
    if (!this.#takes(mark)) throw this.#unexpected()
  }

  #unexpected(): BadRequestError {
    const { kind, text, at } = this.#next
    const what = kind === 'end' ? 'the end' : quoted(text.slice(0, 64))
    return refused(`CEL parse error: unexpected ${what} (character ${at + 1})`)
  }

  #scan(): Token {
    for (;;) {
      const at = this.#at
      if (at === this.#text.length) return { kind: 'end', text: '', at }
      TOKEN.lastIndex = at
      const found = TOKEN.exec(this.#text)
      if (found === null) {
        const char = quoted(String.fromCodePoint(this.#text.codePointAt(at)!))
        throw refused(`CEL parse error: unexpected ${char} (character ${at + 1})`)
      }
      this.#at += found[0].length
      const { identifier, number, double, single, mark } = found.groups!
      if (identifier !== undefined) return { kind: 'identifier', text: identifier, at }
      if (number !== undefined) return { kind: 'number', text: number, at }
      if (mark !== undefined) return { kind: 'mark', text: mark, at }
      const string = double ?? single
      if (string !== undefined) return { kind: 'string', text: string, at }
    }
  }
}
