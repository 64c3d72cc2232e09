/** The row of a CustomResourceDefinition. */
import { isTrue, listAt, textAt } from '../../../support/fields.js'
import { conditionOf, column, NAME, printer } from './printer.js'

/** Go's zero time, which the API server prints for an object without a creation time. */
const ZERO_TIME = '0001-01-01T00:00:00Z'

export const definitionPrinter = printer(
  NAME,
  column('Scope', 'string', 'Cluster/Namespaced', (object) => textAt(object, 'spec', 'scope')),
  column('Versions', 'string', 'Served versions', servedVersions),
  column(
    'Created At',
    'date',
    'When the object was created.',
    (object) => textAt(object, 'metadata', 'creationTimestamp') || ZERO_TIME,
  ),
  column('Group', 'string', 'API group', (object) => textAt(object, 'spec', 'group'), { priority: 1 }),
  column('Kind', 'string', 'CustomResource kind', (object) => textAt(object, 'spec', 'names', 'kind'), { priority: 1 }),
  column('ShortNames', 'string', 'Short names', (object) => listAt(object, 'spec', 'names', 'shortNames').join(','), {
    priority: 1,
  }),
  column(
    'Established',
    'boolean',
    'Established status',
    (object) => textAt(conditionOf(object, 'Established'), 'status') === 'True',
    { priority: 1 },
  ),
)

function servedVersions(object: unknown): string {
  return listAt(object, 'spec', 'versions')
    .filter((version) => isTrue(version, 'served'))
    .map((version) => `${textAt(version, 'name')}${isTrue(version, 'storage') ? '(storage)' : ''}`)
    .sort()
    .join(',')
}
