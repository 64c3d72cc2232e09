/** What a list or watch selects by: labels and fields together, both must hold. */
import type { Resource } from '../model/resource.js'
import { fieldLabelsOf } from './field-labels.js'
import { EVERY_FIELD, type FieldSelector, parseFieldSelector } from './field-selector.js'
import { EVERY_LABEL, type LabelSelector, parseLabelSelector } from './label-selector.js'
import type { EqualityTerm } from '../model/equality-term.js'
import type { Subject } from './subject.js'

export type { EqualityTerm } from '../model/equality-term.js'
export type { Subject } from './subject.js'

export class Selector {
  /** Equal selectors have equal text: the key of groups and caches. '' selects all. */
  readonly canonical: string
  readonly isEmpty: boolean
  /** The facts it reads: field paths and `metadata.labels[KEY]`, without repeats. What `planFacts` takes. */
  readonly paths: readonly string[]
  private readonly terms: readonly EqualityTerm[]

  constructor(
    readonly labels: LabelSelector,
    readonly fields: FieldSelector,
  ) {
    this.isEmpty = labels.isEmpty && fields.isEmpty
    // No label selector has a ';' in it, so the first one is the seam.
    this.canonical = this.isEmpty ? '' : `${labels.canonical};${fields.canonical}`
    this.paths = [...fields.paths, ...labels.paths]
    this.terms = [...fields.equalityTerms(), ...labels.equalityTerms()]
  }

  matches(subject: Subject): boolean {
    // Labels first: they are the same in every version of the object, and fields are those of one.
    return this.labels.matches(subject) && this.fields.matches(subject)
  }

  /** What every matching object has, fields first: they tell objects apart better. Necessary, not sufficient. */
  equalityTerms(): readonly EqualityTerm[] {
    return this.terms
  }

  /** The only value this field can have in a matching object; undefined when the selector does not say. */
  requiredValue(path: string): string | undefined {
    return this.fields.requiredValue(path)
  }
}

export const EVERYTHING = new Selector(EVERY_LABEL, EVERY_FIELD)

/**
 * '' or undefined selects all.
 *
 * @param resource what is selected from; it may compute some field labels.
 * @throws BadRequestError
 */
export function parseSelector(
  labelSelector: string | undefined,
  fieldSelector: string | undefined,
  resource?: Resource,
): Selector {
  const labels = parseLabelSelector(labelSelector ?? '')
  const given = parseFieldSelector(fieldSelector ?? '')
  const fields = resource === undefined ? given : given.withLabels(fieldLabelsOf(resource))
  return labels.isEmpty && fields.isEmpty ? EVERYTHING : new Selector(labels, fields)
}
