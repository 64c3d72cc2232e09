/**
 * Options that are in the table and that no code reads yet. Whoever gives one is refused: a server that was told to ask
 * for certificates and does not is worse than one that does not start. Who writes the code takes the name out of here; a
 * test compares this list with the sources, both ways, and in the end it is empty.
 */
import { options, type OptionName } from './options.js'
import type { Sources } from './load.js'

export const UNSERVED: readonly OptionName[] = []

/** One problem for each that was given. */
export function unservedProblems(sources: Sources): readonly string[] {
  return UNSERVED.filter((name) => sources[name] !== 'default').map(
    (name) => `${options[name].flag} is not served by this version: it would be ignored`,
  )
}
