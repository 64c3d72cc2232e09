/**
 * Subresources of the built-in kinds that are known but not served here, each with its reason. The client gets the
 * reason instead of a 404, which it would take for a wrong name or an old server.
 *
 * The status is 501, because kubectl prints its message unchanged, even if it requested an upgraded connection, and
 * does not retry.
 *
 * Source: the API reference of Kubernetes.
 */
import { type ApiResource, resourceId } from '../model/api-resource.js'
import { NotImplementedError } from '../model/status.js'
import { subresourceServer } from './well-known-resources.js'

const REASONS: Readonly<Record<string, string>> = {
  '': 'only a kube-apiserver serves it',
  kubelet: 'the kubelet of its node serves it',
  network: "it connects to the cluster's network",
  tokens: 'only a kube-apiserver signs tokens',
}

/**
 * @param subresource including any path after it, such as `proxy/metrics`. Returns undefined for an unknown
 * subresource.
 */
export function unservedSubresourceError(
  resource: Pick<ApiResource, 'group' | 'plural'>,
  name: string,
  subresource: string,
): NotImplementedError | undefined {
  const id = resourceId(resource)
  const [first = ''] = subresource.split('/', 1)
  const server = subresourceServer(resource, first)
  if (server === undefined) return undefined
  const { group, plural } = resource
  const why = `${REASONS[server]!}; use an API server, or a server with --passthrough`
  return new NotImplementedError(`${first} of ${id} ${JSON.stringify(name)} is not served here: ${why}`, {
    details: { name, ...(group === '' ? {} : { group }), kind: plural },
  })
}
