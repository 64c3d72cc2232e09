/**
 * `distributary doctor`: checks whether a cluster's agents can use an installation, and prints a table of what is wrong
 * and how to fix it.
 */
import { nodeTransport, type NodeTransportOptions } from '../client/node/node-transport.js'
import { absent, type CommandContext, defineCommand, type FlagValues, type Flags } from './command.js'
import { connect, connectionFlags, readText } from './server-connection.js'
import { type Authorities, authoritiesIn, checkAuthorities } from './doctor/authorities.js'
import { checkCertificate, CHECKS, type Finding, type Patient } from './doctor/checks.js'
import { ComparedServer } from './doctor/compared-server.js'
import { CommandError, EXIT, type ExitCode, UsageError } from './exit-code.js'
import type { Output } from './command-output.js'

const { kubeconfig, context, server, 'certificate-authority': authority } = connectionFlags

const doctorFlags = {
  kubeconfig: { ...kubeconfig, doc: 'Kubeconfig of an administrator of the API server.' },
  context,
  server: {
    ...server,
    doc: 'Address of distributary, as seen from this machine. Default: DISTRIBUTARY_SERVER, else https://127.0.0.1:8001.',
  },
  'certificate-authority': {
    ...authority,
    doc: 'PEM file with distributary’s CA. Default: the ConfigMap that the agent’s pods mount, distributary-ca or kube-root-ca.crt.',
  },
  'from-pod': {
    kind: 'string',
    placeholder: 'NAMESPACE/SERVICEACCOUNT',
    doc: 'Act as the pods of this service account, with a token that the API server issues. Default: the user of the kubeconfig.',
  },
  host: {
    kind: 'string',
    placeholder: 'NAME',
    doc: 'KUBERNETES_SERVICE_HOST of agents. Default: distributary.distributary.svc.',
  },
  reviewer: {
    kind: 'string',
    placeholder: 'NAMESPACE/SERVICEACCOUNT',
    doc: 'The service account of distributary. Default: distributary/distributary.',
  },
  timeout: { kind: 'duration', min: 1, doc: 'Maximum time from a write to its watch event. Default: 10s.' },
  output: { kind: 'choice', short: 'o', choices: ['table', 'json'], doc: 'Format of the report. Default: table.' },
} as const satisfies Flags

type Context = CommandContext<typeof doctorFlags>

export const doctorCommand = defineCommand<typeof doctorFlags>({
  name: 'doctor',
  summary: 'check whether a cluster’s agents can use a distributary',
  description:
    'Sends the same requests to the API server and to distributary, and reports what differs and what to do about it. It reports what /readyz?verbose says, compares versions, certificate, trusted CAs, token, the reviewer’s permissions, discovery, 200 sampled permissions and sampled lists, and measures the time from a write to its watch event. It writes and deletes one ConfigMap. Exits with 0 only if nothing is wrong.',
  positionals: '',
  flags: doctorFlags,
  examples: [
    {
      doc: 'as the pods of kube-state-metrics',
      line: 'distributary doctor --kubeconfig admin.conf --server https://10.96.0.7:443 --from-pod monitoring/kube-state-metrics',
    },
  ],
  run: diagnose,
})

async function diagnose({ flags, environment, out, signal }: Context): Promise<ExitCode> {
  if (flags.kubeconfig === null) throw new UsageError('--kubeconfig is required: a kubeconfig for the API server')
  const agent = accountOf('from-pod', flags['from-pod'])
  const reviewer = accountOf('reviewer', flags.reviewer) ?? { namespace: 'distributary', name: 'distributary' }
  const url = flags.server ?? environment['DISTRIBUTARY_SERVER'] ?? 'https://127.0.0.1:8001'
  const host = flags.host ?? 'distributary.distributary.svc'
  const admin = await connect({ ...NO_FLAGS, kubeconfig: flags.kubeconfig, context: flags.context }, environment)
  const opened: { close(): void }[] = [admin]
  const open = (options: NodeTransportOptions, name: string): ComparedServer => {
    const transport = nodeTransport(options)
    opened.push(transport)
    return new ComparedServer(transport, name, signal)
  }
  try {
    const cluster = new ComparedServer(admin.transport, 'the API server', signal)
    const token = agent === null ? null : await issueToken(cluster, agent)
    const { cert, key, impersonate, authorization, credentials, server: apiServer, ...tls } = admin.options
    // The administrator's certificate would take precedence over the agent's token.
    const identity =
      token === null
        ? compact({ cert, key, impersonate, authorization, credentials })
        : { authorization: () => `Bearer ${token}` }
    const there = open({ ...tls, ...identity, server: apiServer }, 'the API server')
    const file = flags['certificate-authority']
    const pods = agent ?? { namespace: 'default', name: 'default' }
    const authorities = await authoritiesIn(cluster, pods.namespace)
    const ca = file === null ? trustedIn(authorities, pods) : readText(file, 'certificate-authority')
    const here = open({ ...identity, server: url, ca, tlsServerName: host }, 'distributary')
    const isByCertificate = 'cert' in identity
    const patient: Patient = { cluster, here, there, agent, reviewer, isByCertificate, waitMs: flags.timeout ?? 10_000 }
    const findings: Finding[] = []
    const certificate = await checkCertificate(url, ca, host)
    findings.push({ check: 'certificate', ...certificate })
    const isTrusted = async (ca: string): Promise<boolean> =>
      certificate.outcome !== 'ok' || (await checkCertificate(url, ca, host)).outcome === 'ok'
    findings.push({ check: 'authorities', ...(await checkAuthorities(authorities, pods.namespace, isTrusted)) })
    for (const [check, examine] of Object.entries(CHECKS))
      findings.push({ check, ...(await verdictOf(examine, patient)) })
    if (flags.output === 'json') await out.line(JSON.stringify(findings, null, 2))
    else for (const line of table(findings, out)) await out.line(line)
    return findings.some(({ outcome }) => outcome === 'wrong') ? EXIT.failed : EXIT.done
  } finally {
    for (const each of opened) each.close()
  }
}

