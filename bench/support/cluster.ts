/**
 * A model of a cluster for the bench: what its nodes watch, what is in etcd at the start, and how that changes.
 *
 * The changes come in rounds of a hundred events, always the same. In a round ten pods of deployments are replaced:
 * each is created, bound to a node, started and ready, and later terminating and deleted, once another has taken its
 * place. Endpoint slices follow, nodes report their status, a few config maps and a service change, and so do custom
 * resources: nine in a round belong to one node each, and one is watched by all nodes. Kubernetes objects are stored as
 * protobuf, derived from a pod that a real API server had stored; custom resources are JSON.
 */
import { decodeObject } from '../../src/kubernetes/codec/protobuf/decode.js'
import { encodeObject } from '../../src/kubernetes/codec/protobuf/encode-object.js'
import { kubernetesSchema } from '../../src/kubernetes/codec/protobuf/schema.js'
import { treeFrom, type JsonRecord } from '../../src/kubernetes/codec/json-tree.js'
import { apiServer120 } from '../../test/support/protobuf-data.js'
import { type BenchObject, type BenchResource, customResource, EMPTY_MARK, MAGIC } from './objects.js'
import type { WatchPath } from './watchers.js'

/** Everything, or only the part that a server of custom resources has. */
export type ClusterPart = 'everything' | 'custom resources'

export interface Cluster {
  readonly resources: readonly BenchResource[]
  /** The objects that are in etcd at the start. */
  readonly written: readonly BenchObject[]
  /** The changes, in whole rounds, which start over after the last one. */
  readonly changes: readonly BenchObject[]
  /** For each change, the class of watchers that must receive it. */
  readonly classes: readonly (number | null)[]
  readonly eventsOfRound: number
  /** The number of deliveries in a round: of events for one node, and of events for all nodes. */
  readonly ownDeliveries: number
  readonly sharedDeliveries: number
  /** The number of deliveries of deletions in a round. */
  readonly deletions: number
  /** The watches of each node. */
  paths(afterRevision: number): readonly WatchPath[]
}

/** The kinds for which delays are reported separately. */
export const clusterKinds = ['pods', 'node', 'config', 'custom', 'services', 'slices', 'policies'] as const
type Kind = (typeof clusterKinds)[number]

const PODS_REPLACED = 10
const OLD_ROUNDS = 3
const PODS_OF_NODE = 30
const CONFIGS_OF_NODE = 5
const ENDPOINTS = 20
/** On each node, a kubelet and two agents watch its pods. */
const POD_WATCHERS = 3
/** On each node, a kubelet and a proxy watch the node. */
const NODE_WATCHERS = 2
const SERVICE_WATCHERS = 2

const own = customResource('nodesetting')
const shared = customResource('policy')

export interface Change {
  readonly object: BenchObject
  readonly owed: number | null
}

export function clusterOf(nodes: number, part: ClusterPart): Cluster {
  const classes = classesOf(nodes)
  const maker = new Maker()
  const rounds = Math.max(OLD_ROUNDS + 1, Math.ceil(nodes / PODS_REPLACED))
  const changes = Array.from({ length: rounds }, (_, round) => changesOf(round, rounds, nodes, classes, maker, part))
  const all = changes.flat()
  const isAll = part === 'everything'
  return {
    resources: [own, shared],
    written: isAll ? initialObjects(nodes, maker) : initialCustomObjects(nodes, maker),
    changes: all.map(({ object }) => object),
    classes: all.map(({ owed }) => owed),
    eventsOfRound: changes[0]!.length,
    ownDeliveries: isAll
      ? PODS_REPLACED * 4 * POD_WATCHERS + COUNTS.node * NODE_WATCHERS + COUNTS.config + COUNTS.custom
      : COUNTS.custom,
    sharedDeliveries: nodes * ((isAll ? COUNTS.slices + COUNTS.services * SERVICE_WATCHERS : 0) + COUNTS.policies),
    deletions: isAll ? PODS_REPLACED * POD_WATCHERS : 0,
    paths: (afterRevision) => pathsOf(classes, part, afterRevision),
  }
}

