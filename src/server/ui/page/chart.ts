/**
 * A chart of the last few minutes, drawn by uPlot, that follows the page's width and theme. A sentence below it says the
 * same for readers who do not see it.
 */
import type UPlot from 'uplot'
import { byId, formatClock, formatNumber } from './elements.js'

declare const uPlot: typeof UPlot

/** Five minutes at one point a second. */
const POINTS = 300
/** The minimum width of a chart in seconds. Otherwise a chart with a single point would span years. */
const LEAST_SECONDS = 5

/** Returns the visible range, which begins at the first data point, in seconds since the epoch. */
function within(min: number | null, max: number | null): [number, number] {
  const end = max ?? Date.now() / 1000
  const begin = min ?? end
  return [Math.min(begin, end - LEAST_SECONDS), end]
}

/** Draws an empty chart, and returns a function that adds a point to it. */
export function addChart(
  id: string,
  names: readonly string[],
  unit: string,
): (at: number, values: readonly (number | null)[]) => void {
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
    const look = { stroke: axis, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 } }
    const times = (_plot: unknown, ticks: readonly number[]): string[] => ticks.map((at) => formatClock(at * 1000))
    plot = new uPlot(
      {
        width: parent.clientWidth,
        height: 180,
        axes: [{ ...look, values: times, space: 80 }, look],
        legend: { live: false },
        cursor: { show: false },
        scales: {
          x: { range: (_plot, min: number | null, max: number | null) => within(min, max) },
          y: { range: (_plot, _min, max: number | null) => [0, Math.max(1, (max ?? 0) * 1.1)] },
        },
        series: [{}, ...names.map((label, i) => ({ label, stroke: lines[names.length - 1 - i] ?? axis, width: 2 }))],
      },
      data as UPlot.AlignedData,
      parent,
    )
    // The sentence says what the canvas shows.
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
    const sentences = names.map((name, i) => sentence(name, data[i + 1] as (number | null)[], unit))
    byId(`${id}-text`).textContent = `Since ${formatClock(data[0][0]! * 1000)}: ${sentences.join('; ')}.`
  }
}

function sentence(name: string, values: readonly (number | null)[], unit: string): string {
  const known = values.filter((value) => value !== null)
  if (known.length === 0) return `${name} has no values`
  const [now, least, most] = [known.at(-1)!, Math.min(...known), Math.max(...known)].map(formatNumber)
  return `${name} ${now} ${unit}, between ${least} and ${most}`
}
