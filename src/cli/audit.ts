/** `distributary audit`: has a server compare its caches with etcd now, and tells what came of it. */
import { defineCommand, type FlagValues, type Flags } from './command.js'
import { connect, connectionFlags } from './connection.js'
import { CommandError, EXIT, UsageError } from './exit-code.js'
import { askJson } from './request.js'
import { type Colour, painter } from './style.js'

/** As the server writes it: see `feed/audit-report.ts`. */
interface ConsistencyReport {
  readonly kind: string
  readonly outcome: 'equal' | 'different' | 'incomplete'
  readonly resources: readonly AuditRow[]
}

interface AuditRow {
  readonly group: string
  readonly resource: string
  readonly outcome: 'equal' | 'different' | 'skipped'
  readonly revision: number | null
  readonly objects: number
  readonly differences: number
  readonly sampled: number
  readonly rebuilt: boolean
  readonly reason: string | null
}

const auditFlags = {
  output: { kind: 'choice', short: 'o', choices: ['table', 'json'], doc: 'How to print it. Default: table.' },
  timeout: { kind: 'duration', min: 1, doc: 'Wait no longer than this. Default: as long as it takes.' },
  ...connectionFlags,
} as const satisfies Flags

const COLOURS: Readonly<Record<AuditRow['outcome'], Colour>> = { equal: 'green', different: 'red', skipped: 'yellow' }

export const auditCommand = defineCommand<typeof auditFlags>({
  name: 'audit',
  summary: 'compare what a server has cached with etcd, now',
  description:
    'Every key and its mod revision at one revision, and a sample of values. What differs is listed anew by the server, and its watchers start afresh; the keys are in its log. Ends with 0 only if everything could be compared and is equal.',
  positionals: [{ name: 'URL', isOptional: true }],
  flags: auditFlags,
  examples: [
    { doc: 'the server of this machine', line: 'distributary audit' },
    { doc: 'another, for a script', line: 'distributary audit https://distributary.example:6443 -o json' },
  ],
  async run({ flags, args: [url = null], environment, out, signal }) {
    if (url !== null && flags.server !== null) throw new UsageError('URL and --server are both given')
    const server = url ?? flags.server
    const connection = await connect({ ...(flags as FlagValues<typeof connectionFlags>), server }, environment)
    const deadline = flags.timeout === null ? null : AbortSignal.timeout(flags.timeout)
    try {
      const both = deadline === null ? signal : AbortSignal.any([signal, deadline])
      const report = await askJson(connection, { method: 'POST', path: '/audit', signal: both })
      if (!isReport(report)) throw new CommandError(`${connection.server} has no audit: is it a distributary?`)
      if (flags.output === 'json') await out.line(JSON.stringify(report, null, 2))
      else await out.write(table(report, painter(out.hasColour())))
      return report.outcome === 'equal' ? EXIT.done : EXIT.failed
    } catch (error) {
      if (deadline?.aborted === true && !signal.aborted) {
        throw new CommandError('no answer within --timeout', EXIT.timedOut, { cause: error })
      }
      throw error
    } finally {
      connection.close()
    }
  },
})

function isReport(answer: unknown): answer is ConsistencyReport {
  return typeof answer === 'object' && answer !== null && (answer as { kind?: unknown }).kind === 'AuditReport'
}

function table({ resources }: ConsistencyReport, paint: ReturnType<typeof painter>): string {
  const rows = resources.map((row) => [
    row.group === '' ? row.resource : `${row.resource}.${row.group}`,
    row.outcome,
    row.revision === null ? '-' : String(row.revision),
    String(row.objects),
    String(row.differences),
    String(row.sampled),
    row.reason ?? (row.rebuilt ? 'listed anew' : ''),
  ])
  const all = [['RESOURCE', 'OUTCOME', 'REVISION', 'OBJECTS', 'DIFFERENCES', 'SAMPLED', ''], ...rows]
  const widths = all[0]!.map((_, column) => Math.max(...all.map((row) => row[column]!.length)))
  return all
    .map((row, line) => {
      const cells = row.map((cell, column) => {
        const padded = column === row.length - 1 ? cell : cell.padEnd(widths[column]!)
        return line > 0 && column === 1 ? paint(COLOURS[resources[line - 1]!.outcome], padded) : padded
      })
      return `${cells.join('  ').trimEnd()}\n`
    })
    .join('')
}
