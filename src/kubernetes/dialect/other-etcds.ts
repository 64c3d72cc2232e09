/**
 * Finds the keys of the resources that `--etcd-servers-overrides` places in other etcds. A resource for which an API
 * server would ignore the flag is refused, because its objects would then be in the main etcd.
 *
 * Source: the storage factory of k8s.io/apiserver and its use in kube-apiserver. The flag applies only to compiled-in
 * resources other than CustomResourceDefinitions and APIServices. Kinds with the same keys go by the name of the
 * first.
 */
import type { Key } from '../../engine/model/event.js'
import { type ApiResource, resourceId } from '../model/api-resource.js'
import { BASIC_RESOURCES } from './declared-resource.js'
import { wellKnownResources } from './well-known-resources.js'

export interface OtherEtcd {
  readonly servers: readonly string[]
  /** Ids of its resources: `events`, `leases.coordination.k8s.io`. */
  readonly resources: readonly string[]
  /** The prefixes of its resources. */
  readonly prefixes: readonly Key[]
}

export interface ServersOverride extends Pick<ApiResource, 'group' | 'plural'> {
  readonly servers: readonly string[]
}

/** @returns one etcd per set of servers, in the order of their first mention, and one sentence per problem. */
export function resolveOtherEtcds(
  etcdPrefix: string,
  overrides: readonly ServersOverride[],
): { readonly etcds: readonly OtherEtcd[]; readonly problems: readonly string[] } {
  const known = wellKnownResources(etcdPrefix).map(({ resource }) => resource)
  const etcds = new Map<string, { servers: readonly string[]; resources: string[]; prefixes: Key[] }>()
  const problems: string[] = []
  const seen = new Set<Key>()
  for (const { group, plural, servers } of overrides) {
    const name = `--etcd-servers-overrides: ${group}/${plural}`
    const resource = known.find((one) => one.group === group && one.plural === plural)
    if (resource === undefined) {
      problems.push(`${name} is not a resource of Kubernetes; custom resources are always in the main etcd`)
      continue
    }
    const stored = known.find((one) => one.etcdPrefix === resource.etcdPrefix) ?? resource
    if (BASIC_RESOURCES.has(resourceId(resource)))
      problems.push(`${name}: resources and permissions are derived from it, so it must be in the main etcd`)
    else if (stored.group !== group)
      problems.push(`${name}: the API server stores it as ${stored.group}/${stored.plural}, and accepts only that name`)
    else if (seen.has(resource.etcdPrefix)) problems.push(`${name} is named twice`)
    seen.add(resource.etcdPrefix)
    const id = servers.toSorted().join()
    const etcd = etcds.get(id) ?? { servers, resources: [], prefixes: [] }
    etcds.set(id, etcd)
    etcd.resources.push(resourceId(resource))
    etcd.prefixes.push(resource.etcdPrefix)
  }
  return { etcds: [...etcds.values()], problems }
}

/** Returns the other etcd that has the resource or a declared prefix below it; undefined for the main etcd. */
export function otherOf<E extends OtherEtcd>(
  etcds: readonly E[],
  { etcdPrefix }: Pick<ApiResource, 'etcdPrefix'>,
): E | undefined {
  return etcds.find(({ prefixes }) => prefixes.some((prefix) => etcdPrefix.startsWith(prefix)))
}
