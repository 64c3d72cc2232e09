/**
 * Computes the figures of the status page while a page is open. Each process describes its current state, and the
 * process that serves the page merges the descriptions of all processes of the server (`--workers`).
 *
 * Counters are not merged. The page computes the difference for each process, so that the restart of a worker does not
 * look like a drop in the total.
 */
import type { Cursor } from '../../engine/broadcast/cursor.js'
import type { ResourceGauges } from '../../engine/pipeline/resource-gauges.js'
import { keyToText } from '../../engine/model/event.js'
import { type ApiResource, resourceId } from '../../kubernetes/model/api-resource.js'
import type {
  ClientFigures,
  Delays,
  FeedFigures,
  GroupFigures,
  ResourceFigures,
  ServerAbout,
  ServerStatus,
  SlowWatcherFigures,
} from './page/figures.js'

/** Returns what the page shows of a feed's status. */
export function feedFigures(status: {
  readonly state: string
  readonly reason: string | null
  readonly part?: Exclude<FeedFigures['part'], null>
}): Omit<FeedFigures, 'resource'> {
  return { state: status.state, reason: status.reason, part: status.part ?? null }
}

export interface StatusSource {
  gauges(): ResourceGauges<ApiResource>
  readonly cursors: Iterable<Cursor>
  /** The byte limit for the resource's history. */
  readonly ringBytes: number
  /** null when ready. */
  readonly problem: string | null
  readonly feed: Omit<FeedFigures, 'resource'>
}

export interface ProcessInput {
  /** `server`, `worker 2`. */
  readonly name: string
  readonly ready: boolean
  readonly sources: Iterable<StatusSource>
  /** Events that entered the caches since the start; null in a process without caches. */
  readonly takenEvents: number | null
  readonly delays: Delays
}

/** The status that one process sends to the process that serves the page, as if the sender were the whole server. */
export type ProcessStatus = Omit<ServerStatus, keyof ServerAbout | 'ready'>

/**
 * The maximum length of the lists of groups and slow watchers, whatever the number of watchers. The list of clients may
 * be twice as long.
 */
const TOP = 10

export function processStatus({ sources, delays, ...own }: ProcessInput): ProcessStatus {
  const groups = new Map<Cursor['group'], { -readonly [K in keyof GroupFigures]: GroupFigures[K] }>()
  const clients = new Map<string, { -readonly [K in keyof ClientFigures]: ClientFigures[K] }>()
  const slow: SlowWatcherFigures[] = []
  const watchers: Record<string, number> = {}
  const feeds: FeedFigures[] = []
  let sentEvents = 0
  const resources = [...sources].map((source): ResourceFigures => {
    const gauges = source.gauges()
    const resource = resourceId(gauges.resource)
    feeds.push({ resource, ...source.feed })
    sentEvents += gauges.sentEvents
    for (const [key, count] of gauges.watchers) watchers[key] = (watchers[key] ?? 0) + count
    for (const cursor of source.cursors) {
      const { group } = cursor
      const { transport } = group.wire
      const entry = groups.get(group)
      if (entry === undefined) groups.set(group, { resource, transport, selector: textOf(group.matcher), watchers: 1 })
      else entry.watchers++
      const { identity } = cursor.options
      const client = clients.get(identity)
      if (client === undefined) clients.set(identity, { client: identity, watchers: 1, sentBytes: cursor.sentBytes })
      else {
        client.watchers++
        client.sentBytes += cursor.sentBytes
      }
      const { shownState: state } = cursor
      if (!cursor.isBlocked && state !== 'lagging') continue
      const behind = Math.max(0, gauges.revision - cursor.revision)
      slow.push({ resource, transport, state, behind, pendingBytes: cursor.output.pendingBytes })
    }
    const { group, version, plural, namespaced } = gauges.resource
    return {
      resource,
      path: group === '' ? `/api/${version}` : `/apis/${group}/${version}`,
      plural,
      namespaced,
      revision: gauges.revision,
      objects: gauges.objects,
      watchers: total(gauges.watchers.values()),
      ringFill: source.ringBytes === 0 ? 0 : gauges.ringBytes / source.ringBytes,
      ringBatches: gauges.ringBatches,
      ringAgeSeconds: gauges.ringAgeSeconds,
      stalenessSeconds: gauges.stalenessSeconds,
      problem: source.problem,
    }
  })
  const uptimeSeconds = process.uptime()
  const rssBytes = process.memoryUsage.rss()
  const served = total(Object.values(watchers))
  return {
    processes: [{ ...own, pid: process.pid, uptimeSeconds, rssBytes, sentEvents, watchers: served }],
    delays,
    watchers,
    resources,
    feeds,
    groups: largest([...groups.values()]),
    clients: largestClients([...clients.values()]),
    slow: slowest(slow),
    slowCount: slow.length,
  }
}

/** Returns what a group selects, for people: `namespace default, app=cart`; '' selects everything. */
function textOf({ scope: namespace, prefix, selector }: Cursor['group']['matcher']): string {
  return [namespace && `namespace ${namespace}`, prefix === null ? '' : `prefix ${keyToText(prefix)}`, selector.text]
    .filter((part) => part !== '')
    .join(', ')
}

/** The status of the primary process, which reads the upstream for all workers and serves no clients. */
export function primaryStatus(feeds: readonly FeedFigures[]): ProcessStatus {
  return { ...processStatus({ name: 'primary', ready: true, sources: [], takenEvents: null, delays: [] }), feeds }
}

