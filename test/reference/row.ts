import type { Question } from './ask.js'
import type { Difference } from './compare.js'

/** A row of a table of differences: what it covers, by name, and why. */
export interface Row {
  readonly name: string
  readonly reason: string
  matches(difference: Difference, question: Question): boolean
}
