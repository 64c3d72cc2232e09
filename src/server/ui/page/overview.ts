/**
 * Shows the figures of `/ui/events`: first the answers to three questions (is the data fresh, is a watcher behind, what is
 * served), then charts and tables.
 *
 * The server sends figures every second. Without new ones, the page says how old its figures are and dims everything that
 * they are about, because it no longer knows.
 */
import { showAnswers, showSummary } from './answers.js'
import { addChart } from './chart.js'
import {
  button,
  byId,
  choose,
  chosen,
  type Column,
  fillList,
  fillTable,
  formatBytes,
  formatCount,
  formatNumber,
  formatSeconds,
  make,
  marked,
} from './elements.js'
import type {
  ClientFigures,
  GroupFigures,
  ProcessFigures,
  ResourceFigures,
  ServerStatus,
  SlowWatcherFigures,
  Trouble,
} from './figures.js'
import { awaySeconds, NO_RATES, quantile, type Reading, ratesBetween } from './reading.js'
import { get, keepFollowing, linesOf } from './session.js'

const RESOURCES: readonly Column<ResourceFigures>[] = [
  { title: 'Resource', isText: true, cell: (r) => r.resource },
  {
    title: 'State',
    isText: true,
    cell: (r) => (r.problem === null ? marked('ready', 'good') : marked(r.problem, 'bad')),
  },
  { title: 'Objects', isNumber: true, cell: (r) => formatNumber(r.objects) },
  {
    title: 'Watchers',
    isNumber: true,
    cell: (r) => (r.watchers === 0 ? '0' : button(formatNumber(r.watchers), () => findWatchers(r.resource))),
  },
  { title: 'History', isWide: true, cell: (r) => history(r) },
  { title: 'Revision', isNumber: true, isWide: true, cell: (r) => String(r.revision) },
  { title: 'Data age', isNumber: true, isWide: true, cell: age },
]

/** Shows how full the history is and how far back it reaches. A client can be away for that long and still resume. */
function history(resource: ResourceFigures): Node {
  const fill = `${Math.round(resource.ringFill * 100)} %`
  const title = `${formatNumber(resource.ringBatches)} revisions, ${fill} of the bytes`
  const meter = make('meter', { value: resource.ringFill, title })
  meter.setAttribute('aria-label', `history of ${resource.resource}: ${title}`)
  const reach = resource.ringBatches === 0 ? 'empty' : `${fill}, ${formatSeconds(resource.ringAgeSeconds)} back`
  return make('span', { className: 'history' }, meter, reach)
}

/** Shows how long ago the upstream last confirmed a resource. */
function age({ stalenessSeconds }: ResourceFigures): string | Node {
  return stalenessSeconds > 0 ? marked(formatSeconds(stalenessSeconds), 'bad') : 'current'
}

/** Figures arrive every second. After this time without any, the page no longer claims to be current. */
const OLD_AFTER_MS = 3_500
/** Then the connection is replaced, because a server may disappear without closing it. */
const LOST_AFTER_MS = 10_000

export function followStatus(onResources: (resources: readonly ResourceFigures[]) => void): void {
  const rate = addChart('rate-chart', ['in', 'out'], 'events/s')
  const lag = addChart('lag-chart', ['p99'], 'ms')
  let last: Reading | null = null
  let trouble = ''
  let connection = new AbortController()
  let heardMs = Date.now()

  const restoreSearch = (): void => {
    byId<HTMLInputElement>('search').value = chosen('search')
    byId<HTMLInputElement>('all-resources').checked = chosen('all') !== ''
  }
  const showTables = (): void => {
    if (last === null) return
    showResources(last.status)
    showWatchers(last.status)
  }
  restoreSearch()
  addEventListener('hashchange', () => {
    restoreSearch()
    showTables()
  })
  for (const id of ['all-resources', 'search']) {
    byId(id).addEventListener('input', () => {
      const all = byId<HTMLInputElement>('all-resources').checked ? '1' : ''
      choose({ search: byId<HTMLInputElement>('search').value, all })
      showTables()
    })
  }

  /** Shows how current the figures are. */
  const tick = (): void => {
    if (last === null) return
    const ageMs = Date.now() - last.atMs
    const isOld = ageMs > OLD_AFTER_MS
    document.body.classList.toggle('old', isOld)
    showSummary(last.status, isOld ? trouble || 'no connection to this server; trying again' : '')
    showAnswers(last, isOld ? ageMs : null)
    if (Date.now() - heardMs > LOST_AFTER_MS) connection.abort()
  }
  setInterval(tick, 1_000)

  const show = (status: ServerStatus): void => {
    const atMs = Date.now()
    const rates = last === null ? NO_RATES : ratesBetween(last.status, status, (atMs - last.atMs) / 1000)
    const delayMs = last === null ? null : quantile(last.status.delays, status.delays, 0.99)
    if (last !== null) {
      rate(atMs / 1000, [rates.in, rates.out])
      lag(atMs / 1000, [delayMs])
    }
    last = { status, atMs, rates, delayMs }
    byId('main').hidden = false
    tick()
    upstream(status)
    processes(status, rates.outByPid)
    showTables()
    byId('slow-hint').textContent = `Behind, or with a full socket: ${formatNumber(status.slowCount)}.`
    onResources(status.resources)
  }
  const fail = (reason: string): void => {
    trouble = reason
    if (last === null) byId('summary').replaceChildren(marked(reason, 'bad'))
  }
  const follow = async (): Promise<void> => {
    connection = new AbortController()
    heardMs = Date.now()
    const response = await get('events', 'text/event-stream', { signal: connection.signal, isPage: true })
    let event = ''
    for await (const line of linesOf(response)) {
      heardMs = Date.now()
      if (line.startsWith('event: ')) event = line.slice(7)
      if (!line.startsWith('data: ')) continue
      const data = JSON.parse(line.slice(6)) as ServerStatus | Trouble
      if (event === 'status') show(data as ServerStatus)
      else fail(`no data: ${(data as Trouble).reason}`)
    }
  }
  void keepFollowing(follow, fail)
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
  { title: 'User or address', isText: true, cell: (c) => c.client },
  { title: 'Watchers', isNumber: true, cell: (c) => formatNumber(c.watchers) },
  { title: 'Sent', isNumber: true, cell: (c) => formatBytes(c.sentBytes) },
]

