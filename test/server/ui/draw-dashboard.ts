/**
 * Draws dashboard panels from Prometheus data for a picture in the documents. Debian has no Grafana package, so the
 * page is ours; queries, titles, places and legends are the dashboard's.
 */
import { createRequire } from 'node:module'
import type { Page } from 'playwright-core'
import { type Panel, filledIn } from '../../ops/support/dashboard.js'
import type { PrometheusProcess } from '../../ops/support/prometheus.js'

interface Series {
  readonly label: string
  /** One value for each time of the panel; null if there is none. */
  readonly values: readonly (number | null)[]
}

export interface DrawnPanel {
  readonly panel: Panel
  /** Seconds since the epoch. */
  readonly times: readonly number[]
  readonly series: readonly Series[]
}

interface RangeResult {
  readonly result: readonly {
    readonly metric: Readonly<Record<string, string>>
    readonly values: readonly (readonly [number, string])[]
  }[]
}

const STEP_S = 2
/** More lines than this cannot be told apart in a picture. */
const MAX_SERIES = 8
const WIDTH = 1_440
const ROW_PX = 30

/** The last `seconds` of every query of a panel. */
export async function queryPanel(prometheus: PrometheusProcess, panel: Panel, seconds: number): Promise<DrawnPanel> {
  const end = Math.floor(Date.now() / 1_000 / STEP_S) * STEP_S
  const start = end - seconds
  const times = Array.from({ length: seconds / STEP_S + 1 }, (_, i) => start + i * STEP_S)
  const series: Series[] = []
  for (const { expr, legendFormat } of panel.targets ?? []) {
    const query = encodeURIComponent(filledIn(expr, '10s'))
    const path = `/api/v1/query_range?query=${query}&start=${start}&end=${end}&step=${STEP_S}`
    const { result } = (await prometheus.get(path)) as RangeResult
    for (const { metric, values } of result) {
      const at = new Map(values.map(([time, value]) => [time, Number(value)]))
      const label = legendFormat.replaceAll(/\{\{(\w+)\}\}/g, (_, name: string) => metric[name] ?? '')
      series.push({ label, values: times.map((time) => finite(at.get(time))) })
    }
  }
  const size = (one: Series): number => Math.max(0, ...one.values.map((value) => value ?? 0))
  return { panel, times, series: series.toSorted((a, b) => size(b) - size(a)).slice(0, MAX_SERIES) }
}

function finite(value: number | undefined): number | null {
  return value === undefined || !Number.isFinite(value) ? null : value
}

/** Makes the page show the panels, with its height fitted to them. */
export async function drawDashboard(page: Page, panels: readonly DrawnPanel[]): Promise<void> {
  const uPlotFolder = createRequire(import.meta.url)
    .resolve('uplot')
    .replace(/[^/]*$/, '')
  const height = Math.max(...panels.map(({ panel: { gridPos } }) => gridPos.y + gridPos.h)) * ROW_PX + 16
  await page.setViewportSize({ width: WIDTH, height })
  await page.setContent('<!doctype html><body></body>')
  await page.addStyleTag({ path: `${uPlotFolder}uPlot.min.css` })
  await page.addStyleTag({
    content: `body { margin: 8px; background: #f4f5f5; font: 12px system-ui, sans-serif; color: #24292e }
      section { position: absolute; box-sizing: border-box; background: #fff; border: 1px solid #dcdcde; border-radius: 2px; padding: 6px 8px; overflow: hidden }
      section.row { background: none; border: none; font-weight: 600 }
      h2 { margin: 0 0 2px; font-size: 13px; font-weight: 500 } strong { display: block; font-size: 38px; font-weight: 500; text-align: center; color: #1a7f37 }
      .u-legend { font-size: 11px; text-align: left } .u-legend .u-marker { width: 12px; height: 3px } .u-legend .u-value, .u-legend .u-series:first-child { display: none }`,
  })
  await page.addScriptTag({ path: `${uPlotFolder}uPlot.iife.min.js` })
  await page.evaluate(drawAll, { panels, columnPx: (WIDTH - 16) / 24, rowPx: ROW_PX })
}

interface Drawing {
  readonly panels: readonly DrawnPanel[]
  readonly columnPx: number
  readonly rowPx: number
}

/** The part of the page's DOM that is used; the tests are compiled for Node. */
interface PageElement {
  className: string
  textContent: string | null
  readonly style: { cssText: string }
  appendChild(child: PageElement): PageElement
}

interface Window {
  readonly uPlot: new (options: object, data: unknown, parent: PageElement) => object
  readonly document: { readonly body: PageElement; createElement(name: string): PageElement }
}

/** Runs in the page. */
function drawAll({ panels, columnPx, rowPx }: Drawing): void {
  const colors = ['#7eb26d', '#eab839', '#3274d9', '#ef843c', '#e24d42', '#8f3bb8', '#0a9396', '#ba43a9']
  const { uPlot: UPlot, document } = globalThis as unknown as Window
  const round = (value: number): string => String(Number(value.toPrecision(3)))
  const shown = (value: number, unit: string | undefined): string => {
    if (unit === 's' && value < 1) return `${round(value * 1_000)} ms`
    if (unit === 's') return `${round(value)} s`
    if (unit === 'bytes' || unit === 'Bps') {
      const power = Math.max(0, Math.min(3, Math.floor(Math.log2(Math.max(1, value)) / 10)))
      return `${round(value / 1_024 ** power)} ${['B', 'KiB', 'MiB', 'GiB'][power]}${unit === 'Bps' ? '/s' : ''}`
    }
    if (unit === 'percentunit') return `${round(value * 100)} %`
    return value.toLocaleString('en-US', { maximumFractionDigits: 2 })
  }
  for (const { panel, times, series } of panels) {
    const { x, y, w, h } = panel.gridPos
    const unit = panel.fieldConfig?.defaults.unit
    const section = document.body.appendChild(document.createElement('section'))
    section.className = panel.type
    const [width, height] = [w * columnPx - 6, h * rowPx - 6]
    section.style.cssText = `left: ${8 + x * columnPx}px; top: ${8 + y * rowPx}px; width: ${width}px; height: ${height}px`
    section.appendChild(document.createElement('h2')).textContent = panel.title
    if (panel.type === 'stat') {
      const [first] = series
      const last = first?.values.findLast((value) => value !== null)
      const text = last == null ? 'no data' : first!.label === '' ? shown(last, unit) : first!.label
      section.appendChild(document.createElement('strong')).textContent = text
    } else if (panel.type === 'timeseries') {
      const lines = series.map(({ label }, i) => ({ label, stroke: colors[i]!, width: 1.5, points: { show: false } }))
      const axis = { size: 78, values: (_: unknown, ticks: number[]) => ticks.map((tick) => shown(tick, unit)) }
      const options = {
        width: width - 18,
        height: height - 30 - 22 * Math.ceil(Math.max(1, series.length) / 4),
        cursor: { show: false },
        scales: {
          y: { range: (_: unknown, _min: number, max: number): [number, number] => [0, max > 0 ? max * 1.1 : 1] },
        },
        axes: [{}, axis],
        series: [{}, ...lines],
      }
      new UPlot(options, [times, ...series.map(({ values }) => values)], section)
    }
  }
}
