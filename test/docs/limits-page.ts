/** docs/reference/limits.md: its tables are generated from `limits.ts`; the text around them is written by hand. */
import * as engine from '../../src/engine/model/limits.js'
import * as etcdApi from '../../src/etcd-api/limits.js'
import * as fleet from '../../src/fleet/limits.js'
import * as dialect from '../../src/kubernetes/model/limits.js'
import { options } from '../../src/server/config/options.js'
import * as server from '../../src/server/limits/fixed-limits.js'
import type { Limit } from '../../src/server/limits/limit.js'
import * as support from '../../src/support/limits.js'
import {
  DIALECT,
  ETCD_API,
  ENGINE,
  type Fixed,
  type FixedRows,
  FLEET,
  inUnits,
  OTHER,
  SERVER,
  SETTABLE,
  SUPPORT,
} from './limits.js'
import { withMade } from './recorded.js'

const begin = (part: string): string => `<!-- ${part}: generated from test/docs/limits.ts by \`npm run generate\`. -->`

/** By what they protect, with the module of their constants. */
const FIXED: Readonly<Record<string, readonly Fixed[]>> = {
  'Connections and requests (`src/server/limits/fixed-limits.ts`)': [...withValues(SERVER, server), ...OTHER],
  'Selectors and bodies (`src/kubernetes/model/limits.ts`)': withValues(DIALECT, dialect),
  "etcd's own API (`src/etcd-api/limits.ts`)": withValues(ETCD_API, etcdApi),
  'YAML (`src/support/limits.ts`)': withValues(SUPPORT, support),
  'Watchers, caches and etcd (`src/engine/model/limits.ts`)': withValues(ENGINE, engine),
  'Fleets and workers (`src/fleet/limits.ts`)': withValues(FLEET, fleet),
}

/** What the page says about each limit, for its tests. */
export const limitRows: readonly Fixed[] = [...SETTABLE, ...Object.values(FIXED).flat()]

export const metricOf = ({ metric = 'distributary_http_requests_total' }: Fixed): string => metric
export const testsOf = ({ tests }: Fixed): string[] => tests.map((test) => `test/${test}.test.ts`)
export const countedLimits = (): Limit[] => limitRows.flatMap(({ limit }) => limit ?? [])

/** Returns the page with its tables made again. */
export function withLimits(page: string): string {
  const settable = SETTABLE.map((row) => {
    const { flag, defaultText } = options[row.option]
    const value = `${row.share === undefined ? '' : `${row.share} `}\`${flag}\``
    return cells(row, [value, defaultText ?? '–'])
  })
  const fixed = Object.entries(FIXED).map(([title, rows]) => {
    const lines = rows.map((row) => cells(row, [row.value ?? '']))
    return `### ${title}\n\n${table(['limit'], lines)}`
  })
  const withSettable = withMade(page, table(['set by', 'default'], settable), begin('Options'))
  return withMade(withSettable, fixed.join('\n\n'), begin('Fixed limits'))
}

function table(columns: readonly string[], rows: readonly string[]): string {
  const names = ['bound', ...columns, 'beyond it', 'metric', 'test']
  return [`| ${names.join(' | ')} |`, `|${' --- |'.repeat(names.length)}`, ...rows].join('\n')
}

function cells(row: Fixed, values: readonly string[]): string {
  const metric = row.limit === undefined ? metricOf(row) : `limit="${row.limit}"`
  const tests = testsOf(row).map((test) => `\`${test}\``)
  return `| ${[row.bound, ...values, row.beyond, `\`${metric}\``, tests.join(', ')].join(' | ')} |`
}

function withValues<Module>(rows: FixedRows<Module>, module: Module): Fixed[] {
  return Object.entries<Fixed | null>(rows).flatMap(([name, row]) =>
    row === null ? [] : [{ ...row, value: row.value ?? inUnits(name, module[name as keyof Module] as number) }],
  )
}
