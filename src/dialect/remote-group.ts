/**
 * Group versions that another server answers (aggregated APIs), as discovery shows them: what that server's own
 * `/apis/{group}/{version}` says, in the form of aggregated discovery. Nothing of it is believed but its shape.
 */
import { field, isTrue, listAt, textAt } from './table/fields.js'

export interface RemoteGroupVersion {
  readonly group: string
  readonly version: string
  /** As apidiscovery.k8s.io/v2 has them; of a server that is away, the last that were known. */
  readonly resources: readonly object[]
  /** false: that server does not say what it has now. */
  readonly isCurrent: boolean
}

export interface RemoteGroups {
  /** Rises with every change. */
  readonly generation: number
  list(): readonly RemoteGroupVersion[]
}

/** More than any API server has in one version: what is shown to everybody is bounded. */
const MAX_RESOURCES = 2_000

/**
 * @param content an APIResourceList, parsed, of any shape.
 * @returns null when it is none, or of another group version.
 */
export function readResourceList(content: unknown, group: string, version: string): readonly object[] | null {
  if (textAt(content, 'kind') !== 'APIResourceList' || textAt(content, 'groupVersion') !== `${group}/${version}`) {
    return null
  }
  const list = listAt(content, 'resources').filter((one) => textAt(one, 'name') !== '')
  if (list.length > MAX_RESOURCES) return null
  const kindOf = (one: unknown): object => ({
    group: textAt(one, 'group') || group,
    version: textAt(one, 'version') || version,
    kind: textAt(one, 'kind'),
  })
  const subresources = new Map<string, object[]>()
  for (const one of list) {
    const [resource = '', ...rest] = textAt(one, 'name').split('/')
    if (rest.length === 0) continue
    const entry = { subresource: rest.join('/'), responseKind: kindOf(one), verbs: texts(one, 'verbs') }
    const before = subresources.get(resource)
    if (before === undefined) subresources.set(resource, [entry])
    else before.push(entry)
  }
  return list
    .filter((one) => !textAt(one, 'name').includes('/'))
    .map((one) => {
      const name = textAt(one, 'name')
      const [shortNames, categories, below] = [
        texts(one, 'shortNames'),
        texts(one, 'categories'),
        subresources.get(name),
      ]
      return {
        resource: name,
        responseKind: kindOf(one),
        scope: isTrue(one, 'namespaced') ? 'Namespaced' : 'Cluster',
        singularResource: textAt(one, 'singularName'),
        verbs: texts(one, 'verbs'),
        ...(shortNames.length === 0 ? {} : { shortNames }),
        ...(categories.length === 0 ? {} : { categories }),
        ...(below === undefined ? {} : { subresources: below }),
      }
    })
}

function texts(value: unknown, name: string): readonly string[] {
  const found = field(value, name)
  return Array.isArray(found) ? found.filter((text): text is string => typeof text === 'string') : []
}
