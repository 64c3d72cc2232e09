/** Turns RESOURCE, NAME and the flags that select objects into a request to the server. */
import { resourcePath } from '../client/resource-path.js'
import type { Selection } from '../client/reflector/requests.js'
import { keyName } from '../support/key-name.js'
import { type FlagValues, inGroup } from './command.js'
import type { Connection } from './server-connection.js'
import { type ApiResource, discover, findResource } from './find-resource.js'
import { UsageError } from './exit-code.js'

export const selectionFlags = inGroup('Which objects', {
  namespace: {
    kind: 'string',
    short: 'n',
    placeholder: 'NAME',
    doc: 'Namespace. Default: the kubeconfig’s, else "default".',
  },
  'all-namespaces': { kind: 'boolean', short: 'A', doc: 'All namespaces.' },
  selector: {
    kind: 'string',
    short: 'l',
    placeholder: 'SELECTOR',
    doc: 'Label selector: app=web,tier!=db,env in (a,b),!canary.',
  },
  'field-selector': {
    kind: 'string',
    placeholder: 'SELECTOR',
    doc: 'Field selector: metadata.name=web-0, spec.nodeName=n1; on a declared prefix, any scalar field.',
  },
  prefix: {
    kind: 'string',
    placeholder: 'TEXT',
    doc: 'On a declared prefix: only keys that start with this text after the prefix, such as eu/.',
  },
})

export interface Chosen {
  /** null if a path was given instead of a name. */
  readonly resource: ApiResource | null
  /** Selects all chosen objects, using selectors. */
  readonly selection: Selection
  /** The names of single objects. If it is empty, all objects that match the selectors are chosen. */
  readonly names: readonly string[]
  /** Whether the objects may be in several namespaces. */
  readonly isAcross: boolean
  /** Text for messages such as `in default namespace`; '' for cluster-scoped resources. */
  readonly place: string
}

/**
 * Chooses objects of one resource.
 * @param args RESOURCE [NAME…], or RESOURCE/NAME, or a path that begins with a slash.
 * @throws CommandError
 */
export async function choose(
  connection: Connection,
  args: readonly string[],
  flags: FlagValues<typeof selectionFlags>,
  signal: AbortSignal,
): Promise<Chosen> {
  const [word = '', ...more] = args
  const selectors = {
    ...(flags.selector === null ? {} : { labelSelector: flags.selector }),
    ...(flags['field-selector'] === null ? {} : { fieldSelector: flags['field-selector'] }),
    ...(flags.prefix === null ? {} : { prefix: flags.prefix }),
  }
  if (word.startsWith('/')) {
    if (more.length > 0) throw new UsageError('a path cannot be followed by a name: append the name to the path')
    if (word.includes('?'))
      throw new UsageError('a path must not have a query: use --selector, --field-selector or --prefix')
    const selection = { path: word.replace(/\/+$/, ''), ...selectors }
    return { resource: null, selection, names: [], isAcross: !word.includes('/namespaces/'), place: '' }
  }
  const { typeName, names } = wantedOf(args)
  if (names.length > 0) {
    if (flags.selector !== null) throw new UsageError('names and --selector cannot be combined')
    if (flags.prefix !== null) throw new UsageError('names and --prefix cannot be combined')
    if (flags['all-namespaces']) {
      throw new UsageError('a name needs one namespace: drop -A or the name')
    }
  }
  const resource = findResource(await discover(connection, signal), typeName)
  const isAcross = resource.namespaced && flags['all-namespaces']
  const namespace = flags.namespace ?? (connection.namespace === '' ? 'default' : connection.namespace)
  const { group: apiGroup, version, plural, namespaced } = resource
  const path = resourcePath({
    group: apiGroup,
    version,
    plural,
    ...(namespaced && !isAcross ? { namespace } : {}),
  })
  const place = !namespaced ? '' : isAcross ? ' in any namespace' : ` in namespace ${namespace}`
  return { resource, selection: { path, ...selectors }, names, isAcross, place }
}

/** @throws UsageError */
function wantedOf([word = '', ...more]: readonly string[]): {
  readonly typeName: string
  readonly names: readonly string[]
} {
  const slashed = [word, ...more].find((one) => one.includes('/'))
  const [typeName = '', ...key] = word.split('/')
  if (slashed === undefined) return { typeName, names: more }
  if (slashed !== word) {
    const hint = `if you mean an etcd key, its name is ${keyName(slashed)}`
    throw new UsageError(`"${slashed}" names a resource, but "${word}" already does; ${hint}`)
  }
  if (more.length > 0) throw new UsageError(`"${word}" is RESOURCE/NAME, so no other name can follow`)
  const [name = '', ...deeper] = key
  if (typeName === '' || name === '') throw new UsageError(`"${word}" is not RESOURCE/NAME`)
  if (deeper.length > 0) {
    const hint = `if you mean an etcd key, write ${typeName}/${keyName(key.join('/'))}`
    throw new UsageError(`"${word}" is not RESOURCE/NAME; ${hint}`)
  }
  return { typeName, names: [name] }
}

/**
 * Returns the selection of a watch. The path of a watch contains no object name, so a field selector selects a single
 * object.
 * @throws UsageError for several.
 */
export function watchSelection({ selection, names }: Chosen): Selection {
  const [name, another] = names
  if (name === undefined) return selection
  if (another !== undefined) throw new UsageError('only one object can be watched by name: use --selector for several')
  const { fieldSelector } = selection
  const byName = `metadata.name=${name}`
  return { ...selection, fieldSelector: fieldSelector === undefined ? byName : `${byName},${fieldSelector}` }
}
