/** A term that every object matching a selector satisfies. The broadcast finds selectors by such terms. */
export interface EqualityTerm {
  /** A field path, or `metadata.labels[KEY]` for a label: the two never look alike. */
  readonly path: string
  readonly value: string
}
