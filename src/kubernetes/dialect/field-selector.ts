/**
 * Field selectors: `spec.nodeName=n1,status.phase!=Running`. The grammar is that of Kubernetes (`=`, `==`, `!=`; `\,`
 * `\=` `\\` in values). The resource decides which fields exist (field-labels.ts). Paths are spelled as in
 * engine/facts/field-path.ts. A path that is missing, or leads to an object or a list, reads as '', unless the resource
 * has another value for it.
 */
import { formatFieldPath, parseFieldPath } from '../../engine/facts/field-path.js'
import { BadRequestError } from '../model/status.js'
import type { EqualityTerm } from '../../engine/model/equality-term.js'
import { checkSelectorLength } from '../model/selector-length.js'
import { checkSelectorTerms, type Subject } from './subject.js'
import { ANY_FIELD, type FieldLabels } from './field-labels.js'
import type { FieldLabel } from './well-known-resources.js'

/** A term as written; whether the field exists is checked later. */
export interface FieldTerm {
  readonly label: string
  /** The term's position in the selector. */
  readonly at: number
  readonly negated: boolean
  readonly value: string
}

interface Term {
  /** The canonical path. */
  readonly path: string
  /** null if the value is at `path` itself. */
  readonly label: FieldLabel | null
  readonly negated: boolean
  readonly value: string
}

export class FieldSelector {
  /** Canonical: equal selectors have equal text. '' selects everything. */
  readonly canonical: string
  readonly isEmpty: boolean
  /** The fields used, in canonical spelling, without duplicates. */
  readonly paths: readonly string[]
  private readonly equalities: readonly EqualityTerm[]

  constructor(private readonly terms: readonly Term[]) {
    this.canonical = terms.map(formatTerm).join(',')
    this.isEmpty = terms.length === 0
    this.paths = [...new Set(terms.flatMap(({ path, label }) => label?.paths ?? [path]))]
    this.equalities = terms.flatMap(equalityOf)
  }

  matches(subject: Pick<Subject, 'field'>): boolean {
    for (const term of this.terms) {
      if ((valueOf(term, subject) === term.value) === term.negated) return false
    }
    return true
  }

  /** Returns terms that every matching object satisfies: necessary, not sufficient. */
  equalityTerms(): readonly EqualityTerm[] {
    return this.equalities
  }

  /** Returns the values with which the field is compared. */
  valuesOf(path: string): readonly string[] {
    return this.terms.filter((term) => term.path === path).map(({ value }) => value)
  }

  /** Returns the only value that the field can have in a matching object; undefined if the selector requires none. */
  requiredValue(path: string): string | undefined {
    return this.equalities.find((term) => term.path === path)?.value
  }
}

function valueOf({ path, label }: Term, subject: Pick<Subject, 'field'>): string {
  if (label === null) return subject.field(path)
  for (const source of label.paths) {
    const value = subject.field(source)
    if (value !== '') return value
  }
  return label.otherwise
}

/**
 * Returns no term when a matching object may lack the value at the path, because the value is a default or comes from
 * one of several fields.
 */
function equalityOf({ path, label, negated, value }: Term): readonly EqualityTerm[] {
  if (negated) return []
  if (label === null) return [{ path, value }]
  return label.paths.length === 1 && value !== label.otherwise ? [{ path: label.paths[0]!, value }] : []
}

export const EVERY_FIELD = new FieldSelector([])

/** @throws BadRequestError that says what is wrong and where. */
export function parseFieldSelector(text: string, labels: FieldLabels = ANY_FIELD): FieldSelector {
  return selectFields(parseFieldTerms(text), labels)
}

/** @throws BadRequestError for the first label that the resource does not have. */
export function selectFields(written: readonly FieldTerm[], labels: FieldLabels): FieldSelector {
  const terms = new Map<string, Term>()
  for (const { label, at, negated, value } of written) {
    const found = labels.find(label)
    const segments = parseFieldPath(label)
    if (segments === null)
      throw new BadRequestError(`field label not supported: ${JSON.stringify(label)} (character ${at + 1})`)
    const term = { path: formatFieldPath(segments), label: found, negated, value }
    terms.set(formatTerm(term), term)
  }
  if (terms.size === 0) return EVERY_FIELD
  checkSelectorTerms('fieldSelector', terms.size, 'terms')
  return new FieldSelector([...terms].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, term]) => term))
}

/** Parses the grammar alone. @throws BadRequestError that says what is wrong and where. */
export function parseFieldTerms(text: string): readonly FieldTerm[] {
  checkSelectorLength('fieldSelector', text)
  // As in Kubernetes, an empty term is ignored.
  return [...text.matchAll(WRITTEN_TERM)].flatMap(({ 0: term, index }) => {
    if (endsInOpenEscape(term)) {
      throw new BadRequestError(`invalid field selector: invalid escape sequence: \\ (character ${text.length})`)
    }
    return parseTerm(term, index) ?? []
  })
}

/** Everything up to a comma that is not escaped. Only at the very end is nothing escaped by a backslash. */
const WRITTEN_TERM = /(?:\\[^]?|[^\\,])+/g

/** Returns `metadata.name=NAME`, which is what a watch on the path of a single object means. */
export function nameSelector(name: string): FieldSelector {
  return new FieldSelector([{ path: 'metadata.name', label: null, negated: false, value: name }])
}

function endsInOpenEscape(text: string): boolean {
  let backslashes = 0
  while (text[text.length - 1 - backslashes] === '\\') backslashes++
  return backslashes % 2 === 1
}

/** Returns null for a term that has neither field nor value (`=`), which the API server ignores. */
function parseTerm(text: string, at: number): FieldTerm | null {
  const operatorAt = findOperator(text)
  if (operatorAt === -1) {
    throw new BadRequestError(`invalid field selector: can't understand '${text}' (character ${at + 1})`)
  }
  const operator = text.startsWith('!=', operatorAt) ? '!=' : text.startsWith('==', operatorAt) ? '==' : '='
  if (operatorAt === 0 && text.length === operator.length) return null
  const valueAt = operatorAt + operator.length
  const value = unescape(text.slice(valueAt), at + valueAt)
  return { label: text.slice(0, operatorAt), at, negated: operator === '!=', value }
}

/** Finds the first `=`, or the `!` of the first `!=`. */
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
