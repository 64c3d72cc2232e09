/** Figures, charts and tables of the server itself, from `/ui/events`. */
import type UPlot from 'uplot'
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

declare const uPlot: typeof UPlot

export interface ResourceStatus {
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

interface Watchers {
  readonly resource: string
  readonly transport: string
}

interface Process {
  readonly name: string
  readonly pid: number
  readonly uptimeSeconds: number
  readonly rssBytes: number
  readonly ready: boolean
  /** null when the process serves no clients. */
  readonly takenEvents: number | null
  readonly sentEvents: number
  readonly watchers: number
}

interface Status {
  readonly version: string
  readonly upstream: string
  readonly fleet: { readonly servers: string; readonly role: string; readonly cluster: string } | null
  readonly ready: boolean
  readonly processes: readonly Process[]
  readonly feeds: readonly {
    readonly resource: string
    readonly state: string
    readonly reason: string | null
    readonly part: 'publishes' | 'follows' | 'direct' | null
  }[]
  readonly delays: readonly (readonly [number, number])[]
  readonly watchers: Readonly<Record<string, number>>
  readonly resources: readonly ResourceStatus[]
  readonly groups: readonly (Watchers & { readonly selector: string | null; readonly watchers: number })[]
  /** null: the reader may not see who watches. */
  readonly clients: readonly { readonly client: string; readonly watchers: number }[] | null
  readonly slow: readonly (Watchers & {
    readonly state: string
    readonly behind: number
    readonly pendingBytes: number
  })[]
  readonly slowCount: number
}

/** Five minutes, with one point a second. */
const POINTS = 300

const RESOURCES: readonly Column<ResourceStatus>[] = [
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

/** Shows how full the history is, and how far back it goes: so long may a client be away and still resume. */
function history(resource: ResourceStatus): Node {
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

export function followStatus(onResources: (resources: readonly ResourceStatus[]) => void): void {
  const rate = chart('rate-chart', ['in', 'out'])
  const lag = chart('lag-chart', ['p99'])
  let previous: { status: Status; at: number } | null = null
  for (const id of ['all-resources', 'search']) {
    byId(id).addEventListener('input', () => {
      if (previous === null) return
      showResources(previous.status)
      showWatchers(previous.status)
    })
  }
  const events = new EventSource('events')
  events.addEventListener('status', (event: MessageEvent<string>) => {
    const status = JSON.parse(event.data) as Status
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
    const { reason } = JSON.parse(event.data) as { readonly reason: string }
    byId('summary').replaceChildren(marked(`no figures: ${reason}`, 'bad'))
  })
  events.addEventListener('error', () => {
    byId('summary').replaceChildren(marked('no connection; trying again', 'bad'))
  })
}

/** Leads from a resource to those who watch it. */
function findWatchers(resource: string): void {
  const search = byId<HTMLInputElement>('search')
  search.value = resource
  search.dispatchEvent(new Event('input'))
  byId('groups-title').scrollIntoView()
}

/** Whether the search finds one of these texts; an empty search finds all. */
function isFound(...texts: readonly (string | null)[]): boolean {
  const wanted = byId<HTMLInputElement>('search').value.trim().toLowerCase()
  return wanted === '' || texts.some((text) => text?.toLowerCase().includes(wanted))
}

function showWatchers({ groups, clients, slow }: Status): void {
  const found = <W extends Watchers>(all: readonly W[]): readonly W[] =>
    all.filter((one) => isFound(one.resource, one.transport, 'selector' in one ? String(one.selector) : null))
  fillTable(byId('groups'), GROUPS, found(groups), groups.length === 0 ? 'nobody watches' : 'none is found')
  fillTable(byId('slow'), SLOW, found(slow), 'none')
  byId('clients-part').hidden = clients === null
  fillTable(byId('clients'), CLIENTS, clients ?? [], 'nobody watches')
}

const CLIENTS: readonly Column<{ readonly client: string; readonly watchers: number }>[] = [
  { title: 'User or address', cell: (c) => c.client },
  { title: 'Watchers', isNumber: true, cell: (c) => formatNumber(c.watchers) },
]

const GROUPS: readonly Column<Status['groups'][number]>[] = [
  { title: 'Resource', cell: (g) => g.resource },
  { title: 'Transport', cell: (g) => g.transport },
  { title: 'Watchers', isNumber: true, cell: (g) => formatNumber(g.watchers) },
  { title: 'Selector', cell: (g) => (g.selector === null ? 'hidden' : g.selector === '' ? 'everything' : g.selector) },
]

const SLOW: readonly Column<Status['slow'][number]>[] = [
  { title: 'Resource', cell: (w) => w.resource },
  { title: 'Transport', cell: (w) => w.transport },
  { title: 'State', cell: (w) => w.state },
  { title: 'Revisions behind', isNumber: true, cell: (w) => formatNumber(w.behind) },
  { title: 'In its socket', isNumber: true, cell: (w) => formatBytes(w.pendingBytes) },
]

interface Rates {
  readonly in: number
  readonly out: number
  readonly outByPid: ReadonlyMap<number, number>
}

/**
 * Returns events a second. Each process has its own counters, and one that restarted has no rate yet; all of them take
 * in the same events.
 */
function ratesBetween(before: Status, after: Status, seconds: number): Rates {
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
  'backing-off': 'cut off, trying again',
  refused: 'cannot be listed',
}

/** Shows the source of the data and its state. */
function upstream(status: Status): void {
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
      'Part',
      direct === 0 ? publishes : marked(`${publishes}; reads etcd for ${direct}: NATS is away`, 'bad'),
    ])
  }
  fillList(byId('upstream'), values)
}

