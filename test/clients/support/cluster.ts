/** Nodes, pods, services and their dependents as in a small cluster, for clients that watch several kinds. */
import { pod } from '../../support/pod.js'
import type { Written } from '../../support/etcd-writer.js'
import type { World } from './stage.js'

const meta = (name: string, turn: string, namespace?: string): object => ({
  name,
  ...(namespace === undefined ? {} : { namespace }),
  uid: `uid-${name}`,
  creationTimestamp: '2026-01-01T00:00:00Z',
  labels: { turn, app: name, 'kubernetes.io/service-name': name },
})

const node = (name: string, turn: string): object => ({
  kind: 'Node',
  apiVersion: 'v1',
  metadata: meta(name, turn),
  status: {
    addresses: [{ type: 'InternalIP', address: '10.1.0.1' }],
    daemonEndpoints: { kubeletEndpoint: { Port: 1 } },
  },
})

const runningPod = (name: string, turn: string): object =>
  pod(name, {
    labels: { turn },
    spec: { nodeName: 'n0', containers: [{ name: 'c', image: 'i', ports: [{ name: 'http', containerPort: 80 }] }] },
    status: { phase: 'Running', podIP: '10.2.0.1', hostIP: '10.1.0.1' } as never,
  })

const service = (name: string, turn: string, address: string): object => ({
  kind: 'Service',
  apiVersion: 'v1',
  metadata: meta(name, turn, 'default'),
  spec: {
    type: 'ClusterIP',
    clusterIP: address,
    clusterIPs: [address],
    ports: [{ name: 'http', port: 80, targetPort: 8_080, protocol: 'TCP' }],
  },
})

const slice = (name: string, turn: string, address: string): object => ({
  kind: 'EndpointSlice',
  apiVersion: 'discovery.k8s.io/v1',
  metadata: meta(name, turn, 'default'),
  addressType: 'IPv4',
  endpoints: [{ addresses: [address], conditions: { ready: true } }],
  ports: [{ name: 'http', port: 8_080, protocol: 'TCP' }],
})

const endpoints = (name: string, turn: string, address: string): object => ({
  kind: 'Endpoints',
  apiVersion: 'v1',
  metadata: meta(name, turn, 'default'),
  subsets: [{ addresses: [{ ip: address }], ports: [{ name: 'http', port: 8_080, protocol: 'TCP' }] }],
})

const ingress = (name: string, turn: string): object => ({
  kind: 'Ingress',
  apiVersion: 'networking.k8s.io/v1',
  metadata: meta(name, turn, 'default'),
  spec: {
    rules: [
      {
        host: `${name}.example`,
        http: {
          paths: [{ path: '/', pathType: 'Prefix', backend: { service: { name: 'web', port: { number: 80 } } } }],
        },
      },
    ],
  },
})

/** The paths of its kinds, by name in lower case. */
export const kindPaths = {
  node: '/api/v1/nodes',
  pod: '/api/v1/pods',
  service: '/api/v1/services',
  endpoints: '/api/v1/endpoints',
  endpointslice: '/apis/discovery.k8s.io/v1/endpointslices',
  ingress: '/apis/networking.k8s.io/v1/ingresses',
} as const

/** Objects named `name` in all kinds; `i` selects their addresses. */
function everything(name: string, turn: string, i: number): Record<string, Written> {
  return {
    [`/registry/minions/${name}`]: node(name, turn),
    [`/registry/pods/default/${name}`]: runningPod(name, turn),
    [`/registry/services/specs/default/${name}`]: service(name, turn, `10.96.0.${i}`),
    [`/registry/services/endpoints/default/${name}`]: endpoints(name, turn, `10.2.0.${i}`),
    [`/registry/endpointslices/default/${name}`]: slice(name, turn, `10.2.0.${i}`),
    [`/registry/ingress/default/${name}`]: ingress(name, turn),
  }
}

const nothing = (name: string): Record<string, Written> =>
  Object.fromEntries(Object.keys(everything(name, '', 0)).map((key) => [key, null]))

/**
 * In each turn `web` changes in all kinds, including its addresses; `old` is deleted and recreated; and an object named
 * after the turn is created.
 */
export function cluster(): World {
  let turns = 0
  const namespace = { kind: 'Namespace', apiVersion: 'v1', metadata: { name: 'default' }, status: { phase: 'Active' } }
  const initial = {
    '/registry/namespaces/default': namespace,
    ...everything('web', 'start', 1),
    ...everything('old', 'start', 2),
    ...everything('still', 'start', 3),
  }
  return {
    initial: new Map(Object.entries(initial)),
    turn: (name) => {
      const i = 10 + 3 * turns++
      return [nothing('old'), everything('web', name, i), everything('old', name, i + 1), everything(name, name, i + 2)]
    },
  }
}
