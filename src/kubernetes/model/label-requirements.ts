/**
 * The requirements of label selectors, in the grammar of Kubernetes: `a=b`, `a==b`, `a!=b`, `a in (x,y)`, `a notin
 * (x)`, `a`, `!a`, `a>1`, `a<1`, joined by commas. They are parsed from text, or from an object with `matchLabels` and
 * `matchExpressions`. As in Kubernetes, an object without the label satisfies `!=` and `notin`.
 *
 * The parser takes time linear in the length of the text, because no regular expression can backtrack. Server and
 * client both use it.
 */
import { checkLabelKey, checkLabelValue } from './label-names.js'
import { BadRequestError } from './status.js'

type Operator = '=' | '!=' | 'in' | 'notin' | 'exists' | '!' | '>' | '<'

export interface Requirement {
  readonly key: string
  readonly operator: Operator
  /** Sorted, without duplicates. */
  readonly values: readonly string[]
  readonly valueSet: ReadonlySet<string>
}

/**
 * Returns the requirements, sorted and without duplicates. A selector that selects everything has none.
 *
 * @throws BadRequestError, which says what was expected and where.
 */
export function parseRequirements(text: string): readonly Requirement[] {
  const byText = new Map(new Parser(text).parse().map((requirement) => [formatRequirement(requirement), requirement]))
  return [...byText].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, requirement]) => requirement)
}

/** The API's `LabelSelector`, as in a Deployment or a NetworkPolicy. */
export interface LabelSelectorObject {
  readonly matchLabels?: Readonly<Record<string, string>>
  readonly matchExpressions?: readonly {
    readonly key: string
    /** In, NotIn, Exists or DoesNotExist. */
    readonly operator: string
    readonly values?: readonly string[]
  }[]
}

/**
 * Returns the requirements, all of which must hold. If there are none, everything is selected.
 * @throws BadRequestError, which names the member.
 */
export function requirementsOf({
  matchLabels = {},
  matchExpressions = [],
}: LabelSelectorObject): readonly Requirement[] {
  const equalities = Object.entries(matchLabels).map(([key, value]) => checked('matchLabels', key, '=', [value]))
  return [...equalities, ...matchExpressions.map(({ key, operator, values = [] }) => expression(key, operator, values))]
}

function expression(key: string, operator: string, values: readonly string[]): Requirement {
  const known = EXPRESSION_OPERATORS.get(operator)
  if (known === undefined) {
    const names = [...EXPRESSION_OPERATORS.keys()].join(', ')
    throw new BadRequestError(`matchExpressions: operator ${JSON.stringify(operator)} is not one of ${names}`)
  }
  const takesValues = known === 'in' || known === 'notin'
  if (takesValues !== values.length > 0) {
    throw new BadRequestError(
      `matchExpressions: ${operator} of ${key} takes ${takesValues ? 'at least one value' : 'no values'}`,
    )
  }
  return checked('matchExpressions', key, known, values)
}

export const EXPRESSION_OPERATORS: ReadonlyMap<string, Operator> = new Map([
  ['In', 'in'],
  ['NotIn', 'notin'],
  ['Exists', 'exists'],
  ['DoesNotExist', '!'],
])

function checked(member: string, key: string, operator: Operator, values: readonly string[]): Requirement {
  const ofKey = checkLabelKey(key)
  if (ofKey !== null) throw new BadRequestError(`${member}: ${JSON.stringify(key)}: ${ofKey}`)
  for (const value of values) {
    const problem = checkLabelValue(value)
    if (problem !== null) throw new BadRequestError(`${member}: ${JSON.stringify(value)}: ${problem}`)
  }
  return newRequirement(key, operator, values)
}

/** @param value the object's value of the label; undefined when the object does not have the label. */
export function holds(requirement: Requirement, value: string | undefined): boolean {
  switch (requirement.operator) {
    case '=':
      return value === requirement.values[0]
    case 'in':
      return value !== undefined && requirement.valueSet.has(value)
    case '!=':
      return value !== requirement.values[0]
    case 'notin':
      return value === undefined || !requirement.valueSet.has(value)
    case 'exists':
      return value !== undefined
    case '!':
      return value === undefined
    case '>':
    case '<': {
      const left = value === undefined ? null : parseInt64(value)
      const right = parseInt64(requirement.values[0]!)
      if (left === null || right === null) return false
      return requirement.operator === '>' ? left > right : left < right
    }
  }
}

const MAX_INT64 = 2n ** 63n - 1n

/** Label values begin with a letter or a digit, so numbers have no sign. */
function parseInt64(text: string): bigint | null {
  if (!/^\d+$/.test(text)) return null
  const value = BigInt(text)
  return value <= MAX_INT64 ? value : null
}

/** Returns the canonical text. Equal requirements have equal text. */
export function formatRequirement({ key, operator, values }: Omit<Requirement, 'valueSet'>): string {
  switch (operator) {
    case 'exists':
      return key
    case '!':
      return `!${key}`
    case 'in':
    case 'notin':
      return `${key} ${operator} (${values.join(',')})`
    default:
      return `${key}${operator}${values[0]}`
  }
}

