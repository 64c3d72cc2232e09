/** Figures, charts and tables of the server itself, from `/ui/events`. */
import type UPlot from 'uplot'
import { byId, type Column, fillTable, formatBytes, formatNumber, formatSeconds, marked } from './elements.js'

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

interface Status {
  readonly version: string
  readonly upstream: string
  readonly uptimeSeconds: number
  readonly ready: boolean
  readonly rssBytes: number
  readonly receivedEvents: number
  readonly sentEvents: number
  readonly delays: readonly (readonly [number, number])[]
  readonly watchers: Readonly<Record<string, number>>
  readonly resources: readonly ResourceStatus[]
  readonly groups: readonly (Watchers & { readonly selector: string; readonly watchers: number })[]
  readonly slow: readonly (Watchers & {
    readonly state: string
    readonly behind: number
    readonly pendingBytes: number
  })[]
  readonly slowCount: number
}

/** Five minutes of seconds. */
const POINTS = 300

const RESOURCES: readonly Column<ResourceStatus>[] = [
  { title: 'Resource', cell: (r) => r.resource },
  { title: 'State', cell: (r) => (r.problem === null ? marked('ready', 'good') : marked(r.problem, 'bad')) },
  { title: 'Objects', isNumber: true, cell: (r) => formatNumber(r.objects) },
  { title: 'Watchers', isNumber: true, cell: (r) => formatNumber(r.watchers) },
  { title: 'Revision', isNumber: true, cell: (r) => String(r.revision) },
  { title: 'History', cell: (r) => meter(r) },
  {
    title: 'back to',
    isNumber: true,
    isWide: true,
    cell: (r) => (r.ringBatches === 0 ? '–' : formatSeconds(r.ringAgeSeconds)),
  },
  { title: 'Data age', isNumber: true, isWide: true, cell: (r) => formatSeconds(r.stalenessSeconds) },
]

function meter(resource: ResourceStatus): HTMLElement {
  const element = document.createElement('meter')
  element.value = resource.ringFill
  element.title = `${resource.ringBatches} revisions, ${Math.round(resource.ringFill * 100)} % of the bytes`
  element.setAttribute('aria-label', `history of ${resource.resource}: ${element.title}`)
  return element
}

export function followStatus(onResources: (resources: readonly ResourceStatus[]) => void): void {
  const rate = chart('rate-chart', ['in', 'out'])
  const lag = chart('lag-chart', ['p99'])
  let previous: { status: Status; at: number } | null = null
  byId('all-resources').addEventListener('change', () => previous !== null && showResources(previous.status))
  const events = new EventSource('events')
  events.addEventListener('status', (event: MessageEvent<string>) => {
    const status = JSON.parse(event.data) as Status
    const at = Date.now() / 1000
    // A server that began anew counts from zero: there is no rate between two lives.
    if (previous !== null && status.uptimeSeconds > previous.status.uptimeSeconds) {
      const seconds = at - previous.at
      const per = (now: number, before: number): number => Math.max(0, now - before) / seconds
      const sent = per(status.sentEvents, previous.status.sentEvents)
      rate(at, [per(status.receivedEvents, previous.status.receivedEvents), sent])
      lag(at, [quantile(previous.status.delays, status.delays, 0.99)])
      tiles(status, sent)
    } else tiles(status, 0)
    previous = { status, at }
    summary(status)
    showResources(status)
    fillTable(byId('groups'), GROUPS, status.groups, 'nobody watches')
    fillTable(byId('slow'), SLOW, status.slow, 'none')
    byId('slow-hint').textContent = `${formatNumber(status.slowCount)} are behind or have a full socket.`
    onResources(status.resources)
  })
  events.addEventListener('error', () => {
    byId('summary').replaceChildren(marked('no connection; trying again', 'bad'))
  })
}

const GROUPS: readonly Column<Status['groups'][number]>[] = [
  { title: 'Resource', cell: (g) => g.resource },
  { title: 'Transport', cell: (g) => g.transport },
  { title: 'Watchers', isNumber: true, cell: (g) => formatNumber(g.watchers) },
  { title: 'Selector', cell: (g) => g.selector },
]

const SLOW: readonly Column<Status['slow'][number]>[] = [
  { title: 'Resource', cell: (w) => w.resource },
  { title: 'Transport', cell: (w) => w.transport },
  { title: 'State', cell: (w) => w.state },
  { title: 'Revisions behind', isNumber: true, cell: (w) => formatNumber(w.behind) },
  { title: 'In its socket', isNumber: true, cell: (w) => formatBytes(w.pendingBytes) },
]

/** A live region: told only when it says something else. */
function summary(status: Status): void {
  const text = `${status.version} · ${status.upstream} · ${status.ready ? 'ready' : 'not ready'}`
  const element = byId('summary')
  if (element.textContent !== text) element.replaceChildren(marked(text, status.ready ? '' : 'bad'))
}

function tiles(status: Status, sentPerSecond: number): void {
  const count = (transport: RegExp): number =>
    Object.entries(status.watchers).reduce((sum, [key, n]) => (transport.test(key) ? sum + n : sum), 0)
  const transports = [...new Set(Object.keys(status.watchers).map((key) => key.split(' ')[0]!))].sort()
  const values: [string, string][] = [
    ['Watchers', formatNumber(count(/./))],
    ...transports.map((name): [string, string] => [`over ${name}`, formatNumber(count(new RegExp(`^${name} `)))]),
    ['Events out per second', formatNumber(sentPerSecond)],
    ['Objects', formatNumber(status.resources.reduce((sum, { objects }) => sum + objects, 0))],
    ['Oldest data', formatSeconds(Math.max(0, ...status.resources.map((r) => r.stalenessSeconds)))],
    ['Memory', formatBytes(status.rssBytes)],
    ['Up', formatSeconds(status.uptimeSeconds)],
  ]
  byId('tiles').replaceChildren(
    ...values.map(([name, value]) => {
      const tile = document.createElement('div')
      const term = document.createElement('dt')
      const text = document.createElement('dd')
      term.textContent = name
      text.textContent = value
      tile.append(term, text)
      return tile
    }),
  )
}

function showResources({ resources }: Status): void {
  const all = byId<HTMLInputElement>('all-resources').checked
  const shown = resources.filter((r) => all || r.objects > 0 || r.watchers > 0 || r.problem !== null)
  fillTable(byId('resources'), RESOURCES, shown, 'all are empty')
}

/** Between two readings of a cumulative histogram, by its bucket's upper bound, in milliseconds; null: no event. */
function quantile(before: Status['delays'], after: Status['delays'], q: number): number | null {
  const old = new Map(before)
  const counts = after.map(([bound, count]) => [bound, count - (old.get(bound) ?? 0)] as const)
  const total = counts.at(-1)?.[1] ?? 0
  if (total <= 0) return null
  return (counts.find(([, count]) => count >= q * total)?.[0] ?? Number.NaN) * 1000
}

/** Returns how to add a point. */
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
          y: { range: (_plot, _min, max: number | null) => [0, Math.max(1, (max ?? 0) * 1.1)] },
        },
        series: [{}, ...names.map((label, i) => ({ label, stroke: lines[names.length - 1 - i] ?? axis, width: 2 }))],
      },
      data as UPlot.AlignedData,
      parent,
    )
    // What a chart shows is in the tiles as text.
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
