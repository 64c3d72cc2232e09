/**
 * Checks that objects are created only in a namespace that exists and is not being deleted. If Namespaces are not
 * served, there is no such check. The four namespaces that Kubernetes creates by itself are created here when first
 * written to, so that an empty etcd can be used.
 */
import { record, textMember } from '../codec/json-tree.js'
import { objectNotFoundError } from '../dialect/status-body.js'
import type { ServedResource } from '../dialect/resource-registry.js'
import { resourceId } from '../model/api-resource.js'
import { AlreadyExistsError, ForbiddenError } from '../model/status.js'
import { isDeleting } from './object-change.js'
import type { Compare } from '../../engine/upstream/upstream.js'
import { guardOf, type Held, type ObjectStore } from './object-store.js'

const MADE_BY_THEMSELVES: ReadonlySet<string> = new Set(['default', 'kube-system', 'kube-public', 'kube-node-lease'])

export interface NamespacesOptions {
  readonly store: ObjectStore
  readonly find: () => ServedResource | undefined
  /** Creates a Namespace. */
  readonly create: (served: ServedResource, name: string) => Promise<unknown>
}

export class Namespaces {
  constructor(private readonly options: NamespacesOptions) {}

  /**
   * @param isDryRun whether the request is a dry run, which does not create a missing namespace either.
   * @returns the keys that must not change until the object is written.
   * @throws NotFoundError, ForbiddenError
   */
  async assertOpen(
    served: ServedResource,
    namespace: string,
    name: string,
    isDryRun: boolean,
  ): Promise<readonly Compare[]> {
    const namespaces = this.options.find()
    if (namespaces === undefined || !served.resource.namespaced || served.origin === 'declared') return []
    const held = await this.options.store.read({ served: namespaces, namespace: '', name: namespace })
    if (held !== null) {
      assertStays(held, served, namespace, name)
      return [guardOf(held)]
    }
    if (!MADE_BY_THEMSELVES.has(namespace)) throw objectNotFoundError(namespaces.resource, namespace)
    if (isDryRun) return []
    try {
      await this.options.create(namespaces, namespace)
    } catch (error) {
      if (!(error instanceof AlreadyExistsError)) throw error
    }
    return await this.assertOpen(served, namespace, name, isDryRun)
  }
}

function assertStays({ object }: Held, { resource }: ServedResource, namespace: string, name: string): void {
  if (!isDeleting(object) && textMember(object, 'status', 'phase') !== 'Terminating') return
  const why = `unable to create new content in namespace ${namespace} because it is being terminated`
  throw new ForbiddenError(`${resourceId(resource)} ${JSON.stringify(name)} is forbidden: ${why}`, {
    details: {
      name,
      group: resource.group,
      kind: resource.plural,
      causes: [
        {
          reason: 'NamespaceTerminating',
          message: `namespace ${namespace} is being terminated`,
          field: 'metadata.namespace',
        },
      ],
    },
  })
}

export function bareNamespace(name: string) {
  return record({ metadata: record({ name }) })
}