/** How many changes of each kind a round has. The rest of a hundred are the six changes of each replaced pod. */
const COUNTS = { node: 14, config: 5, custom: 9, services: 1, slices: 10, policies: 1 } as const

type Classes = Readonly<Record<Kind, { readonly class: number; readonly isEach: boolean }>>

function classesOf(nodes: number): Classes {
  const each = (index: number) => ({ class: index * nodes, isEach: true })
  const one = (index: number) => ({ class: 4 * nodes + index, isEach: false })
  return {
    pods: each(0),
    node: each(1),
    config: each(2),
    custom: each(3),
    services: one(0),
    slices: one(1),
    policies: one(2),
  }
}

const PROTOBUF = 'application/vnd.kubernetes.protobuf;stream=watch'

function pathsOf(classes: Classes, part: ClusterPart, afterRevision: number): WatchPath[] {
  const query = `watch=1&allowWatchBookmarks=true&timeoutSeconds=3600&resourceVersion=${afterRevision}`
  const watch = (path: string, kind: Kind | null, accept: string, selector = ''): WatchPath => ({
    path: `${path}?${query}${selector === '' ? '' : `&fieldSelector=${selector.replaceAll('=', '%3D')}`}`,
    accept,
    ...(kind === null ? {} : { kind, owed: classes[kind] }),
  })
  const ofNode = 'spec.nodeName=n{c}'
  const agents = [
    watch(shared.path, 'policies', 'application/json'),
    watch(own.path, 'custom', 'application/json', ofNode),
  ]
  if (part !== 'everything') return agents
  const single = (plural: string, isFirstOwed: boolean): WatchPath[] =>
    Array.from({ length: CONFIGS_OF_NODE }, (_, i) =>
      watch(
        `/api/v1/namespaces/bench/${plural}`,
        isFirstOwed && i === 0 ? 'config' : null,
        PROTOBUF,
        `metadata.name=n{c}-${i}`,
      ),
    )
  const kubelet = [
    watch('/api/v1/pods', 'pods', PROTOBUF, ofNode),
    watch('/api/v1/nodes', 'node', PROTOBUF, 'metadata.name=n{c}'),
    watch('/api/v1/services', 'services', PROTOBUF),
    ...single('configmaps', true),
    ...single('secrets', false),
  ]
  const proxy = [
    watch('/api/v1/services', 'services', PROTOBUF),
    watch('/apis/discovery.k8s.io/v1/endpointslices', 'slices', PROTOBUF),
    watch('/api/v1/nodes', 'node', PROTOBUF, 'metadata.name=n{c}'),
  ]
  const pods = watch('/api/v1/pods', 'pods', 'application/json', ofNode)
  return [...kubelet, ...proxy, pods, pods, watch('/api/v1/namespaces', null, 'application/json'), ...agents]
}

