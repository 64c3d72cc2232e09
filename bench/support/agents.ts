/**
 * Typical node agents: each has one connection, with a watch of its node's pods and watches of all services, endpoint
 * slices and nodes. Every tenth agent watches all pods instead. So an event is one frame on each connection that gets
 * it, and no two frames are sent together.
 *
 * The objects are the cluster's (`cluster.ts`), stored as protobuf, in the sizes of small services: about 0.9 KB.
 * Nothing is created or deleted while agents watch, because only the cost of a delivery is measured.
 */
import { Maker, type Change } from './cluster.js'
import type { BenchObject } from './objects.js'
import type { WatchPath } from './watchers.js'

export interface Agents {
  /** The number of changes in a round, which is also how many 300 agents have in a second. */
  readonly eventsOfRound: number
  /** The objects that are in etcd at the start. */
  readonly written: readonly BenchObject[]
  /** The changes, which start over after the last one. */
  readonly changes: readonly BenchObject[]
  /** For each change, the class of watchers that must receive it. */
  readonly classes: readonly number[]
  /** The watches of ten agents, one after the other. */
  paths(afterRevision: number): readonly WatchPath[]
}

/** One agent in this many watches all pods. */
export const WIDE_AGENTS = 10
/**
 * What changes, in events per second for 300 agents: the shape of earlier runs, one with few pods, and that of most
 * clusters, in which pods change far more often than anything that every agent watches.
 */
const SHAPES = {
  mixed: { services: 4, slices: 18, nodes: 6, pods: 12 },
  even: { services: 0, slices: 10, nodes: 20, pods: 10 },
  pods: { services: 0, slices: 5, nodes: 15, pods: 60 },
} as const
export type Shape = keyof typeof SHAPES
export const SHAPE_TITLES = Object.fromEntries(
  Object.entries(SHAPES).map(([shape, { pods, slices, nodes, services }]) => [
    shape,
    `${pods} pod, ${slices} slice, ${nodes} node and ${services} service updates a second`,
  ]),
) as Readonly<Record<Shape, string>>
const ROUNDS = 100
type Kind = keyof (typeof SHAPES)['mixed']
const PODS_OF_NODE = 30
const ENDPOINTS = 5
const IMAGES = 3

export function isShape(text: string): text is Shape {
  return Object.hasOwn(SHAPES, text)
}

export function agentsOf(count: number, shape: Shape = 'mixed'): Agents {
  const counts = SHAPES[shape]
  const maker = new Maker()
  const services = Math.max(20, Math.ceil(count / 4))
  // Class n contains the events that the watcher of node n's pods must receive.
  const classes = { services: count, slices: count + 1, nodes: count + 2 }
  const pod = (serial: number): BenchObject => {
    const node = serial % count
    return maker.pod(`standing-${node}-${Math.floor(serial / count) % PODS_OF_NODE}`, node, 'ready')
  }
  const make: Readonly<Record<Kind, (serial: number) => Change>> = {
    services: (serial) => ({ object: maker.service(serial % services), owed: classes.services }),
    slices: (serial) => ({ object: maker.slice(serial % services, ENDPOINTS), owed: classes.slices }),
    nodes: (serial) => ({ object: maker.node((serial * 11) % count, IMAGES), owed: classes.nodes }),
    pods: (serial) => ({ object: pod(serial * 13), owed: (serial * 13) % count }),
  }
  const kinds = Object.keys(counts) as Kind[]
  const changes = Array.from({ length: ROUNDS }, (_, round) => {
    const all = kinds.flatMap((kind) =>
      Array.from({ length: counts[kind] }, (__, i) => ({
        // The changes are spread over the round, so that endpoint slices do not come all at once.
        at: (i + 0.5) / counts[kind],
        change: make[kind](round * counts[kind] + i),
      })),
    )
    return all.toSorted((a, b) => a.at - b.at).map(({ change }) => change)
  }).flat()
  return {
    eventsOfRound: kinds.reduce((sum, kind) => sum + counts[kind], 0),
    written: [
      ...Array.from({ length: count * PODS_OF_NODE }, (_, serial) => pod(serial)),
      ...Array.from({ length: count }, (_, node) => maker.node(node, IMAGES)),
      ...Array.from({ length: services }, (_, i) => [maker.service(i), maker.slice(i, ENDPOINTS)]).flat(),
    ],
    changes: changes.map(({ object }) => object),
    classes: changes.map(({ owed }) => owed ?? 0),
    paths: (afterRevision) => agentPaths({ after: everywhere(afterRevision), agents: count }, classes),
  }
}

/** The resources in the order of an agent's watches. */
export const AGENT_RESOURCES = [
  '/api/v1/pods',
  '/api/v1/services',
  '/apis/discovery.k8s.io/v1/endpointslices',
  '/api/v1/nodes',
] as const

export const WATCHES_OF_AGENT = AGENT_RESOURCES.length

/** The revisions after which each of an agent's watches starts. */
export type AfterEach = readonly number[]

export function everywhere(revision: number): AfterEach {
  return AGENT_RESOURCES.map(() => revision)
}

export interface AgentPathOptions {
  readonly after: AfterEach
  readonly agents: number
  /** Whether a watch that ends is recovered as a client does it, with another list. */
  readonly recovers?: boolean
}

/**
 * The watches of ten agents, one after the other.
 *
 * @param classes the classes of the writer's events that the watches must receive. Default: none.
 */
export function agentPaths(
  options: AgentPathOptions,
  classes?: Readonly<Record<'services' | 'slices' | 'nodes', number>>,
): WatchPath[] {
  const owed = (name: keyof NonNullable<typeof classes>): Owed =>
    classes === undefined ? {} : { class: classes[name] }
  return Array.from({ length: WIDE_AGENTS }, (_, agent) => {
    const isWide = agent === WIDE_AGENTS - 1
    const ofPods: Owed =
      classes === undefined ? {} : isWide ? { class: 0, until: options.agents } : { class: 0, isEach: true }
    return [
      watch(0, 'pods', options, { ...ofPods, selector: isWide ? '' : '&fieldSelector=spec.nodeName%3Dn{c}' }),
      watch(1, 'services', options, owed('services')),
      watch(2, 'slices', options, owed('slices')),
      watch(3, 'node', options, owed('nodes')),
    ]
  }).flat()
}

type Owed = Partial<NonNullable<WatchPath['owed']>>

function watch(
  index: number,
  kind: string,
  { after, recovers = false }: AgentPathOptions,
  { selector = '', class: owedClass, isEach = false, ...more }: Owed & { readonly selector?: string },
): WatchPath {
  const path = AGENT_RESOURCES[index]!
  const query = 'watch=1&allowWatchBookmarks=true&timeoutSeconds=3600'
  const list = 'sendInitialEvents=true&resourceVersionMatch=NotOlderThan'
  return {
    path: `${path}?${query}&resourceVersion=${after[index]}${selector}`,
    accept: 'application/vnd.kubernetes.protobuf;stream=watch',
    ...(recovers ? { again: `${path}?${query}&${list}${selector}` } : {}),
    kind,
    ...(owedClass === undefined ? {} : { owed: { class: owedClass, isEach, ...more } }),
  }
}
