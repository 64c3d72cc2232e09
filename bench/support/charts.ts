/** The only file that knows the plotting library: rows in, SVG text out. */
import { parse, View } from 'vega'
import { compile, type TopLevelSpec } from 'vega-lite'
import type { Row } from './record.js'

type Label = (row: Row) => string

const WIDTH = 620
const OURS = '#0b6e99'
const OTHERS = '#b8b8b8'

async function svg(spec: TopLevelSpec): Promise<string> {
  const view = new View(parse(compile(spec).spec), { renderer: 'none' })
  try {
    return await view.toSVG()
  } finally {
    view.finalize()
  }
}

const base = { $schema: 'https://vega.github.io/schema/vega-lite/v6.json', width: WIDTH, background: 'white' } as const

/** Returns the names in order, as a list, because the layers of a chart cannot sort by a field. */
function byValue<T extends { readonly who: string }>(values: readonly T[], value: (row: T) => number): string[] {
  return [...values].sort((a, b) => value(a) - value(b)).map((row) => row.who)
}

/** Draws one bar for each row, the highest first. Ours are highlighted. */
export function barChart(rows: readonly Row[], label: Label, name: string, title: string): Promise<string> {
  const values = rows.map((row) => ({ who: label(row), value: row[name], isOurs: row.subject === 'distributary' }))
  const sort = byValue(values, (row) => -Number(row.value))
  const y = { field: 'who', type: 'nominal', sort, title: null, axis: { labelLimit: 300 } } as const
  const x = { field: 'value', type: 'quantitative', title: null, axis: { format: '~s' } } as const
  return svg({
    ...base,
    title,
    data: { values },
    layer: [
      {
        mark: 'bar',
        encoding: { y, x, color: { condition: { test: 'datum.isOurs', value: OURS }, value: OTHERS } },
      },
      {
        mark: { type: 'text', align: 'left', dx: 4 },
        encoding: { y, x, text: { field: 'value', type: 'quantitative', format: '.3~s' } },
      },
    ],
  })
}

/** Draws the range from p50 to p99, on a logarithmic scale. */
export function delayChart(rows: readonly Row[], label: Label, title: string): Promise<string> {
  const values = rows.map((row) => ({
    who: label(row),
    p50: Math.max(0.01, Number(row['p50Ms'])),
    p99: Math.max(0.01, Number(row['p99Ms'])),
    isOurs: row.subject === 'distributary',
  }))
  const sort = byValue(values, (row) => row.p99)
  const y = { field: 'who', type: 'nominal', sort, title: null, axis: { labelLimit: 300 } } as const
  const x = { field: 'p50', type: 'quantitative', scale: { type: 'log' }, title: 'ms' } as const
  const color = { condition: { test: 'datum.isOurs', value: OURS }, value: '#888' } as const
  return svg({
    ...base,
    title,
    data: { values },
    layer: [
      { mark: { type: 'rule', strokeWidth: 3 }, encoding: { y, x, x2: { field: 'p99' }, color } },
      { mark: { type: 'point', filled: true, size: 50 }, encoding: { y, x, color } },
      { mark: { type: 'tick', thickness: 3 }, encoding: { y, x: { ...x, field: 'p99' }, color } },
    ],
  })
}

/** Draws one line for each label; the horizontal axis is logarithmic. */
export function lineChart(rows: readonly Row[], label: Label, x: string, y: string, title: string): Promise<string> {
  const values = rows.map((row) => ({ who: label(row), x: row[x], y: row[y] }))
  return svg({
    ...base,
    height: 240,
    title,
    data: { values },
    mark: { type: 'line', point: true },
    encoding: {
      x: { field: 'x', type: 'quantitative', scale: { type: 'log' }, title: x },
      y: { field: 'y', type: 'quantitative', scale: { zero: true }, title: null },
      color: { field: 'who', type: 'nominal', title: null },
    },
  })
}
