/** The row of a CustomResourceDefinition. */
import { isTrue, listAt, textAt } from '../../../support/fields.js'
import { column, conditionOf, items, named, text } from './printer.js'

/** Go's zero time, which the API server prints for an object without a creation time. */
const ZERO_TIME = '0001-01-01T00:00:00Z'

export const definitionPrinter = named(
  column('Scope', 'Cluster/Namespaced', 'spec.scope'),
  column('Versions', 'Served versions', servedVersions),
  column('Created At', 'When the object was created.', text('metadata.creationTimestamp', ZERO_TIME), { type: 'date' }),
  column('Group', 'API group', 'spec.group', { priority: 1 }),
  column('Kind', 'CustomResource kind', 'spec.names.kind', { priority: 1 }),
  column('ShortNames', 'Short names', items('spec.names.shortNames'), {
    priority: 1,
  }),
  column(
    'Established',
    'Established status',
    (object) => textAt(conditionOf(object, 'Established'), 'status') === 'True',
    { type: 'boolean', priority: 1 },
  ),
)

function servedVersions(object: unknown): string {
  return listAt(object, 'spec', 'versions')
    .filter((version) => isTrue(version, 'served'))
    .map((version) => `${textAt(version, 'name')}${isTrue(version, 'storage') ? '(storage)' : ''}`)
    .sort()
    .join(',')
}
