/**
 * The figures of the status page: one plain object with what a process holds and does now, made while a page is open, and
 * one for all processes of a server together (`--workers`), whichever of them answers.
 *
 * Counters stay with their process: a page that looks twice takes the difference of each, so that one that began anew is
 * not a step back of the whole.
 */
import type { Cursor } from '../broadcast/cursor.js'
import type { ResourceGauges } from '../metrics/resource-gauges.js'
import { type Resource, resourceId } from '../model/resource.js'

/** The state of one resource's feed; `part` is its part in a fleet. */
export interface FeedLine {
  readonly resource: string
  readonly state: string
  readonly reason: string | null
  readonly part: 'publishes' | 'follows' | 'direct' | null
}

/** @param status a feed's own status. */
export function feedLine(status: {
  readonly state: string
  readonly reason: string | null
  readonly part?: Exclude<FeedLine['part'], null>
}): Omit<FeedLine, 'resource'> {
  return { state: status.state, reason: status.reason, part: status.part ?? null }
}

export interface StatusSource {
  gauges(): ResourceGauges
  readonly cursors: Iterable<Cursor>
  /** Most bytes of history. */
  readonly ringBytes: number
  /** null: ready. */
  readonly problem: string | null
  readonly feed: Omit<FeedLine, 'resource'>
}

export interface ProcessInput {
  /** `server`, `worker 2`. */
  readonly name: string
  readonly ready: boolean
  readonly sources: Iterable<StatusSource>
  /** Since the start. */
  readonly takenEvents: number
  /** Cumulative counts by upper bound in seconds, of the segment cache-to-socket. */
  readonly delays: readonly (readonly [upTo: number, count: number])[]
  /** The clients with the most watchers, the largest first. */
  readonly largestClients: (count: number) => readonly (readonly [client: string, watchers: number])[]
}

interface Client {
  /** The user, or the address of a caller whom nobody authenticated. */
  readonly client: string
  readonly watchers: number
}

interface Group {
  readonly resource: string
  readonly transport: string
  /** '' for everything; null: hidden from a reader who may not list the resource. */
  readonly selector: string | null
  readonly watchers: number
}

interface Slow {
  readonly resource: string
  readonly transport: string
  readonly state: string
  readonly behind: number
  readonly pendingBytes: number
}

interface ResourceLine {
  readonly resource: string
  readonly path: string
  readonly plural: string
  readonly namespaced: boolean
  readonly revision: number
  readonly objects: number
  readonly watchers: number
  readonly ringFill: number
  readonly ringBatches: number
  readonly ringAgeSeconds: number
  readonly stalenessSeconds: number
  readonly problem: string | null
}

export interface ProcessStatus {
  readonly name: string
  readonly pid: number
  readonly uptimeSeconds: number
  readonly rssBytes: number
  readonly ready: boolean
  /** Events that entered the caches, since the start; null in a process without caches. */
  readonly takenEvents: number | null
  readonly sentEvents: number
  readonly delays: readonly (readonly [upTo: number, count: number])[]
  /** By transport and state. */
  readonly watchers: Readonly<Record<string, number>>
  readonly resources: readonly ResourceLine[]
  readonly feeds: readonly FeedLine[]
  readonly groups: readonly Group[]
  readonly clients: readonly Client[]
  readonly slow: readonly Slow[]
  readonly slowCount: number
}

export interface ServerAbout {
  readonly version: string
  /** Addresses, or what stands for them. */
  readonly upstream: string
  readonly fleet: { readonly servers: string; readonly role: string; readonly cluster: string } | null
}

/** Longer lists help nobody on a page, and are bounded here whatever the number of watchers. */
const TOP = 10

