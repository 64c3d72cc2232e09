import type { DefinitionSet } from '../definition-set.js'
import { changes, definitions } from './definitions.js'
import { counts, makers, stored, values } from './objects.js'

export const first: DefinitionSet = { definitions, changes, counts, makers, stored, values }
