import type { DefinitionSet } from './definition-set.js'
import { first } from './first/set.js'
import { second } from './second/set.js'

/** By the name under which `--definitions` chooses one. */
export const sets: Readonly<Record<string, DefinitionSet>> = { first, second }