const NO_FLAGS = Object.fromEntries(
  Object.entries(connectionFlags).map(([name, flag]) => [name, absent(flag)]),
) as FlagValues<typeof connectionFlags>

/** Returns the members that are not undefined. */
function compact<T extends object>(members: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as never
}

function accountOf(flag: string, text: string | null): Patient['agent'] {
  if (text === null) return null
  const [, namespace, name] = /^([^/]+)\/([^/]+)$/.exec(text) ?? []
  if (namespace === undefined || name === undefined)
    throw new UsageError(`--${flag} must be NAMESPACE/NAME, not "${text}"`)
  return { namespace, name }
}

/**
 * Runs one check. If a server does not respond, only this check fails, because the server may answer the next request.
 */
async function verdictOf(
  examine: (patient: Patient) => Promise<Omit<Finding, 'check'>>,
  patient: Patient,
): Promise<Omit<Finding, 'check'>> {
  try {
    return await examine(patient)
  } catch (error) {
    if (!(error instanceof CommandError)) throw error
    return { outcome: 'wrong', found: error.message, advice: 'fix the problems in the rows above first' }
  }
}

/** @throws CommandError when the API server issues none. */
async function issueToken(
  cluster: ComparedServer,
  { namespace, name }: NonNullable<Patient['agent']>,
): Promise<string> {
  const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/serviceaccounts/${encodeURIComponent(name)}/token`
  const { status, body } = await cluster.post(path, {
    apiVersion: 'authentication.k8s.io/v1',
    kind: 'TokenRequest',
    spec: {},
  })
  const token = body.status?.token
  if (token === undefined) throw new CommandError(`no token for ${namespace}/${name}: ${status} ${body.message ?? ''}`)
  return token
}

/** Returns the CAs that a moved pod trusts, in PEM. @throws CommandError */
function trustedIn({ moved, unmoved }: Authorities, { namespace }: NonNullable<Patient['agent']>): string {
  const ca = moved ?? unmoved
  if (ca !== null) return ca
  throw new CommandError(`no ConfigMap distributary-ca in ${namespace}: create it, or set --certificate-authority`)
}

/** No line of the table is longer. */
const MOST_COLUMNS = 100
const CHECKS_COLUMNS = 20
const OUTCOME_COLUMNS = 9
const COLORS: Readonly<Record<string, 'red' | 'green' | 'yellow'>> = { ok: 'green', wrong: 'red', skipped: 'yellow' }

/** Lays out one row for each cause: findings with the same advice are one row, with what the first of them found. */
function table(findings: readonly Finding[], out: Output): readonly string[] {
  const causes = new Map<string, Finding[]>()
  for (const finding of findings) {
    const cause = finding.outcome === 'ok' ? finding.check : finding.advice
    causes.set(cause, [...(causes.get(cause) ?? []), finding])
  }
  const rows = [...causes.values()].map((all): readonly string[][] => {
    const { outcome, found, advice } = all[0]!
    const width = MOST_COLUMNS - CHECKS_COLUMNS - OUTCOME_COLUMNS
    const what = advice === '' ? [] : wrapped(`→ ${advice}`, width)
    const checks = wrapped(all.map(({ check }) => check).join(', '), CHECKS_COLUMNS - 1)
    return [checks, [outcome], [...wrapped(found, width), ...what]]
  })
  return [[['CHECK'], ['OUTCOME'], ['FOUND, AND WHAT TO DO']], ...rows].flatMap(
    ([checks = [], [outcome = ''] = [], text = []]) =>
      Array.from({ length: Math.max(checks.length, text.length) }, (_, i) => {
        const first = (i === 0 ? outcome : '').padEnd(OUTCOME_COLUMNS)
        const cells = [
          (checks[i] ?? '').padEnd(CHECKS_COLUMNS),
          out.painted(first, i === 0 ? COLORS[outcome] : undefined),
        ]
        return `${cells.join('')}${text[i] ?? ''}`.trimEnd()
      }),
  )
}

/** Breaks a text between words, and words that are longer than a line. */
function wrapped(text: string, width: number): string[] {
  const lines = text.match(new RegExp(`.{1,${width}}(?:\\s+|$)|.{${width}}`, 'gsu')) ?? []
  return lines.map((line) => line.trim())
}
