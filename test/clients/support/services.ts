/** Services of all types with their endpoints, on two nodes, for clients that program a network. */
import type { Written } from '../../support/etcd-writer.js'
import type { World } from './stage.js'

const meta = (name: string, turn: string, more: object = {}): object => ({
  name,
  uid: `uid-${name}`,
  creationTimestamp: '2026-01-01T00:00:00Z',
  labels: { turn, 'kubernetes.io/service-name': name },
  ...more,
})

const node = (name: string, zone: string): object => ({
  kind: 'Node',
  apiVersion: 'v1',
  metadata: { ...meta(name, ''), labels: { 'topology.kubernetes.io/zone': zone, 'kubernetes.io/hostname': name } },
  spec: { podCIDR: '10.244.0.0/24', podCIDRs: ['10.244.0.0/24'] },
  status: { addresses: [{ type: 'InternalIP', address: '10.1.0.1' }] },
})

function service(name: string, turn: string, i: number, spec: object = {}, status: object = {}): object {
  const address = `10.96.${i >> 8}.${i & 255}`
  return {
    kind: 'Service',
    apiVersion: 'v1',
    metadata: meta(name, turn, { namespace: 'default' }),
    spec: {
      type: 'ClusterIP',
      clusterIP: address,
      clusterIPs: [address],
      ipFamilies: ['IPv4'],
      ipFamilyPolicy: 'SingleStack',
      internalTrafficPolicy: 'Cluster',
      sessionAffinity: 'None',
      ports: [
        { name: 'http', port: 80, targetPort: 8_080, protocol: 'TCP' },
        { name: 'dns', port: 53, targetPort: 53, protocol: 'UDP' },
      ],
      ...spec,
    },
    status: { loadBalancer: {}, ...status },
  }
}

interface Endpoint {
  readonly nodeName?: string
  readonly conditions?: object
  readonly zones?: readonly string[]
}

function slice(name: string, turn: string, i: number, endpoints: readonly Endpoint[]): object {
  return {
    kind: 'EndpointSlice',
    apiVersion: 'discovery.k8s.io/v1',
    metadata: meta(name, turn, { namespace: 'default' }),
    addressType: 'IPv4',
    endpoints: endpoints.map(({ nodeName = 'one', conditions = { ready: true }, zones }, place) => ({
      addresses: [`10.244.${i % 250}.${place + 1}`],
      conditions: { ready: true, serving: true, terminating: false, ...conditions },
      nodeName,
      ...(zones === undefined ? {} : { hints: { forZones: zones.map((zone) => ({ name: zone })) } }),
    })),
    ports: [
      { name: 'http', port: 8_080, protocol: 'TCP' },
      { name: 'dns', port: 53, protocol: 'UDP' },
    ],
  }
}

const TWO: readonly Endpoint[] = [{}, { nodeName: 'two' }]
const NODE_PORTS = {
  ports: [{ name: 'http', port: 80, targetPort: 8_080, protocol: 'TCP', nodePort: 30_080 }],
}

/** Names, with what the Service has beyond the ordinary, and its endpoints. */
const kinds: Readonly<Record<string, readonly [spec: object, endpoints: readonly Endpoint[], status?: object]>> = {
  plain: [{}, TWO],
  empty: [{}, []],
  'not-ready': [{}, [{ conditions: { ready: false, serving: false } }]],
  terminating: [{}, [{ conditions: { ready: false, terminating: true } }]],
  hinted: [{ trafficDistribution: 'PreferClose' }, [{ zones: ['a'] }, { nodeName: 'two', zones: ['b'] }]],
  sticky: [{ sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 600 } } }, TWO],
  internal: [{ internalTrafficPolicy: 'Local' }, TWO],
  headless: [{ clusterIP: 'None', clusterIPs: ['None'] }, TWO],
  external: [{ externalIPs: ['192.0.2.7'], externalTrafficPolicy: 'Cluster' }, TWO],
  'node-port': [{ type: 'NodePort', externalTrafficPolicy: 'Cluster', ...NODE_PORTS }, TWO],
  balanced: [
    {
      type: 'LoadBalancer',
      allocateLoadBalancerNodePorts: false,
      externalTrafficPolicy: 'Local',
      healthCheckNodePort: 30_999,
      loadBalancerSourceRanges: ['203.0.113.0/24'],
    },
    TWO,
    { loadBalancer: { ingress: [{ ip: '198.51.100.9', ipMode: 'VIP' }] } },
  ],
}

export function services(): World {
  let turns = 0
  const both = (
    name: string,
    turn: string,
    i: number,
    spec: object,
    endpoints: readonly Endpoint[],
    status: object = {},
  ): [string, Written][] => [
    [`/registry/services/specs/default/${name}`, service(name, turn, i, spec, status)],
    [`/registry/endpointslices/default/${name}`, slice(name, turn, i, endpoints)],
  ]
  const initial = new Map<string, Written>([
    ['/registry/minions/one', node('one', 'a')],
    ['/registry/minions/two', node('two', 'b')],
    ...Object.entries(kinds).flatMap(([name, [spec, endpoints, status]], i) =>
      both(name, '', i + 10, spec, endpoints, status),
    ),
    ...both('goes', '', 9, {}, TWO),
  ])
  return {
    initial,
    turn: (name) => {
      const i = 100 + ++turns
      return [
        // Endpoints come, stop being ready, and go.
        Object.fromEntries([['/registry/endpointslices/default/plain', slice('plain', name, i, [...TWO, {}])]]),
        { '/registry/endpointslices/default/sticky': slice('sticky', name, i, [{ conditions: { ready: false } }, {}]) },
        { '/registry/endpointslices/default/internal': turns % 2 === 0 ? slice('internal', name, i, TWO) : null },
        Object.fromEntries(both('goes', name, 9, {}, TWO).map(([key, value]) => [key, turns % 2 === 0 ? value : null])),
        Object.fromEntries(both(name, name, i, {}, TWO)),
      ]
    },
  }
}
