/** The view that selectors have of an object, and the limits on selectors. */

/**
 * An object as a selector sees it. `engine/facts/json-facts.ts` builds one from JSON text; the name and namespace come
 * from the key.
 */
export interface Subject {
  /** undefined when the object does not have the label, which is not the same as an empty one. */
  label(key: string): string | undefined
  /**
   * Returns the value at a canonical path (see engine/facts/field-path.ts): '' when missing or not a scalar; numbers
   * and booleans as their JSON text.
   */
  field(path: string): string
}

/**
 * Node's own limit on all headers of a request, including the URL. A longer selector cannot arrive, and the time to
 * parse a selector is proportional to its length.
 */
export const MAX_SELECTOR_LENGTH = 16_384

/**
 * Each term costs a lookup per event and group as long as the watch lives, and a real selector has far fewer than a
 * hundred. Values in `in (…)` do not count.
 */
export const MAX_SELECTOR_TERMS = 256
