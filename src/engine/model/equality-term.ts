/** A term that every object matching a selector satisfies. The broadcast finds selectors by such terms. */
export interface EqualityTerm {
  /** A field path, or `metadata.labels[KEY]` for a label; no field path has that form. */
  readonly path: string
  readonly value: string
}
