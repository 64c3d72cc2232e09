/**
 * Finds the server and the credentials for a command. A kubeconfig is read only on request (--kubeconfig, --context).
 * Without one, the server is the distributary on this machine, not the cluster that kubectl last used.
 */
import { readFileSync } from 'node:fs'
import { nodeTransport, type NodeTransportOptions } from '../client/node/node-transport.js'
import type { Transport } from '../client/reflector/transport.js'
import { type FlagValues, type Flags, inGroup } from './command.js'
import { CommandError, UsageError } from './exit-code.js'
import { errorMessage } from '../support/error-message.js'

export const connectionFlags = inGroup('Server', {
  server: {
    kind: 'string',
    short: 's',
    placeholder: 'URL',
    doc: 'Address of a distributary or any API server. Default: the kubeconfig’s if you name one, else DISTRIBUTARY_SERVER, else http://127.0.0.1:8001.',
  },
  token: {
    kind: 'string',
    doc: 'Bearer token. Prefer --token-file or DISTRIBUTARY_TOKEN: every user on the machine can see the command line.',
  },
  'token-file': { kind: 'string', placeholder: 'FILE', doc: 'File with the bearer token, read for each request.' },
  kubeconfig: {
    kind: 'string',
    placeholder: 'FILE',
    doc: 'Kubeconfig with server and credentials; exec plugins are run.',
  },
  context: {
    kind: 'string',
    placeholder: 'NAME',
    doc: 'Context to use. Without --kubeconfig it comes from the files in KUBECONFIG, merged as kubectl does, else from ~/.kube/config.',
  },
  'certificate-authority': {
    kind: 'string',
    placeholder: 'FILE',
    doc: 'PEM file with the CAs to trust instead of the system’s.',
  },
  'client-certificate': { kind: 'string', placeholder: 'FILE', doc: 'PEM file with the client certificate.' },
  'client-key': { kind: 'string', placeholder: 'FILE', doc: 'PEM file with the private key for --client-certificate.' },
  'tls-server-name': { kind: 'string', placeholder: 'NAME', doc: 'Name that the server’s certificate must have.' },
  'insecure-skip-tls-verify': {
    kind: 'boolean',
    doc: 'Accept any certificate. Anyone on the network path can then read everything.',
  },
  as: { kind: 'string', placeholder: 'USER', doc: 'Impersonate this user, if the server allows it.' },
  'as-group': { kind: 'list', placeholder: 'GROUP', doc: 'Group of the --as user. Repeatable.' },
  'as-uid': { kind: 'string', placeholder: 'UID', doc: 'UID of the --as user.' },
})

export interface Connection {
  readonly server: string
  /** The namespace of the kubeconfig's context; '' if it has none. */
  readonly namespace: string
  readonly transport: Transport
  /** The options of the transport, for commands that open their own connections. */
  readonly options: NodeTransportOptions
  close(): void
}

type Environment = Readonly<Record<string, string | undefined>>

/** Prepares a connection without opening it. @throws UsageError, CommandError for a file that cannot be read. */
export async function connect(
  flags: FlagValues<typeof connectionFlags>,
  environment: Environment,
): Promise<Connection> {
  const { namespace = '', ...fromFile } = await readKubeconfig(flags, environment)
  const server = flags.server ?? fromFile.server ?? environment['DISTRIBUTARY_SERVER'] ?? 'http://127.0.0.1:8001'
  if (!/^https?:\/\/[^\s/]+/.test(server))
    throw new UsageError(`--server must be a URL with http:// or https://, not "${server}"`)
  if (flags.token !== null && flags['token-file'] !== null)
    throw new UsageError('--token and --token-file cannot be combined')
  const cert = readPem(flags, 'client-certificate')
  const key = readPem(flags, 'client-key')
  if ((cert === undefined) !== (key === undefined)) {
    throw new UsageError('--client-certificate and --client-key must be given together')
  }
  const ca = readPem(flags, 'certificate-authority')
  const authorization = authorizationOf(flags, environment)
  const tlsServerName = flags['tls-server-name']
  const { credentials, ...certain } = fromFile
  const options: NodeTransportOptions = {
    ...certain,
    // If credentials are given on the command line, no others are used.
    ...(credentials === undefined || authorization !== null || cert !== undefined ? {} : { credentials }),
    server,
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
    ...(tlsServerName === null ? {} : { tlsServerName }),
    ...(flags['insecure-skip-tls-verify'] ? { insecureSkipTlsVerify: true } : {}),
    ...(authorization === null ? {} : { authorization }),
    ...impersonationOf(flags),
  }
  const transport = nodeTransport(options)
  return { server, namespace, transport, options, close: () => transport.close() }
}

/** Connects with a command's flags while `use` runs. @throws as `connect` */
export async function withConnection<T>(
  { flags, environment }: { readonly flags: FlagValues<Flags>; readonly environment: Environment },
  use: (connection: Connection) => Promise<T>,
): Promise<T> {
  const connection = await connect(flags as FlagValues<typeof connectionFlags>, environment)
  try {
    return await use(connection)
  } finally {
    connection.close()
  }
}

/** Returns the impersonation from flags, which replaces the kubeconfig's as a whole. */
function impersonationOf(flags: FlagValues<typeof connectionFlags>): Pick<NodeTransportOptions, 'impersonate'> {
  const { as: user, 'as-group': groups, 'as-uid': uid } = flags
  if (user === null) {
    if (groups.length > 0 || uid !== null) throw new UsageError('--as-group and --as-uid require --as')
    return {}
  }
  return { impersonate: { user, groups, ...(uid === null ? {} : { uid }) } }
}

type FromFile = Partial<NodeTransportOptions> & { readonly namespace?: string }

async function readKubeconfig(flags: FlagValues<typeof connectionFlags>, environment: Environment): Promise<FromFile> {
  const { kubeconfig, context } = flags
  if (kubeconfig === null && context === null) return {}
  // The YAML parser is loaded only when there is YAML to read.
  const { kubeconfigFiles, loadKubeconfig } = await import('../client/node/kubeconfig.js')
  try {
    return await loadKubeconfig(kubeconfig ?? kubeconfigFiles(environment), context === null ? {} : { context })
  } catch (error) {
    const flag = kubeconfig === null ? '--context' : '--kubeconfig'
    throw new CommandError(`${flag}: ${errorMessage(error)}`, undefined, { cause: error })
  }
}

function authorizationOf(flags: FlagValues<typeof connectionFlags>, environment: Environment): (() => string) | null {
  const { token, 'token-file': file } = flags
  if (file !== null) {
    readText(file, 'token-file')
    return () => `Bearer ${readText(file, 'token-file').trim()}`
  }
  const text = token ?? (flags.kubeconfig === null && flags.context === null ? environment['DISTRIBUTARY_TOKEN'] : null)
  return text === null || text === undefined || text === '' ? null : () => `Bearer ${text}`
}

type PemFlag = 'client-certificate' | 'client-key' | 'certificate-authority'

function readPem(flags: Readonly<Record<PemFlag, string | null>>, flag: PemFlag): string | undefined {
  const file = flags[flag]
  return file === null ? undefined : readText(file, flag)
}

/** @param flag that named the file. @throws CommandError */
export function readText(file: string, flag: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    throw new CommandError(`--${flag}: ${errorMessage(error)}`, undefined, { cause: error })
  }
}
