/** Shows the figures of `/ui/events` as tiles, charts and tables. */
import { addChart } from './chart.js'
import {
  button,
  byId,
  type Column,
  fillList,
  fillTable,
  formatBytes,
  formatNumber,
  formatSeconds,
  marked,
} from './elements.js'
import type {
  ClientFigures,
  Delays,
  GroupFigures,
  ProcessFigures,
  ResourceFigures,
  ServerStatus,
  SlowWatcherFigures,
  Trouble,
} from './figures.js'

const RESOURCES: readonly Column<ResourceFigures>[] = [
  { title: 'Resource', cell: (r) => r.resource },
  { title: 'State', cell: (r) => (r.problem === null ? marked('ready', 'good') : marked(r.problem, 'bad')) },
  { title: 'Objects', isNumber: true, cell: (r) => formatNumber(r.objects) },
  {
    title: 'Watchers',
    isNumber: true,
    cell: (r) => (r.watchers === 0 ? '0' : button(formatNumber(r.watchers), () => findWatchers(r.resource))),
  },
  { title: 'History', cell: (r) => history(r) },
  { title: 'Revision', isNumber: true, isWide: true, cell: (r) => String(r.revision) },
  { title: 'Data age', isNumber: true, isWide: true, cell: (r) => formatSeconds(r.stalenessSeconds) },
]

/** Shows how full the history is and how far back it reaches. A client can be away for that long and still resume. */
function history(resource: ResourceFigures): Node {
  const fill = `${Math.round(resource.ringFill * 100)} %`
  const meter = document.createElement('meter')
  meter.value = resource.ringFill
  meter.title = `${formatNumber(resource.ringBatches)} revisions, ${fill} of the bytes`
  meter.setAttribute('aria-label', `history of ${resource.resource}: ${meter.title}`)
  const reach = resource.ringBatches === 0 ? 'empty' : `${fill}, ${formatSeconds(resource.ringAgeSeconds)} back`
  const both = document.createElement('span')
  both.className = 'history'
  both.append(meter, reach)
  return both
}

export function followStatus(onResources: (resources: readonly ResourceFigures[]) => void): void {
  const rate = addChart('rate-chart', ['in', 'out'])
  const lag = addChart('lag-chart', ['p99'])
  let previous: { status: ServerStatus; at: number } | null = null
  for (const id of ['all-resources', 'search']) {
    byId(id).addEventListener('input', () => {
      if (previous === null) return
      showResources(previous.status)
      showWatchers(previous.status)
    })
  }
  const events = new EventSource('events')
  events.addEventListener('status', (event: MessageEvent<string>) => {
    const status = JSON.parse(event.data) as ServerStatus
    const at = Date.now() / 1000
    const rates = previous === null ? null : ratesBetween(previous.status, status, at - previous.at)
    if (previous !== null && rates !== null) {
      rate(at, [rates.in, rates.out])
      lag(at, [quantile(previous.status.delays, status.delays, 0.99)])
    }
    tiles(status, rates?.out ?? 0)
    upstream(status)
    processes(status, rates?.outByPid ?? new Map())
    previous = { status, at }
    summary(status)
    showResources(status)
    showWatchers(status)
    byId('slow-hint').textContent = `${formatNumber(status.slowCount)} are behind or have a full socket.`
    onResources(status.resources)
  })
  events.addEventListener('trouble', (event: MessageEvent<string>) => {
    const { reason } = JSON.parse(event.data) as Trouble
    byId('summary').replaceChildren(marked(`no data: ${reason}`, 'bad'))
  })
  events.addEventListener('error', () => {
    // A browser does not retry after a response such as 401.
    const isOver = events.readyState === EventSource.CLOSED
    const text = isOver ? 'the server refused to send data; reload the page' : 'no connection; trying again'
    byId('summary').replaceChildren(marked(text, 'bad'))
  })
}

/** Searches for the watchers of a resource and scrolls to them. */
function findWatchers(resource: string): void {
  const search = byId<HTMLInputElement>('search')
  search.value = resource
  search.dispatchEvent(new Event('input'))
  byId('groups-title').scrollIntoView()
}

/** Whether one of the strings contains the search text; an empty search matches everything. */
function isFound(...texts: readonly (string | null)[]): boolean {
  const wanted = byId<HTMLInputElement>('search').value.trim().toLowerCase()
  return wanted === '' || texts.some((text) => text?.toLowerCase().includes(wanted))
}