export function processStatus(input: ProcessInput): ProcessStatus {
  const groups = new Map<Cursor['group'], { -readonly [K in keyof Group]: Group[K] }>()
  const slow: Slow[] = []
  const watchers: Record<string, number> = {}
  const feeds: FeedLine[] = []
  let sentEvents = 0
  const resources = [...input.sources].map((source): ResourceLine => {
    const gauges = source.gauges()
    const resource = resourceId(gauges.resource)
    feeds.push({ resource, ...source.feed })
    sentEvents += gauges.sentEvents
    for (const [key, count] of gauges.watchers) watchers[key] = (watchers[key] ?? 0) + count
    for (const cursor of source.cursors) {
      const { group } = cursor
      const { transport } = group.wire
      const entry = groups.get(group)
      if (entry === undefined) groups.set(group, { resource, transport, selector: group.matcher.key, watchers: 1 })
      else entry.watchers++
      if (!cursor.isBlocked && cursor.state !== 'lagging') continue
      const behind = Math.max(0, gauges.revision - cursor.revision)
      slow.push({ resource, transport, state: cursor.state, behind, pendingBytes: cursor.sink.pendingBytes })
    }
    const { group, version, plural, namespaced } = gauges.resource
    return {
      resource,
      path: group === '' ? `/api/${version}` : `/apis/${group}/${version}`,
      plural,
      namespaced,
      revision: gauges.revision,
      objects: gauges.objects,
      watchers: [...gauges.watchers.values()].reduce((sum, count) => sum + count, 0),
      ringFill: source.ringBytes === 0 ? 0 : gauges.ringBytes / source.ringBytes,
      ringBatches: gauges.ringBatches,
      ringAgeSeconds: gauges.ringAgeSeconds,
      stalenessSeconds: gauges.stalenessSeconds,
      problem: source.problem,
    }
  })
  return {
    ...thisProcess(input.name),
    ready: input.ready,
    takenEvents: input.takenEvents,
    sentEvents,
    delays: input.delays,
    watchers,
    resources,
    feeds,
    groups: largest([...groups.values()]),
    clients: input.largestClients(TOP).map(([client, count]) => ({ client, watchers: count })),
    slow: slowest(slow),
    slowCount: slow.length,
  }
}

/** The status of the process that has workers: it reads the upstream for all of them and serves nobody. */
export function primaryStatus(feeds: readonly FeedLine[]): ProcessStatus {
  return {
    ...thisProcess('primary'),
    ready: true,
    takenEvents: null,
    sentEvents: 0,
    delays: [],
    watchers: {},
    resources: [],
    feeds,
    groups: [],
    clients: [],
    slow: [],
    slowCount: 0,
  }
}

export interface ServerStatus extends ServerAbout {
  readonly resources: readonly ResourceLine[]
  readonly groups: readonly Group[]
  /** null: hidden from a reader who may not see who watches. */
  readonly clients: readonly Client[] | null
  readonly [more: string]: unknown
}

/**
 * The status as one reader may see it. A selector names parts of objects (the node of a pod, a tenant's label), so that of a
 * resource is only for readers who may list that resource everywhere. The names and addresses of clients are only for readers
 * who may get `CLIENTS_PATH`.
 */
export async function statusFor(status: ServerStatus, reader: Reader): Promise<ServerStatus> {
  const clients = (await reader.mayGet(CLIENTS_PATH)) ? status.clients : null
  return { ...status, clients, groups: await groupsFor(status, reader) }
}

/** Nothing is served there: it stands for a right, as `/metrics` and `/ui/` do. */
export const CLIENTS_PATH = '/ui/clients'

export interface Reader {
  readonly mayList: (resource: Pick<Resource, 'group' | 'version' | 'plural'>) => Promise<boolean>
  readonly mayGet: (path: string) => Promise<boolean>
}

async function groupsFor(status: ServerStatus, { mayList }: Reader): Promise<readonly Group[]> {
  const hidden = new Set<string>()
  for (const id of new Set(status.groups.map(({ resource }) => resource))) {
    const line = status.resources.find(({ resource }) => resource === id)
    if (line === undefined || !(await mayList(resourceOf(line)))) hidden.add(id)
  }
  return status.groups.map((group) => (hidden.has(group.resource) ? { ...group, selector: null } : group))
}