/**
 * Removes what the reader may not see from the status. A selector names parts of objects (the node of a pod, a tenant's
 * label), so the selectors of a resource are shown only to readers who may list that resource in all namespaces. The
 * names and addresses of clients are shown only to readers who may get `CLIENTS_PATH`.
 */
export async function statusFor(status: ServerStatus, reader: Reader): Promise<ServerStatus> {
  const clients = (await reader.mayGet(CLIENTS_PATH)) ? status.clients : null
  return { ...status, clients, groups: await groupsFor(status, reader) }
}

/** Nothing is served at this path. Rules name it to let readers see the clients. */
const CLIENTS_PATH = '/ui/clients'

export interface Reader {
  readonly mayList: (resource: Pick<ApiResource, 'group' | 'version' | 'plural'>) => Promise<boolean>
  readonly mayGet: (path: string) => Promise<boolean>
}

async function groupsFor(status: ServerStatus, { mayList }: Reader): Promise<readonly GroupFigures[]> {
  const hidden = new Set<string>()
  for (const id of new Set(status.groups.map(({ resource }) => resource))) {
    const line = status.resources.find(({ resource }) => resource === id)
    if (line === undefined || !(await mayList(resourceOf(line)))) hidden.add(id)
  }
  return status.groups.map((group) => (hidden.has(group.resource) ? { ...group, selector: null } : group))
}

function resourceOf({ path, plural }: ResourceFigures): Pick<ApiResource, 'group' | 'version' | 'plural'> {
  const [version = '', group = ''] = path.split('/').slice(2).toReversed()
  return { group, version, plural }
}

/** @param parts the statuses of all processes. The status of the process that reads the upstream must come first. */
export function serverStatus(about: ServerAbout, parts: readonly ProcessStatus[]): ServerStatus {
  const processes = parts.flatMap((part) => part.processes)
  const serving = processes.filter(({ takenEvents }) => takenEvents !== null)
  return {
    ...about,
    ready: serving.length > 0 && serving.every(({ ready }) => ready),
    processes,
    // Only the process that reads the upstream knows the state of the feeds, and its status comes first.
    feeds: parts.find(({ feeds }) => feeds.length > 0)?.feeds ?? [],
    delays: summed(parts.map(({ delays }) => delays)),
    watchers: Object.fromEntries(summed(parts.map(({ watchers }) => Object.entries(watchers)))),
    resources: mergedResources(parts.flatMap(({ resources }) => resources)),
    groups: largest(mergedGroups(parts.flatMap(({ groups }) => groups))),
    clients: largestClients(mergedClients(parts.flatMap(({ clients }) => clients ?? []))),
    slow: slowest(parts.flatMap(({ slow }) => slow)),
    slowCount: total(parts.map(({ slowCount }) => slowCount)),
  }
}

function total(counts: Iterable<number>): number {
  return [...counts].reduce((sum, count) => sum + count, 0)
}

function largest<T extends { readonly watchers: number }>(all: readonly T[]): readonly T[] {
  return all.toSorted((a, b) => b.watchers - a.watchers).slice(0, TOP)
}

/** Returns the clients with the most bytes, then those with the most watchers. */
function largestClients(all: readonly ClientFigures[]): readonly ClientFigures[] {
  const byBytes = all.toSorted((a, b) => b.sentBytes - a.sentBytes)
  const chosen = new Set([...byBytes.slice(0, TOP), ...largest(all)])
  return byBytes.filter((client) => chosen.has(client))
}

function mergedClients(clients: readonly ClientFigures[]): readonly ClientFigures[] {
  const merged = new Map<string, ClientFigures>()
  for (const { client, watchers, sentBytes } of clients) {
    const before = merged.get(client) ?? { watchers: 0, sentBytes: 0 }
    merged.set(client, { client, watchers: before.watchers + watchers, sentBytes: before.sentBytes + sentBytes })
  }
  return [...merged.values()]
}

function slowest(slow: readonly SlowWatcherFigures[]): readonly SlowWatcherFigures[] {
  return slow.toSorted((a, b) => b.behind - a.behind).slice(0, TOP)
}

function summed<K>(counts: readonly (readonly (readonly [K, number])[])[]): [K, number][] {
  const sums = new Map<K, number>()
  for (const [key, count] of counts.flat()) sums.set(key, (sums.get(key) ?? 0) + count)
  return [...sums]
}

function mergedGroups(groups: readonly GroupFigures[]): readonly GroupFigures[] {
  const merged = new Map<string, GroupFigures>()
  for (const group of groups) {
    const key = [group.resource, group.transport, group.selector].join('\n')
    const before = merged.get(key)
    merged.set(key, before === undefined ? group : { ...before, watchers: before.watchers + group.watchers })
  }
  return [...merged.values()]
}

/**
 * Each process holds all objects and its own history. The page shows the values on which a client can rely, whichever
 * process it connects to.
 */
function mergedResources(lines: readonly ResourceFigures[]): readonly ResourceFigures[] {
  const merged = new Map<string, ResourceFigures>()
  for (const line of lines) {
    const before = merged.get(line.resource)
    merged.set(line.resource, before === undefined ? line : { ...line, ...together(before, line) })
  }
  return [...merged.values()]
}

function together(a: ResourceFigures, b: ResourceFigures): Partial<ResourceFigures> {
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
