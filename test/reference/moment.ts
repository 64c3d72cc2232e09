/**
 * The resources and objects that exist at one moment, read from the API server while nothing is written. Questions
 * are generated from them.
 */
import { discover, groupPath, type Served } from './discovered.js'
import type { Moment, Shelf } from './questions.js'
import { get, revisionFor, type World } from './world.js'

interface Listed {
  readonly metadata: { readonly name: string; readonly namespace?: string; readonly resourceVersion: string }
}

/** Whether a resource is one of those in `--resource` (`pods`, `deployments.apps`), or none was given. */
export function isNamed({ plural, group }: { plural: string; group: string }, names: readonly string[]): boolean {
  return names.length === 0 || names.includes(plural) || names.includes(`${plural}.${group}`)
}

/** @param isWanted filters the discovered resources. */
export async function readMoment(
  world: World,
  values: Moment['values'],
  isWanted: (served: Served) => boolean = () => true,
): Promise<Moment> {
  const shelves: Shelf[] = []
  const all: Record<string, readonly string[]> = { ...values }
  const listed = new Map<string, readonly Listed[]>()
  const wanted = (await discover(world.theirs)).filter((one) => one.verbs.includes('list') && isWanted(one))
  for (const served of wanted) {
    const { group, version, plural, isNamespaced, subresources } = served
    const key = `${plural}.${group}`
    if (!listed.has(key)) listed.set(key, await list(world, served))
    const objects = listed.get(key)!
    const fields = await selectableFields(world, served)
    for (const field of fields) all[field] ??= valuesAt(objects, field)
    shelves.push({
      group,
      version,
      plural,
      isNamespaced,
      subresources: subresources
        .filter(({ verbs }) => verbs.includes('get'))
        .map(({ name }) => name)
        .filter((name) => !STREAMS.includes(name)),
      fields,
      objects: objects.map(({ metadata }) => ({
        name: metadata.name,
        namespace: metadata.namespace ?? '',
        revision: Number(metadata.resourceVersion),
      })),
      revision: await revisionFor(world, plural),
    })
  }
  return { shelves, values: all }
}

/** Subresources that answer GET requests, but from the node or service behind the object. */
const STREAMS = ['attach', 'exec', 'log', 'portforward', 'proxy']

/** Lists a resource at the API server; empty when this version cannot show the list. */
async function list(world: World, { group, version, plural }: Served): Promise<readonly Listed[]> {
  const answer = await get(world.theirs, `${groupPath(group, version)}/${plural}`)
  return answer.code === 200 ? (JSON.parse(answer.body.toString()) as { items: readonly Listed[] }).items : []
}

async function selectableFields(world: World, { group, version, plural }: Served): Promise<string[]> {
  const fields = KNOWN.filter(([resource]) => resource === `${plural}.${group}`).flatMap(([, ...labels]) => labels)
  if (fields.length > 0) return fields
  const { code, body } = await get(
    world.theirs,
    `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${plural}.${group}`,
  )
  if (code !== 200) return []
  const { spec } = JSON.parse(body.toString()) as Defined
  return (spec.versions.find(({ name }) => name === version)?.selectableFields ?? []).map(({ jsonPath }) =>
    jsonPath.slice(1),
  )
}

interface Defined {
  readonly spec: {
    readonly versions: readonly { readonly name: string; readonly selectableFields?: readonly { jsonPath: string }[] }[]
  }
}

/** Field labels of built-in kinds, which discovery does not list. */
const KNOWN: readonly (readonly string[])[] = [
  ['pods.', 'spec.nodeName', 'spec.restartPolicy', 'spec.schedulerName', 'spec.serviceAccountName', 'spec.hostNetwork', 'status.phase', 'status.podIP', 'status.nominatedNodeName'],
  ['nodes.', 'spec.unschedulable'],
  ['services.', 'spec.clusterIP', 'spec.type'],
  ['secrets.', 'type'],
  ['namespaces.', 'status.phase'],
  ['replicationcontrollers.', 'status.replicas'],
  ['jobs.batch', 'status.successful'],
  ['certificatesigningrequests.certificates.k8s.io', 'spec.signerName'],
  ['clustertrustbundles.certificates.k8s.io', 'spec.signerName'],
  ['podcertificaterequests.certificates.k8s.io', 'spec.signerName', 'spec.podName', 'spec.nodeName'],
  ['resourceslices.resource.k8s.io', 'spec.nodeName', 'spec.driver'],
  ['events.', 'type', 'reason', 'source', 'reportingComponent', 'involvedObject.kind', 'involvedObject.name', 'involvedObject.uid'],
  ['events.events.k8s.io', 'type', 'reason', 'source', 'reportingController', 'regarding.kind', 'regarding.name'],
] // prettier-ignore

function valuesAt(objects: readonly object[], label: string): readonly string[] {
  const values = objects.map((object) => {
    let value: unknown = object
    for (const step of label.split('.')) value = (value as Record<string, unknown> | undefined)?.[step]
    return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' ? String(value) : ''
  })
  return [...new Set(['', ...values])].slice(0, 6)
}
