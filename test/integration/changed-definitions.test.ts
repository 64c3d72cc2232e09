/**
 * A definition changes while its objects are read from another server. The objects that have not changed must look as
 * the new definition says, and a version that is no longer served must not be requested any more.
 */
import t from 'tap'
import { definitionObject } from '../support/definition.js'
import { startEtcd } from '../support/etcd-process.js'
import { EtcdWriter, type Written } from '../support/etcd-writer.js'
import { startServer } from '../support/server-process.js'
import { until } from '../support/until.js'

const DEFINITION = '/registry/apiextensions.k8s.io/customresourcedefinitions/widgets.example.com'
const WIDGET = '/registry/example.com/widgets/a'

/** @param color the default of a field. */
function definition(storage: string, color: string): Record<string, Written> {
  const schema = { type: 'object', properties: { color: { type: 'string', default: color } } }
  const versions = ['v1', 'v2'].map((name) => ({ name, schema, served: name === storage, storage: name === storage }))
  const definition = { group: 'example.com', plural: 'widgets', kind: 'Widget', scope: 'Cluster', versions } as const
  return { [DEFINITION]: definitionObject(definition) }
}

const widget = (version: string, more: object = {}): Record<string, Written> => ({
  [WIDGET]: { apiVersion: `example.com/${version}`, kind: 'Widget', metadata: { name: 'a' }, ...more },
})

/** Returns what several new connections see, so that every worker is likely to answer. */
async function colors(url: string, version: string): Promise<string> {
  const answers = Array.from({ length: 12 }, async () => {
    const path = `${url}/apis/example.com/${version}/widgets?resourceVersion=0`
    const response = await fetch(path, { headers: { connection: 'close' } })
    if (response.status !== 200) return String(response.status)
    const { items } = (await response.json()) as { items: readonly { color: string }[] }
    return items.map(({ color }) => color).join()
  })
  return [...new Set(await Promise.all(answers))].join(' ')
}

for (const [name, ...flags] of [['one process'], ['workers', '--workers=2']] as const) {
  void t.test(`objects are read by a changed definition, in its new version, with ${name}`, async (t) => {
    const etcd = await startEtcd(t)
    const writer = new EtcdWriter([etcd])
    await writer.commit({ ...definition('v1', 'red'), ...widget('v1') })
    const first = await startServer(t, { flags: [`--etcd-servers=${etcd.url}`] })
    const { url } = await startServer(t, { flags: [`--upstream=${first.url}`, ...flags] })
    await until(async () => (await colors(url, 'v1')) === 'red', 'it is served')
    await writer.commit(definition('v2', 'blue'))
    await until(async () => (await colors(url, 'v2')) === 'blue', 'the new version is served, with its default')
    await writer.commit(widget('v2', { color: 'green' }))
    await until(async () => (await colors(url, 'v2')) === 'green', 'a change of the object is served')
  })
}
