/** `distributary consistency-check`: makes a server compare its caches with etcd now, and reports the outcome. */
import { type CommandContext, defineCommand, type FlagValues, type Flags } from './command.js'
import { connect, type Connection, connectionFlags } from './server-connection.js'
import { CommandError, EXIT, type ExitCode, UsageError } from './exit-code.js'
import { requestJson } from './server-request.js'
import { tableLines } from './table/text-table.js'

/** The report as the server writes it; see `engine/feed/consistency-report.ts`. */
interface ConsistencyReport {
  readonly kind: string
  readonly outcome: 'equal' | 'different' | 'incomplete'
  readonly resources: readonly CheckedResource[]
}

interface CheckedResource {
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

const checkFlags = {
  output: { kind: 'choice', short: 'o', choices: ['table', 'json'], doc: 'Format of the report. Default: table.' },
  timeout: { kind: 'duration', min: 1, doc: 'Maximum time to wait for the report. Default: no limit.' },
  ...connectionFlags,
} as const satisfies Flags

type Context = CommandContext<typeof checkFlags>

export const consistencyCheckCommand = defineCommand<typeof checkFlags>({
  name: 'consistency-check',
  summary: 'compare a server’s cache with etcd now',
  description:
    'The server compares every key and its mod revision at one revision, and a sample of the values. If a resource differs, the server relists it, which ends its watches with 410, and logs the keys. Exits with 0 only if everything could be compared and was equal.',
  positionals: '[URL]',
  flags: checkFlags,
  examples: [
    { doc: 'check the server on this machine', line: 'distributary consistency-check' },
    {
      doc: 'check another server, from a script',
      line: 'distributary consistency-check https://distributary.example:6443 -o json',
    },
  ],
  run: checkConsistency,
})

async function checkConsistency({ flags, args, environment, out, signal }: Context): Promise<ExitCode> {
  const url = args[0] ?? null
  if (url !== null && flags.server !== null) throw new UsageError('URL and --server cannot be combined')
  const server = url ?? flags.server
  const connection = await connect({ ...(flags as FlagValues<typeof connectionFlags>), server }, environment)
  const deadline = flags.timeout === null ? null : AbortSignal.timeout(flags.timeout)
  try {
    const report = await requestReport(connection, deadline === null ? signal : AbortSignal.any([signal, deadline]))
    if (flags.output === 'json') await out.line(JSON.stringify(report, null, 2))
    else for (const line of table(report)) await out.line(line)
    return report.outcome === 'equal' ? EXIT.done : EXIT.failed
  } catch (error) {
    if (deadline?.aborted === true && !signal.aborted) {
      throw new CommandError('no answer within --timeout', EXIT.timedOut, { cause: error })
    }
    throw error
  } finally {
    connection.close()
  }
}

async function requestReport(connection: Connection, signal: AbortSignal): Promise<ConsistencyReport> {
  const report = await requestJson(connection, { method: 'POST', path: '/consistency-check', signal })
  if (!isReport(report)) {
    throw new CommandError(`${connection.server} offers no consistency check: is it a distributary?`)
  }
  return report
}

function isReport(body: unknown): body is ConsistencyReport {
  return typeof body === 'object' && body !== null && (body as { kind?: unknown }).kind === 'ConsistencyReport'
}

function table({ resources }: ConsistencyReport): readonly string[] {
  const rows = resources.map((row) => [
    row.group === '' ? row.resource : `${row.resource}.${row.group}`,
    row.outcome,
    row.revision === null ? '-' : String(row.revision),
    String(row.objects),
    String(row.differences),
    String(row.sampled),
    row.reason ?? (row.rebuilt ? 'relisted' : ''),
  ])
  return tableLines([['RESOURCE', 'OUTCOME', 'REVISION', 'OBJECTS', 'DIFFERENCES', 'SAMPLED', ''], ...rows])
}
