/** The length of every kind of selector. */
import { MAX_SELECTOR_LENGTH } from './limits.js'
import { BadRequestError } from './status.js'

/** @throws BadRequestError when the parameter is longer than a selector may be. */
export function checkSelectorLength(parameter: string, text: string): void {
  if (text.length <= MAX_SELECTOR_LENGTH) return
  throw new BadRequestError(
    `${parameter} is ${text.length} characters long, at most ${MAX_SELECTOR_LENGTH} are allowed`,
  )
}
