/**
 * `distributary doctor`: checks whether a cluster's agents can use an installation, and prints a table of what is wrong
 * and how to fix it.
 */
import { readFileSync } from 'node:fs'
import { nodeTransport, type NodeTransportOptions } from '../client/node/node-transport.js'
import { errorMessage } from '../support/error-message.js'
import { absent, type CommandContext, defineCommand, type FlagValues, type Flags } from './command.js'
import { connect, connectionFlags } from './connection.js'
import { type Authorities, authoritiesIn, checkAuthorities } from './doctor/authorities.js'
import { checkCertificate, CHECKS, type Finding, type Patient } from './doctor/checks.js'
import { Party } from './doctor/party.js'
import { CommandError, EXIT, type ExitCode, UsageError } from './exit-code.js'
import { tableLines } from './table/text-table.js'

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
    'Sends the same requests to the API server and to distributary, and reports what differs and what to do about it. It compares versions, certificate, trusted CAs, token, the reviewer’s permissions, discovery, 200 sampled permissions and sampled lists, and measures the time from a write to its watch event. It writes and deletes one ConfigMap. Exits with 0 only if nothing is wrong.',
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
  const open = (options: NodeTransportOptions, name: string): Party => {
    const transport = nodeTransport(options)
    opened.push(transport)
    return new Party(transport, name, signal)
  }
  try {
    const cluster = new Party(admin.transport, 'the API server', signal)
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
    const ca = file === null ? trustedIn(authorities, pods) : readAuthority(file)
    const here = open({ ...identity, server: url, ca, tlsServerName: host }, 'distributary')
    const patient: Patient = { cluster, here, there, agent, reviewer, waitMs: flags.timeout ?? 10_000 }
    const findings: Finding[] = []
    const certificate = await checkCertificate(url, ca, host)
    findings.push({ check: 'certificate', ...certificate })
    const isTrusted = async (ca: string): Promise<boolean> =>
      certificate.outcome !== 'ok' || (await checkCertificate(url, ca, host)).outcome === 'ok'
    findings.push({ check: 'authorities', ...(await checkAuthorities(authorities, pods.namespace, isTrusted)) })
    for (const [check, examine] of Object.entries(CHECKS))
      findings.push({ check, ...(await verdictOf(examine, patient)) })
    if (flags.output === 'json') await out.line(JSON.stringify(findings, null, 2))
    else for (const line of table(findings)) await out.line(line)
    return findings.some(({ outcome }) => outcome === 'wrong') ? EXIT.failed : EXIT.done
  } finally {
    for (const each of opened) each.close()
  }
}

const NO_FLAGS = Object.fromEntries(
  Object.entries(connectionFlags).map(([name, flag]) => [name, absent(flag)]),
) as FlagValues<typeof connectionFlags>

function readAuthority(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    throw new CommandError(`--certificate-authority: ${errorMessage(error)}`, undefined, { cause: error })
  }
}

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
async function issueToken(cluster: Party, { namespace, name }: NonNullable<Patient['agent']>): Promise<string> {
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

function table(findings: readonly Finding[]): readonly string[] {
  const rows = findings.map(({ check, outcome, found, advice }) => [check, outcome, found, advice])
  return tableLines([['CHECK', 'OUTCOME', 'FOUND', 'WHAT TO DO'], ...rows])
}