function changesOf(
  round: number,
  rounds: number,
  nodes: number,
  classes: Classes,
  maker: Maker,
  part: ClusterPart,
): Change[] {
  const serial = (kind: keyof typeof COUNTS, i: number): number => round * COUNTS[kind] + i
  const owner = (kind: 'pods' | 'node' | 'config' | 'custom', node: number): number => classes[kind].class + node
  const times = (count: number, make: (i: number) => Change): Change[] =>
    Array.from({ length: count }, (_, i) => make(i))
  const custom = [
    ...times(COUNTS.custom, (i) => {
      const node = (serial('custom', i) * 7) % nodes
      return { object: maker.custom(own, `n${node}`, `n${node}`), owed: owner('custom', node) }
    }),
    ...times(COUNTS.policies, () => ({
      object: maker.custom(shared, `policy-${round % 50}`, ''),
      owed: classes.policies.class,
    })),
  ]
  if (part !== 'everything') return custom
  const podSteps = (steps: readonly PodStep[], of: number): Change[][] =>
    steps.map((step) =>
      times(PODS_REPLACED, (i) => {
        const pod = of * PODS_REPLACED + i
        const node = (pod * 13) % nodes
        const isSeen = step !== 'created' && step !== 'deleted'
        return { object: maker.pod(`rolling-${pod}`, node, step), owed: isSeen ? owner('pods', node) : null }
      }),
    )
  const [created, bound, started, ready] = podSteps(['created', 'bound', 'started', 'ready'], round)
  // Delete a pod that was created some rounds ago. Both changes are in one round, because a deletion repeats the marker
  // of the change before it.
  const [terminating, deleted] = podSteps(['terminating', 'deleted'], (round + rounds - OLD_ROUNDS) % rounds)
  const others = [
    ...times(COUNTS.slices, (i) => ({
      object: maker.slice(serial('slices', i) % servicesOf(nodes)),
      owed: classes.slices.class,
    })),
    ...times(COUNTS.node, (i) => {
      const node = (serial('node', i) * 11) % nodes
      return { object: maker.node(node), owed: owner('node', node) }
    }),
    ...times(COUNTS.config, (i) => {
      const node = (serial('config', i) * 17) % nodes
      return { object: maker.config('configmaps', node, 0), owed: owner('config', node) }
    }),
    ...times(COUNTS.services, () => ({
      object: maker.service(round % servicesOf(nodes)),
      owed: classes.services.class,
    })),
    ...custom,
  ]
  const groups = [created!, bound!, started!, ready!, terminating!, deleted!]
  // Spread the changes, so that no second has only pods or only endpoint slices.
  return groups.flatMap((group, at) => [...group, ...others.filter((_, i) => i % groups.length === at)])
}

const servicesOf = (nodes: number): number => Math.max(20, Math.ceil(nodes / 4))

function initialObjects(nodes: number, maker: Maker): BenchObject[] {
  const each = Array.from({ length: nodes }, (_, node) => [
    maker.node(node),
    ...Array.from({ length: PODS_OF_NODE }, (__, i) => maker.pod(`standing-${node}-${i}`, node, 'ready')),
    ...['configmaps', 'secrets'].flatMap((plural) =>
      Array.from({ length: CONFIGS_OF_NODE }, (__, i) => maker.config(plural, node, i)),
    ),
  ])
  const services = Array.from({ length: servicesOf(nodes) }, (_, i) => [maker.service(i), maker.slice(i)])
  return [...each.flat(), ...services.flat(), ...initialCustomObjects(nodes, maker)]
}

function initialCustomObjects(nodes: number, maker: Maker): BenchObject[] {
  return Array.from({ length: nodes }, (_, node) => maker.custom(own, `n${node}`, `n${node}`))
}

type PodStep = 'created' | 'bound' | 'started' | 'ready' | 'terminating' | 'deleted'

type Members = Readonly<Record<string, unknown>>

/** Makes objects as an API server stores them, each with an empty marker in an annotation. */
export class Maker {
  private readonly schema = kubernetesSchema()
  private readonly podTemplate: { readonly metadata: Members; readonly spec: Members; readonly status: Members }
  private serial = 0

  constructor() {
    const stored = apiServer120().stored.find(({ key }) => key === '/registry/pods/team-a/web-0')!.value
    this.podTemplate = JSON.parse(decodeObject(stored, this.schema).bytes.toString()) as typeof this.podTemplate
  }

  pod(name: string, node: number, step: PodStep): BenchObject {
    const key = `/registry/pods/bench/${name}`
    if (step === 'deleted') return { key, value: null, mark: 0 }
    const { metadata, spec, status } = this.podTemplate
    const phase = step === 'created' || step === 'bound' ? 'Pending' : 'Running'
    const condition = { type: 'Ready', status: step === 'ready' ? 'True' : 'False', lastTransitionTime: CREATED }
    return this.stored(key, {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: {
        ...this.metadata(name, true),
        labels: metadata['labels'],
        managedFields: metadata['managedFields'],
        ...(step === 'terminating' ? { deletionTimestamp: CREATED, deletionGracePeriodSeconds: 30 } : {}),
      },
      spec: { ...spec, nodeName: step === 'created' ? undefined : `n${node}` },
      status: { ...status, phase, conditions: [condition], hostIP: '192.0.2.1', podIP: '10.0.0.1' },
    })
  }