function newRequirement(key: string, operator: Operator, values: readonly string[]): Requirement {
  const valueSet = new Set(values)
  const unique = [...valueSet].toSorted()
  // `a in (x)` and `a=x` are the same selector, so they share a group and an index entry.
  const single = unique.length === 1
  const simplest = single && operator === 'in' ? '=' : single && operator === 'notin' ? '!=' : operator
  return { key, operator: simplest, values: unique, valueSet }
}

/** White space, and then an operator, a word, or neither at the end. It matches at every place of any text. */
const TOKEN = /[ \t\r\n]*(?:([!=]=|[!=(),<>])|([^!=(),<> \t\r\n]+))?/y

type TokenKind = 'word' | 'end' | '!' | '=' | '==' | '!=' | '(' | ')' | ',' | '>' | '<'

interface Token {
  readonly kind: TokenKind
  readonly text: string
  readonly at: number
}

/** `in` and `notin` can also be keys. They are operators only after a key. */
class Parser {
  private at = 0
  private ahead: Token | null = null

  constructor(private readonly text: string) {}

  parse(): Requirement[] {
    const requirements: Requirement[] = []
    if (this.peek().kind === 'end') return requirements
    for (;;) {
      const first = this.peek()
      if (first.kind !== 'word' && first.kind !== '!') {
        this.fail(first, requirements.length === 0 ? "!, identifier, or 'end of string'" : "identifier after ','")
      }
      requirements.push(this.parseRequirement())
      const separator = this.next()
      if (separator.kind === 'end') return requirements
      if (separator.kind !== ',') this.fail(separator, "',' or 'end of string'")
    }
  }

  private parseRequirement(): Requirement {
    const negated = this.peek().kind === '!'
    if (negated) this.next()
    const keyToken = this.next()
    if (keyToken.kind !== 'word') this.failRequirement(keyToken, 'identifier')
    const key = keyToken.text
    const problem = checkLabelKey(key)
    if (problem !== null) this.failKey(key, problem)
    if (negated) return newRequirement(key, '!', [])
    const ahead = this.peek().kind
    if (ahead === 'end' || ahead === ',') return newRequirement(key, 'exists', [])
    const operator = this.next()
    switch (operator.kind) {
      case '=':
      case '==':
        return newRequirement(key, '=', [this.parseValue()])
      case '!=':
        return newRequirement(key, '!=', [this.parseValue()])
      case '>':
      case '<': {
        const valueAt = this.peek()
        const value = this.parseValue()
        if (parseInt64(value) === null) {
          this.failValue({ ...valueAt, text: value }, "for 'Gt', 'Lt' operators, the value must be an integer")
        }
        return newRequirement(key, operator.kind, [value])
      }
      default:
        if (operator.text !== 'in' && operator.text !== 'notin') {
          this.failRequirement(operator, 'in, notin, =, ==, !=, gt, lt')
        }
        return newRequirement(key, operator.text, this.parseValues())
    }
  }

  /** Returns an empty value if a comma or the end of the text follows. */
  private parseValue(): string {
    const ahead = this.peek()
    if (ahead.kind === 'end' || ahead.kind === ',') return ''
    return this.valueOf(this.next())
  }

  private parseValues(): string[] {
    const open = this.next()
    if (open.kind !== '(') this.failRequirement(open, "'('")
    const values: string[] = []
    // A value between commas, or between the parentheses, may be empty.
    let expectsValue = true
    for (;;) {
      const token = this.next()
      if (token.kind === 'word' && expectsValue) {
        values.push(this.valueOf(token))
        expectsValue = false
      } else if (token.kind === ',') {
        if (expectsValue) values.push('')
        expectsValue = true
      } else if (token.kind === ')') {
        if (expectsValue) values.push('')
        return values
      } else {
        this.failRequirement(token, expectsValue ? "',', ')' or identifier" : "',' or ')'")
      }
    }
  }

  private valueOf(token: Token): string {
    if (token.kind !== 'word') this.failRequirement(token, 'identifier')
    const problem = checkLabelValue(token.text)
    if (problem !== null) this.failValue(token, problem)
    return token.text
  }

  private peek(): Token {
    this.ahead ??= this.lex()
    return this.ahead
  }

  private next(): Token {
    const token = this.peek()
    this.ahead = null
    return token
  }

  private lex(): Token {
    TOKEN.lastIndex = this.at
    const [, operator, word] = TOKEN.exec(this.text)!
    this.at = TOKEN.lastIndex
    const text = operator ?? word ?? ''
    const kind = (operator as TokenKind | undefined) ?? (word === undefined ? 'end' : 'word')
    return { kind, text, at: this.at - text.length }
  }

  private fail(found: Token, expected: string): never {
    throw new BadRequestError(`found '${found.text}', expected: ${expected} (labelSelector, character ${found.at + 1})`)
  }

  private failRequirement(found: Token, expected: string): never {
    throw new BadRequestError(
      `unable to parse requirement: found '${found.text}', expected: ${expected} (labelSelector, character ${found.at + 1})`,
    )
  }

  /** Throws in the API server's words, which do not say where the error is. */
  private failKey(key: string, problem: string): never {
    throw new BadRequestError(`unable to parse requirement: <nil>: Invalid value: ${JSON.stringify(key)}: ${problem}`)
  }

  private failValue(found: Token, problem: string): never {
    throw new BadRequestError(
      `unable to parse requirement: Invalid value: ${JSON.stringify(found.text)}: ${problem} (labelSelector, character ${found.at + 1})`,
    )
  }
}
