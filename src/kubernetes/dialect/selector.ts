/** The selector of a list or watch: labels and fields, both of which must match. */
import type { Resource } from '../../engine/model/resource.js'
import { ANY_FIELD, type FieldLabels } from './field-labels.js'
import { EVERY_FIELD, type FieldSelector, type FieldTerm, parseFieldTerms, selectFields } from './field-selector.js'
import { EVERY_LABEL, type LabelSelector, parseLabelSelector } from './label-selector.js'
import { restOfName } from '../../engine/model/key-name.js'
import { BadRequestError } from '../../engine/model/status.js'
import type { EqualityTerm } from '../../engine/model/equality-term.js'
import type { Subject } from './subject.js'

export type { EqualityTerm } from '../../engine/model/equality-term.js'
export type { Subject } from './subject.js'

export class Selector {
  /** Equal selectors have equal text, which is the key of groups and caches. '' selects everything. */
  readonly canonical: string
  readonly isEmpty: boolean
  /** The facts used, for `planFacts`: field paths and `metadata.labels[KEY]`, without duplicates. */
  readonly paths: readonly string[]
  private readonly terms: readonly EqualityTerm[]

  constructor(
    readonly labels: LabelSelector,
    readonly fields: FieldSelector,
  ) {
    this.isEmpty = labels.isEmpty && fields.isEmpty
    // No label selector contains a ';', so the first one is the boundary.
    this.canonical = this.isEmpty ? '' : `${labels.canonical};${fields.canonical}`
    this.paths = [...fields.paths, ...labels.paths]
    this.terms = [...fields.equalityTerms(), ...labels.equalityTerms()]
  }

  matches(subject: Subject): boolean {
    // Labels are compared first: they are the same in every version of the object, while fields belong to one version.
    return this.labels.matches(subject) && this.fields.matches(subject)
  }

  /**
   * Returns terms that every matching object satisfies: necessary, not sufficient. Fields come first, since they
   * distinguish objects better.
   */
  equalityTerms(): readonly EqualityTerm[] {
    return this.terms
  }

  /** Returns the only value that this field can have in a matching object; undefined if there is no such value. */
  requiredValue(path: string): string | undefined {
    return this.fields.requiredValue(path)
  }
}

/** A name that no key has would silently select nothing, and `new*` was meant as a pattern. @throws BadRequestError */
function requireNames(fields: FieldSelector): void {
  const wrong = fields.valuesOf('metadata.name').find((name) => restOfName(name) === null)
  if (wrong === undefined) return
  const hint = wrong.endsWith('*') ? `; for keys that begin with a text, ask with prefix=${wrong.slice(0, -1)}` : ''
  throw new BadRequestError(`fieldSelector: no key has the name ${JSON.stringify(wrong.slice(0, 128))}${hint}`)
}

export const EVERYTHING = new Selector(EVERY_LABEL, EVERY_FIELD)

/** A selector with valid grammar. */
export interface WrittenSelector {
  readonly labels: LabelSelector
  readonly fields: readonly FieldTerm[]
}

/**
 * Parses a selector; '' or undefined selects everything.
 *
 * @param fieldLabels those of the selected resource. Default: any scalar path.
 * @throws BadRequestError
 */
export function parseSelector(
  labelSelector: string | undefined,
  fieldSelector: string | undefined,
  fieldLabels: FieldLabels = ANY_FIELD,
  resource?: Pick<Resource, 'holds'>,
): Selector {
  return selectorOf(readSelector(labelSelector, fieldSelector), fieldLabels, resource)
}

/**
 * Parses the grammar alone: the API server checks other parameters before it looks at field labels. @throws
 * BadRequestError
 */
export function readSelector(labelSelector: string | undefined, fieldSelector: string | undefined): WrittenSelector {
  return { labels: parseLabelSelector(labelSelector ?? ''), fields: parseFieldTerms(fieldSelector ?? '') }
}

/** @throws BadRequestError for a label that the resource does not have, or a name that no key has. */
export function selectorOf(
  { labels, fields }: WrittenSelector,
  fieldLabels: FieldLabels,
  resource?: Pick<Resource, 'holds'>,
): Selector {
  const selected = selectFields(fields, fieldLabels)
  if (resource !== undefined && resource.holds !== 'kubernetes') requireNames(selected)
  return labels.isEmpty && selected.isEmpty ? EVERYTHING : new Selector(labels, selected)
}