  /** @param images the number of images in the node's status. */
  node(node: number, images = 30): BenchObject {
    const condition = (type: string) => ({
      type,
      status: type === 'Ready' ? 'True' : 'False',
      lastHeartbeatTime: CREATED,
      lastTransitionTime: CREATED,
      reason: `Kubelet${type}`,
      message: `the kubelet says so of ${type}`,
    })
    const capacity = { cpu: '32', memory: '131072Mi', pods: '110', 'ephemeral-storage': '500Gi' }
    return this.stored(`/registry/minions/n${node}`, {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { ...this.metadata(`n${node}`, false), labels: { 'kubernetes.io/hostname': `n${node}` } },
      spec: { podCIDR: '10.0.0.0/24', providerID: `bench://n${node}` },
      status: {
        capacity,
        allocatable: capacity,
        conditions: ['MemoryPressure', 'DiskPressure', 'PIDPressure', 'Ready'].map(condition),
        addresses: [{ type: 'InternalIP', address: '192.0.2.1' }],
        images: Array.from({ length: images }, (_, i) => ({
          names: [`registry.example/team-${i}/image@sha256:${'0123456789abcdef'.repeat(4)}`],
          sizeBytes: 50_000_000,
        })),
      },
    })
  }

  config(plural: string, node: number, index: number): BenchObject {
    const isSecret = plural === 'secrets'
    const name = `n${node}-${index}`
    const text = 'x'.repeat(300)
    return this.stored(`/registry/${plural}/bench/${name}`, {
      apiVersion: 'v1',
      kind: isSecret ? 'Secret' : 'ConfigMap',
      metadata: this.metadata(name, true),
      data: { settings: isSecret ? Buffer.from(text).toString('base64') : text },
    })
  }

  service(index: number): BenchObject {
    return this.stored(`/registry/services/specs/bench/service-${index}`, {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: this.metadata(`service-${index}`, true),
      spec: {
        clusterIP: 'None', // so that an API server assigns no address
        selector: { app: `app-${index}` },
        ports: [{ name: 'http', port: 80, targetPort: 8080, protocol: 'TCP' }],
      },
    })
  }

  slice(index: number, endpoints = ENDPOINTS): BenchObject {
    return this.stored(`/registry/endpointslices/bench/service-${index}-a`, {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: {
        ...this.metadata(`service-${index}-a`, true),
        labels: { 'kubernetes.io/service-name': `service-${index}` },
      },
      addressType: 'IPv4',
      ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
      endpoints: Array.from({ length: endpoints }, (_, i) => ({
        addresses: [`10.0.${i}.1`],
        conditions: { ready: true, serving: true, terminating: false },
        nodeName: `n${i}`,
        targetRef: { kind: 'Pod', namespace: 'bench', name: `standing-${i}-0`, uid: UID },
      })),
    })
  }

  custom({ apiVersion, kind, prefix }: BenchResource, name: string, nodeName: string): BenchObject {
    const metadata = this.metadata(name, true)
    const object = { apiVersion, kind, metadata, spec: { nodeName, rules: 'x'.repeat(600) } }
    const value = Buffer.from(JSON.stringify(object))
    return { key: `${prefix}bench/${name}`, value, mark: value.indexOf(MAGIC) }
  }

  private metadata(name: string, isNamespaced: boolean): Members {
    return {
      name,
      ...(isNamespaced ? { namespace: 'bench' } : {}),
      uid: UID.slice(0, -12) + String(this.serial++).padStart(12, '0'),
      creationTimestamp: CREATED,
      annotations: { mark: EMPTY_MARK },
    }
  }

  private stored(key: string, object: object): BenchObject {
    const value = encodeObject(treeFrom(object) as JsonRecord, this.schema)
    if (value === null) throw new Error(`the protobuf schema lacks the kind of ${key}`)
    return { key, value, mark: value.indexOf(MAGIC) }
  }
}

const CREATED = '2024-01-01T00:00:00Z'
const UID = '00000000-0000-4000-8000-000000000000'