/** The age of the data is the best sign: between two attempts a feed goes through many states. */
function awaySeconds({ resources }: Status): number {
  return Math.max(0, ...resources.map(({ stalenessSeconds }) => stalenessSeconds))
}

function connection(status: Status): Node {
  const seconds = awaySeconds(status)
  const { reason = null } = status.feeds.find((feed) => feed.reason !== null && feed.state !== 'refused') ?? {}
  if (seconds > 0) return marked(`away for ${formatSeconds(seconds)}${reason === null ? '' : `: ${reason}`}`, 'bad')
  return status.feeds.some(({ state }) => state === 'watching') ? marked('connected', 'good') : marked('not yet', '')
}

function processes({ processes: all }: Status, outByPid: ReadonlyMap<number, number>): void {
  byId('processes-part').hidden = all.length < 2
  const columns: readonly Column<Process>[] = [
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

/** A live region, which is changed only when its text changes. */
function summary(status: Status): void {
  const isAway = awaySeconds(status) > 0
  const state = `${status.ready ? 'ready' : 'not ready'}${isAway ? ' · upstream away' : ''}`
  const text = `${status.version} · ${status.upstream} · ${state}`
  const element = byId('summary')
  if (element.textContent !== text) element.replaceChildren(marked(text, status.ready && !isAway ? '' : 'bad'))
}

function tiles(status: Status, sentPerSecond: number): void {
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

function showResources({ resources }: Status): void {
  const all = byId<HTMLInputElement>('all-resources').checked
  const shown = resources.filter(
    (r) => isFound(r.resource, r.problem) && (all || r.objects > 0 || r.watchers > 0 || r.problem !== null),
  )
  const none = isFound() ? 'all are empty' : 'none is found'
  fillTable(byId('resources'), RESOURCES, shown, none)
}

/**
 * Returns a quantile between two readings of a cumulative histogram, as the upper bound of its bucket in milliseconds;
 * null when there was no event.
 */
function quantile(before: Status['delays'], after: Status['delays'], q: number): number | null {
  const old = new Map(before)
  const counts = after.map(([bound, count]) => [bound, count - (old.get(bound) ?? 0)] as const)
  const total = counts.at(-1)?.[1] ?? 0
  if (total <= 0) return null
  return (counts.find(([, count]) => count >= q * total)?.[0] ?? Number.NaN) * 1000
}

/** Seconds that a chart shows at least: a single point alone would be drawn over years. */
const LEAST_SECONDS = 5

/** Returns the range from where the data begins, in seconds since the epoch. */
function within(min: number | null, max: number | null): [number, number] {
  const end = max ?? Date.now() / 1000
  const begin = min ?? end
  return [Math.min(begin, end - LEAST_SECONDS), end]
}

/** Returns a function that adds a point. */
function chart(id: string, names: readonly string[]): (at: number, values: readonly (number | null)[]) => void {
  const parent = byId(id)
  const style = (): { axis: string; grid: string; lines: readonly string[] } => {
    const css = getComputedStyle(document.documentElement)
    const color = (name: string): string => css.getPropertyValue(name).trim()
    return { axis: color('--soft'), grid: color('--line'), lines: [color('--good'), color('--link')] }
  }
  const data: [number[], ...(number | null)[][]] = [[], ...names.map((): (number | null)[] => [])]
  let plot: UPlot | null = null
  const draw = (): void => {
    plot?.destroy()
    const { axis, grid, lines } = style()
    const axes = [0, 1].map(() => ({
      stroke: axis,
      grid: { stroke: grid, width: 1 },
      ticks: { stroke: grid, width: 1 },
    }))
    plot = new uPlot(
      {
        width: parent.clientWidth,
        height: 180,
        axes,
        scales: {
          // A single first point would be drawn over years.
          x: { range: (_plot, min: number | null, max: number | null) => within(min, max) },
          y: { range: (_plot, _min, max: number | null) => [0, Math.max(1, (max ?? 0) * 1.1)] },
        },
        series: [{}, ...names.map((label, i) => ({ label, stroke: lines[names.length - 1 - i] ?? axis, width: 2 }))],
      },
      data as UPlot.AlignedData,
      parent,
    )
    // The tiles show the content of the chart as text.
    parent.querySelector('canvas')?.setAttribute('aria-hidden', 'true')
  }
  draw()
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw)
  new ResizeObserver(() => plot?.setSize({ width: parent.clientWidth, height: 180 })).observe(parent)
  return (at, values) => {
    data[0].push(at)
    for (const [i, value] of values.entries()) (data[i + 1] as (number | null)[]).push(value)
    if (data[0].length > POINTS) for (const series of data) series.shift()
    plot?.setData(data as UPlot.AlignedData)
  }
}
