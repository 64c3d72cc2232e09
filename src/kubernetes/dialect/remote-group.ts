/**
 * Group versions that another server serves (aggregated APIs), as discovery shows them: the content of that server's
 * own `/apis/{group}/{version}`, converted to aggregated discovery. Only the shape of the content is checked.
 */
import { isTrue, listAt, textAt, textsAt } from '../../support/fields.js'
import { getOrMake } from '../../support/memo.js'

export interface RemoteGroupVersion {
  readonly group: string
  readonly version: string
  /** The resources in the form of apidiscovery.k8s.io/v2; the last known ones while the server is unreachable. */
  readonly resources: readonly object[]
  /** False while the server does not respond. */
  readonly isCurrent: boolean
}

export interface RemoteGroups {
  /** Rises with every change. */
  readonly generation: number
  list(): readonly RemoteGroupVersion[]
}

/** More than any API server has in one version. The list is limited because every client gets it. */
const MAX_RESOURCES = 2_000

/**
 * @param content a parsed APIResourceList, of any shape.
 * @returns null if the content is not one, or belongs to another group version.
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
    const entry = { subresource: rest.join('/'), responseKind: kindOf(one), verbs: textsAt(one, 'verbs') }
    getOrMake(subresources, resource, () => []).push(entry)
  }
  return list
    .filter((one) => !textAt(one, 'name').includes('/'))
    .map((one) => {
      const name = textAt(one, 'name')
      const [shortNames, categories, below] = [
        textsAt(one, 'shortNames'),
        textsAt(one, 'categories'),
        subresources.get(name),
      ]
      return {
        resource: name,
        responseKind: kindOf(one),
        scope: isTrue(one, 'namespaced') ? 'Namespaced' : 'Cluster',
        singularResource: textAt(one, 'singularName'),
        verbs: textsAt(one, 'verbs'),
        ...(shortNames.length === 0 ? {} : { shortNames }),
        ...(categories.length === 0 ? {} : { categories }),
        ...(below === undefined ? {} : { subresources: below }),
      }
    })
}
