/**
 * Field selectors: `spec.nodeName=n1,status.phase!=Running`. The grammar is that of Kubernetes (`=`, `==`, `!=`; `\,` `\=`
 * `\\` in values), the fields are not: where the API server allows a list of fields per kind, any scalar path may be asked for.
 * Paths are spelled as in codec/field-path.ts. A path that is missing, or leads to an object or a list, reads as ''.
 */
import { formatFieldPath, parseFieldPath } from '../codec/field-path.js'
import { BadRequestError } from '../model/status.js'
import type { EqualityTerm } from '../model/equality-term.js'
import { MAX_SELECTOR_LENGTH, MAX_SELECTOR_TERMS, type Subject } from './subject.js'

interface Term {
  /** Canonical. */
  readonly path: string
  readonly negated: boolean
  readonly value: string
}

export class FieldSelector {
  /** Sorted and in one spelling: selectors that ask the same have equal text. '' selects all. */
  readonly canonical: string
  readonly isEmpty: boolean
  /** The fields it reads, in canonical spelling, without repeats. */
  readonly paths: readonly string[]
  private readonly equalities: readonly EqualityTerm[]

  constructor(private readonly terms: readonly Term[]) {
    this.canonical = terms.map(formatTerm).join(',')
    this.isEmpty = terms.length === 0
    this.paths = [...new Set(terms.map((term) => term.path))]
    this.equalities = terms.filter((term) => !term.negated).map(({ path, value }) => ({ path, value }))
  }

  matches(subject: Pick<Subject, 'field'>): boolean {
    for (const term of this.terms) {
      if ((subject.field(term.path) === term.value) === term.negated) return false
    }
    return true
  }

  /** What every matching object has: necessary, not sufficient. */
  equalityTerms(): readonly EqualityTerm[] {
    return this.equalities
  }

  /** The only value this field can have in a matching object; undefined when it does not say. */
  requiredValue(path: string): string | undefined {
    return this.equalities.find((term) => term.path === path)?.value
  }
}

export const EVERY_FIELD = new FieldSelector([])

/** @throws BadRequestError that says where and what is wrong. */
export function parseFieldSelector(text: string): FieldSelector {
  if (text.length > MAX_SELECTOR_LENGTH) {
    throw new BadRequestError(
      `fieldSelector is ${text.length} characters long, at most ${MAX_SELECTOR_LENGTH} are read`,
    )
  }
  const terms = new Map<string, Term>()
  let start = 0
  for (let i = 0; i <= text.length; i++) {
    if (i < text.length && text[i] === '\\') i++
    else if (i === text.length || text[i] === ',') {
      // As in Kubernetes, nothing between two commas is nothing.
      if (i > start) {
        const term = parseTerm(text.slice(start, i), start)
        terms.set(formatTerm(term), term)
      }
      start = i + 1
    }
  }
  // A backslash at the very end has carried the loop past it.
  if (start < text.length && text.endsWith('\\') && endsInOpenEscape(text)) {
    throw new BadRequestError(`invalid field selector: invalid escape sequence: \\ (character ${text.length})`)
  }
  if (terms.size === 0) return EVERY_FIELD
  if (terms.size > MAX_SELECTOR_TERMS) {
    throw new BadRequestError(`fieldSelector has ${terms.size} terms, at most ${MAX_SELECTOR_TERMS} are allowed`)
  }
  return new FieldSelector([...terms].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, term]) => term))
}

/** `metadata.name=NAME`, as the path of a single object means it. */
export function nameSelector(name: string): FieldSelector {
  return new FieldSelector([{ path: 'metadata.name', negated: false, value: name }])
}

function endsInOpenEscape(text: string): boolean {
  let backslashes = 0
  while (text[text.length - 1 - backslashes] === '\\') backslashes++
  return backslashes % 2 === 1
}

function parseTerm(text: string, at: number): Term {
  const operatorAt = findOperator(text)
  if (operatorAt === -1) {
    throw new BadRequestError(`invalid field selector: can't understand '${text}' (character ${at + 1})`)
  }
  const operator = text.startsWith('!=', operatorAt) ? '!=' : text.startsWith('==', operatorAt) ? '==' : '='
  const segments = parseFieldPath(text.slice(0, operatorAt))
  if (segments === null) {
    throw new BadRequestError(
      `field label not supported: ${JSON.stringify(text.slice(0, operatorAt))} (character ${at + 1})`,
    )
  }
  const valueAt = operatorAt + operator.length
  const value = unescape(text.slice(valueAt), at + valueAt)
  return { path: formatFieldPath(segments), negated: operator === '!=', value }
}

/** The first `=`, or the `!` of the first `!=`. */
function findOperator(text: string): number {
  const equals = text.indexOf('=')
  return equals > 0 && text[equals - 1] === '!' ? equals - 1 : equals
}

function unescape(text: string, at: number): string {
  let value = ''
  for (let i = 0; i < text.length; i++) {
    const char = text[i]!
    if (char === '=') {
      throw new BadRequestError(`invalid field selector: unescaped character in value: = (character ${at + i + 1})`)
    }
    if (char !== '\\') {
      value += char
      continue
    }
    const escaped = text[i + 1] ?? ''
    if (escaped !== '\\' && escaped !== ',' && escaped !== '=') {
      throw new BadRequestError(
        `invalid field selector: invalid escape sequence: \\${escaped} (character ${at + i + 1})`,
      )
    }
    value += escaped
    i++
  }
  return value
}

function formatTerm({ path, negated, value }: Term): string {
  return `${path}${negated ? '!=' : '='}${value.replaceAll(/[\\,=]/g, (char) => `\\${char}`)}`
}
