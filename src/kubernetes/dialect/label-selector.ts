/**
 * The label selector of a list or watch: the requirements of `engine/model/label-requirements.ts` plus what indexes
 * need. Each requirement decides for itself whether an object matches. The dispatcher's index, built from
 * `equalityTerms`, decides which selectors are evaluated at all.
 */
import { labelPath } from '../../engine/facts/field-path.js'
import { BadRequestError } from '../../engine/model/status.js'
import type { EqualityTerm } from '../../engine/model/equality-term.js'
import { formatRequirement, holds, parseRequirements, type Requirement } from '../../engine/model/label-requirements.js'
import { MAX_SELECTOR_LENGTH, MAX_SELECTOR_TERMS, type Subject } from './subject.js'

export class LabelSelector {
  /** Canonical: equal selectors have equal text. '' selects everything. */
  readonly canonical: string
  readonly isEmpty: boolean
  /** The label facts used, as `metadata.labels[KEY]`, without duplicates. */
  readonly paths: readonly string[]
  private readonly terms: readonly EqualityTerm[]

  constructor(private readonly requirements: readonly Requirement[]) {
    this.canonical = requirements.map(formatRequirement).join(',')
    this.isEmpty = requirements.length === 0
    this.paths = [...new Set(requirements.map((requirement) => labelPath(requirement.key)))]
    this.terms = requirements
      .filter((requirement) => requirement.operator === '=')
      .map((requirement) => ({ path: labelPath(requirement.key), value: requirement.values[0]! }))
  }

  matches(subject: Pick<Subject, 'label'>): boolean {
    for (const requirement of this.requirements) {
      if (!holds(requirement, subject.label(requirement.key))) return false
    }
    return true
  }

  /** Returns terms that every matching object satisfies: necessary, not sufficient. */
  equalityTerms(): readonly EqualityTerm[] {
    return this.terms
  }
}

export const EVERY_LABEL = new LabelSelector([])

/** @throws BadRequestError that says what was expected and where. */
export function parseLabelSelector(text: string): LabelSelector {
  if (text.length > MAX_SELECTOR_LENGTH) {
    throw new BadRequestError(
      `labelSelector is ${text.length} characters long, at most ${MAX_SELECTOR_LENGTH} are allowed`,
    )
  }
  const requirements = parseRequirements(text)
  if (requirements.length === 0) return EVERY_LABEL
  if (requirements.length > MAX_SELECTOR_TERMS) {
    throw new BadRequestError(
      `labelSelector has ${requirements.length} requirements, at most ${MAX_SELECTOR_TERMS} are allowed`,
    )
  }
  return new LabelSelector(requirements)
}
