import type { DefinitionSet } from '../definition-set.js'
import { changes, definitions } from './definitions.js'
import { counts, makers, stored, values } from './objects.js'

export const second: DefinitionSet = { definitions, changes, counts, makers, stored, values }
