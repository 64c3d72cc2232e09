/**
 * Summarizes the rounds of `bench relief`: the median of each figure and arrangement, and its ratio to that of the API
 * server alone.
 */
import { median } from './agent-rows.js'

type Row = Readonly<Record<string, unknown>>

export const RELIEF_ARRANGEMENTS = ['alone', 'sidecar', 'upstream'] as const

interface ReliefFigure {
  /** `steady` or `storm`. */
  readonly phase: string
  readonly name: string
  readonly title: string
  /** The factor that converts the value to the title's unit. */
  readonly scale?: number
  /** Whether it is in the table of the README. */
  readonly isMain?: boolean
}

export const reliefFigures: readonly ReliefFigure[] = [
  { phase: 'steady', name: 'apiServerCores', title: 'API server: CPU, cores', isMain: true },
  { phase: 'steady', name: 'apiServerPeakMb', title: 'API server: memory, MB', isMain: true },
  { phase: 'steady', name: 'apiServerP99Ms', title: 'API server: request p99, ms', isMain: true },
  { phase: 'steady', name: 'etcdCores', title: 'etcd: CPU, cores', isMain: true },
  { phase: 'steady', name: 'etcdPeakMb', title: 'etcd: memory, MB' },
  { phase: 'steady', name: 'etcdP99Ms', title: 'etcd: request p99, ms' },
  { phase: 'steady', name: 'oursCores', title: 'distributary: CPU, cores', isMain: true },
  { phase: 'steady', name: 'oursPeakMb', title: 'distributary: memory, MB', isMain: true },
  { phase: 'steady', name: 'othersCores', title: 'controllers, scheduler and kwok: CPU, cores' },
  { phase: 'steady', name: 'writeP99Ms', title: 'a write, as its client sees it: p99, ms' },
  { phase: 'steady', name: 'p50Ms', title: 'from a write until an agent has it: p50, ms' },
  { phase: 'steady', name: 'p99Ms', title: 'from a write until an agent has it: p99, ms' },
  { phase: 'steady', name: 'deliveriesPerSecond', title: 'deliveries/s' },
  { phase: 'steady', name: 'relisted', title: 'watches that the server ended' },
  { phase: 'storm', name: 'liveMs', title: 'storm: time until all watches are live, s', scale: 1e-3, isMain: true },
  { phase: 'storm', name: 'relisted', title: 'storm: watches that had to list again' },
  { phase: 'storm', name: 'apiServerPeakCores', title: 'storm: API server, cores in the busiest half second' },
  { phase: 'storm', name: 'apiServerCpuSeconds', title: 'storm: API server, CPU seconds' },
  { phase: 'storm', name: 'apiServerPeakMb', title: 'storm: API server, memory, MB' },
  { phase: 'storm', name: 'apiServerRefused', title: 'storm: requests that the API server refused (429)' },
  { phase: 'storm', name: 'etcdCpuSeconds', title: 'storm: etcd, CPU seconds' },
  { phase: 'storm', name: 'oursCpuSeconds', title: 'storm: distributary, CPU seconds' },
  { phase: 'storm', name: 'oursPeakMb', title: 'storm: distributary, memory, MB' },
]

/**
 * A Markdown table.
 *
 * @param rows of one run.
 * @param figure writes a number.
 */
export function reliefTable(
  rows: readonly Row[],
  figures: readonly ReliefFigure[],
  figure: (value: number) => string,
): string {
  const good = rows.filter((row) => row['failed'] === undefined)
  const lines = figures.map(({ phase, name, title, scale = 1 }) => {
    const medianOf = (arrangement: string): number | null => {
      const values = good.flatMap((row) => {
        const value = row[name]
        const isOne = row['phase'] === phase && row['arrangement'] === arrangement && typeof value === 'number'
        return isOne ? [value * scale] : []
      })
      return values.length === 0 ? null : median(values)
    }
    const alone = medianOf('alone')
    const cells = RELIEF_ARRANGEMENTS.map((arrangement) => {
      const value = medianOf(arrangement)
      if (value === null) return '–'
      const hasRatio = arrangement !== 'alone' && alone !== null && alone !== 0
      return hasRatio ? `${figure(value)} (${figure(value / alone)} ×)` : figure(value)
    })
    return `| ${[title, ...cells].join(' | ')} |`
  })
  return ['| | API server alone | with a sidecar | with `--upstream` |', '| --- | ---: | ---: | ---: |', ...lines].join(
    '\n',
  )
}
