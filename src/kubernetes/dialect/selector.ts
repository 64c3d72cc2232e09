/** The selector of a list or watch: labels, fields and a shard, all of which must match. */
import type { ApiResource } from '../model/api-resource.js'
import type { FieldLabels } from './field-labels.js'
import { EVERY_FIELD, type FieldSelector, type FieldTerm, parseFieldTerms, selectFields } from './field-selector.js'
import { EVERY_LABEL, type LabelSelector, parseLabelSelector } from './label-selector.js'
import { restOfName } from '../../support/key-name.js'
import { BadRequestError } from '../model/status.js'
import type { EqualityTerm } from '../../engine/model/equality-term.js'
import { type KeyParts, keyOf } from '../../support/key-of.js'
import { hashOf, containHash } from '../../engine/model/shard.js'
import { parseShardSelector, type ShardSelector } from './shard-selector.js'
import type { Subject } from './subject.js'
import { type Query, parameter } from './query.js'

export type { EqualityTerm } from '../../engine/model/equality-term.js'
export type { Subject } from './subject.js'

/** The parts that determine what is selected. */
interface SelectorParts {
  readonly labels: LabelSelector
  readonly fields: FieldSelector
  /** Null for all objects. */
  readonly shard: ShardSelector | null
}

const CANONICAL: KeyParts<SelectorParts> = {
  labels: ({ canonical }) => canonical,
  fields: ({ canonical }) => canonical,
  shard: (shard) => shard?.text ?? null,
}

export class Selector implements SelectorParts {
  readonly labels: LabelSelector
  readonly fields: FieldSelector
  readonly shard: ShardSelector | null
  /** Equal selectors have equal text, which is the key of groups and caches. '' selects everything. */
  readonly canonical: string
  readonly isEmpty: boolean
  /** Whether there are labels or fields to compare. */
  readonly hasTerms: boolean
  /** The facts used, for `planFacts`: field paths and `metadata.labels[KEY]`, without duplicates. */
  readonly paths: readonly string[]
  private readonly terms: readonly EqualityTerm[]

  constructor(parts: SelectorParts) {
    const { labels, fields, shard } = parts
    this.labels = labels
    this.fields = fields
    this.shard = shard
    this.hasTerms = !labels.isEmpty || !fields.isEmpty
    this.isEmpty = !this.hasTerms && shard === null
    this.canonical = this.isEmpty ? '' : keyOf(CANONICAL, parts)
    this.paths = [...fields.paths, ...labels.paths]
    this.terms = [...fields.equalityTerms(), ...labels.equalityTerms()]
  }

  /** For people: `app=cart, spec.nodeName=node-1`; '' selects everything. */
  get text(): string {
    const { labels, fields, shard } = this
    return [labels.canonical, fields.canonical, shard?.text ?? ''].filter((part) => part !== '').join(', ')
  }

  /** Compares labels and fields; `hasShardOf` compares the rest. */
  matchesTerms(subject: Subject): boolean {
    // Labels are compared first: they are the same in every version of the object, while fields belong to one version.
    return this.labels.matches(subject) && this.fields.matches(subject)
  }

  /**
   * @param subject must know the field that the shard hashes. Watches and lists use the hash stored with an object
   * instead.
   */
  hasShardOf(subject: Subject): boolean {
    return this.shard === null || containHash(this.shard, hashOf(subject.field(this.shard.path)))
  }

  /**
   * Returns terms that every matching object satisfies: necessary, not sufficient. Fields come first, since they
   * distinguish objects better.
   */
  equalityTerms(): readonly EqualityTerm[] {
    return this.terms
  }

  /**
   * Returns the only value that this field can have in a matching object; undefined if the selector does not require
   * one.
   */
  requiredValue(path: string): string | undefined {
    return this.fields.requiredValue(path)
  }
}

/**
 * Rejects names that no key can have: they would silently select nothing, and `new*` was meant as a pattern.
 * @throws BadRequestError
 */
function requireNames(fields: FieldSelector): void {
  const wrong = fields.valuesOf('metadata.name').find((name) => restOfName(name) === null)
  if (wrong === undefined) return
  const hint = wrong.endsWith('*') ? `; to select keys by how they begin, use prefix=${wrong.slice(0, -1)}` : ''
  throw new BadRequestError(`fieldSelector: no key has the name ${JSON.stringify(wrong.slice(0, 128))}${hint}`)
}

const EVERYTHING = new Selector({ labels: EVERY_LABEL, fields: EVERY_FIELD, shard: null })

/** A selector whose labels and fields have valid grammar. */
export interface WrittenSelector {
  readonly labels: LabelSelector
  readonly fields: readonly FieldTerm[]
  /** The shard selector as written, because the API server parses it after everything else. */
  readonly shard: string
}

/**
 * Parses the grammar alone, because the API server checks other parameters before it looks at field labels.
 * @throws BadRequestError
 */
export function readSelector(query: Query): WrittenSelector {
  const [labels = '', fields = '', shard = ''] = ['labelSelector', 'fieldSelector', 'shardSelector'].map((name) =>
    parameter(query, name),
  )
  return { labels: parseLabelSelector(labels), fields: parseFieldTerms(fields), shard }
}

/**
 * @throws BadRequestError for a field label that the resource does not have, a name that no key can have, or a
 * malformed shard.
 */
export function selectorOf(
  { labels, fields, shard: written }: WrittenSelector,
  fieldLabels: FieldLabels,
  resource?: Pick<ApiResource, 'holds'>,
): Selector {
  const selected = selectFields(fields, fieldLabels)
  if (resource !== undefined && resource.holds !== 'kubernetes') requireNames(selected)
  const shard = parseShardSelector(written)
  const selector = new Selector({ labels, fields: selected, shard })
  return selector.isEmpty ? EVERYTHING : selector
}
