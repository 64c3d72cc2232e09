/**
 * `npm run generate`: everything in the repository that is derived from something else in it. The results are
 * committed, so that they can be read and linked to without building; a test checks that they are current.
 */
import { readdirSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { optionsSchema } from './option-rows.js'
import { chartPage } from './chart-page.js'
import { withCapacity, withLoads } from './capacity.js'
import { recordedRows } from './recorded.js'
import { withScaling } from './scaling.js'
import { clientReferencePage } from './client-reference.js'
import { clientsPage } from './clients-page.js'
import { commandsPage } from './commands-page.js'
import { withLimits } from './limits-page.js'
import { metricsPage } from './metrics-page.js'
import { optionsPage } from './options-page.js'
import { OWNED, withOwner } from './owner.js'
import { readText, root } from './repository.js'
import { thirdPartyLicences } from './third-party.js'

const CHART = 'helm/distributary/'
const VALUES_SCHEMA = `${CHART}values.schema.json`

/** Content by path in the repository. */
export async function generated(): Promise<ReadonlyMap<string, string>> {
  const schema = valuesSchema(readText(VALUES_SCHEMA))
  const files = new Map([
    ['docs/reference/options.md', optionsPage()],
    ['docs/reference/metrics.md', await metricsPage()],
    ['docs/reference/commands.md', commandsPage()],
    ['docs/reference/client-reference.md', clientReferencePage()],
    ['docs/reference/tested-clients.md', clientsPage()],
    ['docs/reference/limits.md', withLimits(readText('docs/reference/limits.md'))],
    ['docs/guide/operations.md', withCapacity(readText('docs/guide/operations.md'), recordedRows())],
    ['deploy/SCALING.md', withScaling(readText('deploy/SCALING.md'), recordedRows())],
    ['README.md', withLoads(readText('README.md'), recordedRows())],
    [VALUES_SCHEMA, schema],
    [`${CHART}README.md`, chartReadme(schema)],
    // A chart cannot read files outside its own folder.
    ['helm/distributary/files/rules.yaml', readText('deploy/prometheus/rules.yaml')],
    ['helm/distributary/files/dashboard.json', readText('deploy/grafana/distributary.json')],
    ['THIRD-PARTY-LICENSES.txt', thirdPartyLicences()],
  ])
  for (const path of OWNED) files.set(path, withOwner(files.get(path) ?? readText(path)))
  return files
}

function chartReadme(schema: string): string {
  const modes = readdirSync(`${root}${CHART}ci`).toSorted()
  return chartPage({
    values: readText(`${CHART}values.yaml`),
    schema,
    chart: readText(`${CHART}Chart.yaml`),
    modes: new Map(modes.map((file) => [file.replace('.yaml', ''), readText(`${CHART}ci/${file}`)])),
  })
}

/** Only the server's options among the chart's values are generated; the others are written by hand. */
function valuesSchema(written: string): string {
  const schema = JSON.parse(written) as { properties: Record<string, unknown> }
  const { $schema: _, ...config } = optionsSchema()
  schema.properties['config'] = config
  return `${JSON.stringify(schema, null, 2)}\n`
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const [path, content] of await generated()) writeFileSync(root + path, content)
}