const GROUPS: readonly Column<GroupFigures>[] = [
  { title: 'Resource', isText: true, cell: (g) => g.resource },
  { title: 'Transport', isWide: true, cell: (g) => g.transport },
  { title: 'Watchers', isNumber: true, cell: (g) => formatNumber(g.watchers) },
  { title: 'Selector', isText: true, cell: (g) => (g.selector === null ? 'hidden' : g.selector || 'everything') },
]

const SLOW: readonly Column<SlowWatcherFigures>[] = [
  { title: 'Resource', isText: true, cell: (w) => w.resource },
  { title: 'Transport', isWide: true, cell: (w) => w.transport },
  { title: 'State', cell: (w) => w.state },
  { title: 'Behind', isNumber: true, cell: (w) => formatCount(w.behind, 'revision') },
  { title: 'In socket', isNumber: true, isWide: true, cell: (w) => formatBytes(w.pendingBytes) },
]

const FEED_STATES: Readonly<Record<string, string>> = {
  idle: 'not started',
  listing: 'being listed',
  verifying: 'reconnecting',
  'catching-up': 'catching up',
  watching: 'watched',
  'backing-off': 'cut off, retrying',
  refused: 'refused by the upstream',
}

/** `12 over http1, 3 over sse` */
function transports({ watchers }: ServerStatus): string {
  const counts = new Map<string, number>()
  for (const [key, count] of Object.entries(watchers)) {
    const [transport = ''] = key.split(' ')
    counts.set(transport, (counts.get(transport) ?? 0) + count)
  }
  return [...counts].map(([name, count]) => `${formatNumber(count)} over ${name}`).join(', ') || 'none'
}

/** Shows where the data comes from, and whether it is still arriving. */
function upstream(status: ServerStatus): void {
  const { upstream: source, fleet, feeds } = status
  const states = new Map<string, number>()
  for (const { state } of feeds) states.set(state, (states.get(state) ?? 0) + 1)
  const parts = (part: string): number => feeds.filter((feed) => feed.part === part).length
  const resources = [...states].map(([state, count]) => `${count} ${FEED_STATES[state] ?? state}`).join(', ')
  const direct = parts('direct')
  const memory = formatBytes(status.processes.reduce((sum, { rssBytes }) => sum + rssBytes, 0))
  const process = `${memory}, up ${formatSeconds(Math.max(0, ...status.processes.map((one) => one.uptimeSeconds)))}`
  const values: [string, string | Node][] = [
    ['Upstream', source],
    ['Connection', connection(status)],
    ['Resources', resources],
    ['Watchers', transports(status)],
    ['Process', process],
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

function showResources({ resources }: ServerStatus): void {
  const all = byId<HTMLInputElement>('all-resources').checked
  // What needs attention comes first; otherwise rows keep their places.
  const rank = (r: ResourceFigures): number => (r.problem !== null ? 0 : r.watchers > 0 ? 1 : 2)
  const shown = resources
    .filter((r) => isFound(r.resource, r.problem) && (all || r.objects > 0 || rank(r) < 2))
    .toSorted((a, b) => rank(a) - rank(b))
  const none = isFound() ? 'all resources are empty' : 'no matches'
  fillTable(byId('resources'), RESOURCES, shown, none)
}