function showWatchers({ groups, clients, slow }: ServerStatus): void {
  const found = <W extends GroupFigures | SlowWatcherFigures>(all: readonly W[]): readonly W[] =>
    all.filter((one) => isFound(one.resource, one.transport, 'selector' in one ? String(one.selector) : null))
  fillTable(byId('groups'), GROUPS, found(groups), groups.length === 0 ? 'no watchers' : 'no matches')
  fillTable(byId('slow'), SLOW, found(slow), 'none')
  byId('clients-part').hidden = clients === null
  fillTable(byId('clients'), CLIENTS, clients ?? [], 'no watchers')
}

const CLIENTS: readonly Column<ClientFigures>[] = [
  { title: 'User or address', cell: (c) => c.client },
  { title: 'Watchers', isNumber: true, cell: (c) => formatNumber(c.watchers) },
  { title: 'Sent', isNumber: true, cell: (c) => formatBytes(c.sentBytes) },
]

const GROUPS: readonly Column<GroupFigures>[] = [
  { title: 'Resource', cell: (g) => g.resource },
  { title: 'Transport', cell: (g) => g.transport },
  { title: 'Watchers', isNumber: true, cell: (g) => formatNumber(g.watchers) },
  { title: 'Selector', cell: (g) => (g.selector === null ? 'hidden' : g.selector === '' ? 'everything' : g.selector) },
]

const SLOW: readonly Column<SlowWatcherFigures>[] = [
  { title: 'Resource', cell: (w) => w.resource },
  { title: 'Transport', cell: (w) => w.transport },
  { title: 'State', cell: (w) => w.state },
  { title: 'Revisions behind', isNumber: true, cell: (w) => formatNumber(w.behind) },
  { title: 'In socket', isNumber: true, cell: (w) => formatBytes(w.pendingBytes) },
]

interface Rates {
  readonly in: number
  readonly out: number
  readonly outByPid: ReadonlyMap<number, number>
}

/**
 * Returns the rates of events per second. Each process has its own counters, and a process that has restarted has no
 * rate yet. All processes receive the same events, so the highest rate of incoming events is the server's rate.
 */
function ratesBetween(before: ServerStatus, after: ServerStatus, seconds: number): Rates {
  const old = new Map(before.processes.map((one) => [one.pid, one]))
  const outByPid = new Map<number, number>()
  let mostIn = 0
  for (const { pid, takenEvents, sentEvents } of after.processes) {
    const then = old.get(pid)
    if (then === undefined || takenEvents === null || then.takenEvents === null || seconds <= 0) continue
    outByPid.set(pid, Math.max(0, sentEvents - then.sentEvents) / seconds)
    mostIn = Math.max(mostIn, (takenEvents - then.takenEvents) / seconds)
  }
  return { in: mostIn, out: [...outByPid.values()].reduce((sum, n) => sum + n, 0), outByPid }
}

const FEED_STATES: Readonly<Record<string, string>> = {
  idle: 'not started',
  listing: 'being listed',
  verifying: 'reconnecting',
  'catching-up': 'catching up',
  watching: 'watched',
  'backing-off': 'cut off, retrying',
  refused: 'cannot be listed',
}

/** Shows where the data comes from, and whether it is still arriving. */
function upstream(status: ServerStatus): void {
  const { upstream: source, fleet, feeds } = status
  const states = new Map<string, number>()
  for (const { state } of feeds) states.set(state, (states.get(state) ?? 0) + 1)
  const parts = (part: string): number => feeds.filter((feed) => feed.part === part).length
  const resources = [...states].map(([state, count]) => `${count} ${FEED_STATES[state] ?? state}`).join(', ')
  const direct = parts('direct')
  const values: [string, string | Node][] = [
    ['Upstream', source],
    ['Connection', connection(status)],
    ['Resources', resources],
  ]
  if (fleet !== null) {
    values.push(['Fleet', `${fleet.servers}, cluster ${fleet.cluster}, role ${fleet.role}`])
    const publishes = `publishes ${parts('publishes')} and follows ${parts('follows')} of ${feeds.length} resources`
    values.push([
      'Activity',
      direct === 0 ? publishes : marked(`${publishes}; reads etcd for ${direct}: NATS is unavailable`, 'bad'),
    ])
  }
  fillList(byId('upstream'), values)
}

/**
 * Returns the age of the data. It is the best sign that the upstream is unreachable, because a feed goes through many
 * states between two attempts.
 */
