/** A term that every object matching a selector satisfies. The broadcast finds selectors by such terms. */
export interface EqualityTerm {
  /** The path of a field or of an attribute, in the notation of `engine/facts/field-path.ts`. */
  readonly path: string
  readonly value: string
}
