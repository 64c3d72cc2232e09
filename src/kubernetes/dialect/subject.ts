/** The view that selectors have of an object, and the limits on selectors. */
import { MAX_SELECTOR_TERMS } from '../model/limits.js'
import { BadRequestError } from '../model/status.js'

/**
 * An object as a selector sees it. `engine/facts/json-facts.ts` builds one from JSON text; the name and namespace come
 * from the key.
 */
export interface Subject {
  /** undefined when the object does not have the label at this path, which is not the same as an empty one. */
  attribute(path: string): string | undefined
  /**
   * Returns the value at a canonical path (see engine/facts/field-path.ts): '' when missing or not a scalar; numbers
   * and booleans as their JSON text.
   */
  field(path: string): string
}

/** @throws BadRequestError when the selector has too many terms. @param what what the parameter calls them. */
export function checkSelectorTerms(parameter: string, count: number, what: string): void {
  if (count <= MAX_SELECTOR_TERMS) return
  throw new BadRequestError(`${parameter} has ${count} ${what}, at most ${MAX_SELECTOR_TERMS} are allowed`)
}
