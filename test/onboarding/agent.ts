/** What an agent is: how to start it in a pod, what it holds, and what the API server has of that. */
import type { Test } from 'tap'
import { ask, type Server, serverAt } from '../reference/ask.js'
import { ADMIN } from '../reference/control-plane.js'
import { discover, type Served } from '../reference/discovered.js'
import type { Cluster } from './cluster.js'
import type { Pod } from './pod.js'

/** Some clients read the token again only each minute; others wait half a minute before they reconnect. */
export const WITHIN_MS = 120_000

/** The variable with the names of the clients that this machine lacks, separated by commas. */
export const LACKING = 'ONBOARDING_LACKING'

/** The variable with the minutes for which the agents are left alone, before anything is restarted. */
export const IDLE_MINUTES = 'ONBOARDING_IDLE_MINUTES'

export interface RunningAgent {
  /** Returns the agent's state, or the work it has done, as lines in any order. */
  readonly held: () => Promise<readonly string[]>
  /**
   * Makes the agent create a ConfigMap in the namespace `default`. Returns whether that worked. Absent if the agent
   * cannot be made to.
   */
  readonly create?: (name: string) => Promise<boolean>
  readonly printed: () => string
  /** Whether the agent's process has ended. Absent if it has no lasting process. */
  readonly hasEnded?: () => boolean
  /** Overrides `Agent.expected`. */
  readonly expected?: (world: World) => Promise<readonly string[]>
  /** The port at which the API server would reach it, for an agent that serves a part of the API. */
  readonly port?: number
}

export interface Agent {
  /** The agent's name, and that of its service account. */
  readonly name: string
  /** The name in the clients' table of what must be provided. */
  readonly client: string
  readonly start: (t: Test, pod: Pod, world: World) => Promise<RunningAgent>
  /** Starts what it needs from its cluster, before all agents. */
  readonly prepare?: (t: Test, world: World) => Promise<void>
  /** The same lines from the API server. Default: the pods, as lines `NAME TURN`. */
  readonly expected?: (world: World) => Promise<readonly string[]>
  /** The resources that the agent may list only once. Default: pods. Empty for no limit. */
  readonly follows?: readonly string[]
  /**
   * What happens if the agent's token suddenly becomes invalid, for an agent that does not survive that. A running pod
   * never sees it.
   */
  readonly withoutToken?: string
  /** The agent's permissions besides listing and watching pods, and creating ConfigMaps. */
  readonly rules?: readonly object[]
  /** Objects that must exist before the agent starts. */
  readonly objects?: readonly object[]
  /** Returns the objects that a turn writes for the agent. */
  readonly turn?: (turn: string) => readonly object[]
}

/** Reads the expected state from the API server. */
export class World {
  readonly #server: Server

  constructor(readonly cluster: Cluster) {
    this.#server = serverAt('theirs', cluster.url, ADMIN)
  }

  async get<T>(path: string): Promise<T> {
    const { code, body } = await ask(this.#server, { method: 'GET', path, headers: { accept: 'application/json' } })
    if (code !== 200) throw new Error(`${path}: ${code}`)
    return JSON.parse(body.toString()) as T
  }

  async served(): Promise<readonly Served[]> {
    return await discover(this.#server)
  }

  async items<T>(path: string): Promise<readonly T[]> {
    return (await this.get<{ readonly items: readonly T[] }>(path)).items
  }
}

export interface Named {
  readonly metadata: {
    readonly name: string
    readonly namespace?: string
    readonly labels?: Readonly<Record<string, string>>
  }
}

export const turnOf = ({ metadata: { labels } }: Named): string => labels?.['turn'] ?? 'null'

export const podsOf = async (world: World): Promise<readonly string[]> => {
  const pods = await world.items<Named>('/api/v1/pods')
  return pods.map((pod) => `${pod.metadata.name} ${turnOf(pod)}`)
}

/** Go's clients then list where they would begin with a watch, so that each list is counted. */
export const LISTING = ['env', 'KUBE_FEATURE_WatchListClient=false']

export const reading = (group: string, ...resources: readonly string[]): object => ({
  apiGroups: [group],
  resources,
  verbs: ['get', 'list', 'watch'],
})
