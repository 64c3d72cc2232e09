/** EndpointSlices of a Service, as their controller writes them. */

export interface SlicePod {
  readonly uid: string
  /** The name of the pod. */
  readonly name: string
  /** Default: true. */
  readonly ready?: boolean
  /** Default: false. */
  readonly terminating?: boolean
}

export function endpointSlice(name: string, service: string, pods: readonly SlicePod[], namespace = 'default'): object {
  return {
    kind: 'EndpointSlice',
    apiVersion: 'discovery.k8s.io/v1',
    metadata: { name, namespace, uid: `slice-${name}`, labels: { 'kubernetes.io/service-name': service } },
    addressType: 'IPv4',
    endpoints: pods.map(({ uid, name, ready = true, terminating = false }, i) => ({
      addresses: [`10.0.0.${i + 1}`],
      conditions: { ready: ready && !terminating, serving: ready, terminating },
      targetRef: { kind: 'Pod', namespace, name, uid },
    })),
    ports: [{ name: 'http', port: 8001, protocol: 'TCP' }],
  }
}
