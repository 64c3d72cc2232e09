/**
 * The label selector of a list or watch: the requirements of `kubernetes/model/label-requirements.ts` plus what indexes
 * need. Each requirement decides for itself whether an object matches. The dispatcher's index, built from
 * `equalityTerms`, decides which selectors are evaluated at all.
 */
import { labelPath } from '../codec/fact-paths.js'
import type { EqualityTerm } from '../../engine/model/equality-term.js'
import { formatRequirement, holds, parseRequirements, type Requirement } from '../model/label-requirements.js'
import { checkSelectorLength } from '../model/selector-length.js'
import { checkSelectorTerms, type Subject } from './subject.js'

export class LabelSelector {
  /** Canonical: equal selectors have equal text. '' selects everything. */
  readonly canonical: string
  readonly isEmpty: boolean
  /** The label facts used, as `metadata.labels[KEY]`, without duplicates. */
  readonly paths: readonly string[]
  private readonly terms: readonly EqualityTerm[]
  private readonly requirements: readonly { readonly path: string; readonly requirement: Requirement }[]

  constructor(requirements: readonly Requirement[]) {
    this.canonical = requirements.map(formatRequirement).join(',')
    this.isEmpty = requirements.length === 0
    this.requirements = requirements.map((requirement) => ({ path: labelPath(requirement.key), requirement }))
    this.paths = [...new Set(this.requirements.map(({ path }) => path))]
    this.terms = this.requirements
      .filter(({ requirement }) => requirement.operator === '=')
      .map(({ path, requirement }) => ({ path, value: requirement.values[0]! }))
  }

  matches(subject: Pick<Subject, 'attribute'>): boolean {
    for (const { path, requirement } of this.requirements) {
      if (!holds(requirement, subject.attribute(path))) return false
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
  checkSelectorLength('labelSelector', text)
  const requirements = parseRequirements(text)
  if (requirements.length === 0) return EVERY_LABEL
  checkSelectorTerms('labelSelector', requirements.length, 'requirements')
  return new LabelSelector(requirements)
}