function awaySeconds({ resources }: ServerStatus): number {
  return Math.max(0, ...resources.map(({ stalenessSeconds }) => stalenessSeconds))
}

function connection(status: ServerStatus): Node {
  const seconds = awaySeconds(status)
  const { reason = null } = status.feeds.find((feed) => feed.reason !== null && feed.state !== 'refused') ?? {}
  if (seconds > 0)
    return marked(`unavailable for ${formatSeconds(seconds)}${reason === null ? '' : `: ${reason}`}`, 'bad')
  return status.feeds.some(({ state }) => state === 'watching') ? marked('connected', 'good') : marked('connecting', '')
}

function processes({ processes: all }: ServerStatus, outByPid: ReadonlyMap<number, number>): void {
  byId('processes-part').hidden = all.length < 2
  const columns: readonly Column<ProcessFigures>[] = [
    { title: 'Process', cell: (p) => p.name },
    { title: 'State', cell: (p) => (p.ready ? marked('ready', 'good') : marked('not ready', 'bad')) },
    { title: 'Watchers', isNumber: true, cell: (p) => (p.takenEvents === null ? '–' : formatNumber(p.watchers)) },
    {
      title: 'Events out/s',
      isNumber: true,
      cell: (p) => (p.takenEvents === null ? '–' : formatNumber(outByPid.get(p.pid) ?? 0)),
    },
    { title: 'Memory', isNumber: true, cell: (p) => formatBytes(p.rssBytes) },
    { title: 'Up', isNumber: true, cell: (p) => formatSeconds(p.uptimeSeconds) },
    { title: 'pid', isNumber: true, isWide: true, cell: (p) => String(p.pid) },
  ]
  fillTable(byId('processes'), columns, all, 'none')
}

/** Fills the live region only when its text changes, because screen readers read it aloud. */
function summary(status: ServerStatus): void {
  const isAway = awaySeconds(status) > 0
  const state = `${status.ready ? 'ready' : 'not ready'}${isAway ? ' · upstream unavailable' : ''}`
  const text = `${status.version} · ${status.upstream} · ${state}`
  const element = byId('summary')
  if (element.textContent !== text) element.replaceChildren(marked(text, status.ready && !isAway ? '' : 'bad'))
}

function tiles(status: ServerStatus, sentPerSecond: number): void {
  const count = (transport: RegExp): number =>
    Object.entries(status.watchers).reduce((sum, [key, n]) => (transport.test(key) ? sum + n : sum), 0)
  const transports = [...new Set(Object.keys(status.watchers).map((key) => key.split(' ')[0]!))].sort()
  const values: [string, string][] = [
    ['Watchers', formatNumber(count(/./))],
    ...transports.map((name): [string, string] => [`over ${name}`, formatNumber(count(new RegExp(`^${name} `)))]),
    ['Events out/s', formatNumber(sentPerSecond)],
    ['Objects', formatNumber(status.resources.reduce((sum, { objects }) => sum + objects, 0))],
    ['Oldest data', formatSeconds(Math.max(0, ...status.resources.map((r) => r.stalenessSeconds)))],
    ['Memory', formatBytes(status.processes.reduce((sum, { rssBytes }) => sum + rssBytes, 0))],
    ['Up', formatSeconds(Math.max(0, ...status.processes.map(({ uptimeSeconds }) => uptimeSeconds)))],
  ]
  fillList(byId('tiles'), values)
}

function showResources({ resources }: ServerStatus): void {
  const all = byId<HTMLInputElement>('all-resources').checked
  const shown = resources.filter(
    (r) => isFound(r.resource, r.problem) && (all || r.objects > 0 || r.watchers > 0 || r.problem !== null),
  )
  const none = isFound() ? 'all resources are empty' : 'no matches'
  fillTable(byId('resources'), RESOURCES, shown, none)
}

/**
 * Returns a quantile between two readings of a cumulative histogram, as the upper bound of its bucket in milliseconds;
 * null if there was no event.
 */
function quantile(before: Delays, after: Delays, q: number): number | null {
  const old = new Map(before)
  const counts = after.map(([bound, count]) => [bound, count - (old.get(bound) ?? 0)] as const)
  const total = counts.at(-1)?.[1] ?? 0
  if (total <= 0) return null
  return (counts.find(([, count]) => count >= q * total)?.[0] ?? Number.NaN) * 1000
}
