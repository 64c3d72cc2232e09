/** Something that every object matching a selector must have: selectors tell it, and the broadcast finds them by it. */
export interface EqualityTerm {
  /** A field path, or `metadata.labels[KEY]` for a label: the two never look alike. */
  readonly path: string
  readonly value: string
}
