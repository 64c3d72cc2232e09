/**
 * Subresources of the built-in kinds that are known but not served here, each with its reason. The client learns the
 * reason instead of a 404, which it would take for a wrong name or an old server.
 *
 * 501: kubectl prints the message unchanged, even if it asked for an upgraded connection, and does not retry.
 *
 * Source: the API reference of Kubernetes.
 */
import { type Resource, resourceId } from '../../engine/model/resource.js'
import { NotImplementedError } from '../../engine/model/status.js'

const KUBELET = 'the kubelet of its node answers that, and there is none behind this server'
const NETWORK = "it leads into the cluster's network, and there is none behind this server"
const TOKENS = 'tokens are signed by a kube-apiserver, and there is none behind this server'
const CONTROL_PLANE = 'a kube-apiserver serves that, and there is none behind this server'

const REASONS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  pods: {
    log: KUBELET,
    exec: KUBELET,
    attach: KUBELET,
    portforward: KUBELET,
    proxy: KUBELET,
    binding: CONTROL_PLANE,
    ephemeralcontainers: CONTROL_PLANE,
    resize: CONTROL_PLANE,
  },
  nodes: { proxy: KUBELET },
  services: { proxy: NETWORK },
  serviceaccounts: { token: TOKENS },
  namespaces: { finalize: CONTROL_PLANE },
  'certificatesigningrequests.certificates.k8s.io': { approval: CONTROL_PLANE },
}

/** @param subresource with what may follow it: `proxy/metrics`. Returns undefined for an unknown subresource. */
export function unservedSubresourceError(
  resource: Pick<Resource, 'group' | 'plural'>,
  name: string,
  subresource: string,
): NotImplementedError | undefined {
  const id = resourceId(resource)
  const [first = ''] = subresource.split('/', 1)
  const reasons = Object.hasOwn(REASONS, id) ? REASONS[id]! : {}
  if (!Object.hasOwn(reasons, first)) return undefined
  const { group, plural } = resource
  return new NotImplementedError(`${first} of ${id} ${JSON.stringify(name)} is not served here: ${reasons[first]!}`, {
    details: { name, ...(group === '' ? {} : { group }), kind: plural },
  })
}
