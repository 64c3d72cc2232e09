import type { DefinitionSet } from './definition-set.js'
import { first } from './first/set.js'
import { second } from './second/set.js'

const sets: readonly DefinitionSet[] = [first, second]

/** Both sets combined. Their names do not overlap. */
export const everySet: DefinitionSet = {
  definitions: sets.flatMap(({ definitions }) => definitions),
  changes: sets.flatMap(({ changes }) => changes),
  counts: Object.assign({}, ...sets.map(({ counts }) => counts)) as DefinitionSet['counts'],
  makers: Object.assign({}, ...sets.map(({ makers }) => makers)) as DefinitionSet['makers'],
  stored: sets.flatMap(({ stored }) => stored),
  values: Object.assign({}, ...sets.map(({ values }) => values)) as DefinitionSet['values'],
}

/** The part of a set that concerns the wanted definitions. */
export function onlyOf(
  set: DefinitionSet,
  isWanted: (definition: { plural: string; group: string }) => boolean,
): DefinitionSet {
  const definitions = set.definitions.filter(isWanted)
  const plurals = new Set(definitions.map(({ plural }) => plural))
  return {
    ...set,
    definitions,
    changes: set.changes.filter(({ definition }) => isWanted(definition)),
    counts: Object.fromEntries(Object.entries(set.counts).filter(([plural]) => plurals.has(plural))),
    stored: set.stored.filter(({ key }) =>
      definitions.some(({ group, plural }) => key.startsWith(`${group}/${plural}/`)),
    ),
  }
}