function resourceOf({ path, plural }: ResourceLine): Pick<Resource, 'group' | 'version' | 'plural'> {
  const [version = '', group = ''] = path.split('/').slice(2).toReversed()
  return { group, version, plural }
}

/** @param processes the one that reads the upstream first. */
export function serverStatus(about: ServerAbout, processes: readonly ProcessStatus[]): ServerStatus {
  const serving = processes.filter(({ takenEvents }) => takenEvents !== null)
  return {
    ...about,
    ready: serving.length > 0 && serving.every(({ ready }) => ready),
    processes: processes.map(({ name, pid, uptimeSeconds, rssBytes, ready, takenEvents, sentEvents, watchers }) => ({
      name,
      pid,
      uptimeSeconds,
      rssBytes,
      ready,
      takenEvents,
      sentEvents,
      watchers: Object.values(watchers).reduce((sum, count) => sum + count, 0),
    })),
    // The process that reads the upstream knows the state of the feeds.
    feeds: processes.find(({ feeds }) => feeds.length > 0)?.feeds ?? [],
    delays: summed(serving.map(({ delays }) => delays)),
    watchers: Object.fromEntries(summed(serving.map((one) => Object.entries(one.watchers)))),
    resources: mergedResources(serving.flatMap(({ resources }) => resources)),
    groups: largest(mergedGroups(serving.flatMap(({ groups }) => groups))),
    clients: largest(
      summed(serving.map(({ clients }) => clients.map((one) => [one.client, one.watchers] as const))).map(
        ([client, watchers]) => ({ client, watchers }),
      ),
    ),
    slow: slowest(serving.flatMap(({ slow }) => slow)),
    slowCount: serving.reduce((sum, { slowCount }) => sum + slowCount, 0),
  }
}

function thisProcess(name: string): Pick<ProcessStatus, 'name' | 'pid' | 'uptimeSeconds' | 'rssBytes'> {
  return { name, pid: process.pid, uptimeSeconds: process.uptime(), rssBytes: process.memoryUsage.rss() }
}

function largest<T extends { readonly watchers: number }>(all: readonly T[]): readonly T[] {
  return all.toSorted((a, b) => b.watchers - a.watchers).slice(0, TOP)
}

function slowest(slow: readonly Slow[]): readonly Slow[] {
  return slow.toSorted((a, b) => b.behind - a.behind).slice(0, TOP)
}

function summed<K>(counts: readonly (readonly (readonly [K, number])[])[]): [K, number][] {
  const sums = new Map<K, number>()
  for (const [key, count] of counts.flat()) sums.set(key, (sums.get(key) ?? 0) + count)
  return [...sums]
}

function mergedGroups(groups: readonly Group[]): readonly Group[] {
  const merged = new Map<string, Group>()
  for (const group of groups) {
    const key = [group.resource, group.transport, group.selector].join('\n')
    const before = merged.get(key)
    merged.set(key, before === undefined ? group : { ...before, watchers: before.watchers + group.watchers })
  }
  return [...merged.values()]
}

/** Each process holds all objects and a history of its own: what is told is what a client can count on wherever it lands. */
function mergedResources(lines: readonly ResourceLine[]): readonly ResourceLine[] {
  const merged = new Map<string, ResourceLine>()
  for (const line of lines) {
    const before = merged.get(line.resource)
    merged.set(line.resource, before === undefined ? line : { ...line, ...together(before, line) })
  }
  return [...merged.values()]
}

function together(a: ResourceLine, b: ResourceLine): Partial<ResourceLine> {
  return {
    revision: Math.min(a.revision, b.revision),
    objects: Math.max(a.objects, b.objects),
    watchers: a.watchers + b.watchers,
    ringFill: Math.max(a.ringFill, b.ringFill),
    ringBatches: Math.min(a.ringBatches, b.ringBatches),
    ringAgeSeconds: Math.min(a.ringAgeSeconds, b.ringAgeSeconds),
    stalenessSeconds: Math.max(a.stalenessSeconds, b.stalenessSeconds),
    problem: a.problem ?? b.problem,
  }
}
