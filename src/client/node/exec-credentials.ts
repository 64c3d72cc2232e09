/**
 * Credentials that a command prints, as in the kubeconfigs of managed clusters (`exec`). The command runs when
 * credentials are needed, once for all waiting callers. It runs again when the credentials have expired or the server
 * has rejected them.
 *
 * Source: Kubernetes, "Authenticating", "client-go credential plugins"; versions v1 and v1beta1 of ExecCredential.
 */
import { spawn } from 'node:child_process'
import type { Clock } from '../../support/clock.js'
import type { ExecPlugin } from '../../support/exec-plugin.js'
import { jsonIn } from '../../support/json-text.js'
import { activeClock } from '../reflector/active-clock.js'

/** The credentials of a request: a token, a certificate, or both. */
export interface Credentials {
  readonly authorization?: string
  /** In PEM. `cert` and `key` are either both set or both absent. */
  readonly cert?: string
  readonly key?: string
}

/** Credentials that must be fetched, and that expire. */
export interface CredentialSource {
  /** @throws Error when the command prints none. */
  current(): Promise<Credentials>
  /** Reports that the server answered 401 to these credentials, which are then not used again. */
  refused(credentials: Credentials): void
}

export interface ExecOptions {
  readonly clock?: Clock
  /** Whether a person at the terminal can answer the command's questions. */
  readonly isInteractive?: boolean
}

interface Cached {
  readonly credentials: Credentials
  /** null if they never expire. */
  readonly expiresAt: number | null
}

/** Far more than the few KB that a token and a certificate take. */
const MAX_OUTPUT_BYTES = 2 ** 20
/** Long enough for a person to log in on a page that the command opens. */
const TIMEOUT_MS = 180_000
/** How long to wait for the rest of the output of a command that has ended; its own children may keep stdout open. */
const DRAIN_MS = 1_000

export function execCredentials(plugin: ExecPlugin, options: ExecOptions = {}): CredentialSource {
  const { clock = activeClock, isInteractive = process.stdin.isTTY } = options
  let cached: Cached | null = null
  let running: Promise<Cached> | null = null
  return {
    async current() {
      if (cached !== null && (cached.expiresAt === null || clock.now() < cached.expiresAt)) return cached.credentials
      running ??= runPlugin(plugin, isInteractive, clock).finally(() => (running = null))
      cached = await running
      return cached.credentials
    },
    refused(credentials) {
      // Drop only these credentials, because there may be newer ones by now.
      if (cached?.credentials === credentials) cached = null
    },
  }
}

async function runPlugin(plugin: ExecPlugin, isTerminal: boolean, clock: Clock): Promise<Cached> {
  const { apiVersion, command, interactiveMode, cluster } = plugin
  if (interactiveMode === 'Always' && !isTerminal) {
    throw new Error(`${command}: it requires a terminal (interactiveMode: Always), and there is none`)
  }
  const interactive = isTerminal && interactiveMode !== 'Never'
  const spec = { interactive, ...(cluster === null ? {} : { cluster }) }
  const info = JSON.stringify({ kind: 'ExecCredential', apiVersion, spec })
  const output = await outputOf(plugin, interactive, info, clock)
  return credentialsIn(output, plugin)
}

function outputOf(
  { command, args, env, installHint }: ExecPlugin,
  interactive: boolean,
  info: string,
  clock: Clock,
): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      env: { ...process.env, ...env, KUBERNETES_EXEC_INFO: info },
      // The command uses stderr to talk to the user, for example about a page to open or a code to enter.
      stdio: [interactive ? 'inherit' : 'ignore', 'pipe', 'inherit'],
    })
    const chunks: Buffer[] = []
    let size = 0
    child.stdout.on('data', (chunk: Buffer) => {
      size += chunk.length
      if (size <= MAX_OUTPUT_BYTES) chunks.push(chunk)
      else child.kill('SIGKILL')
    })
    let isLate = false
    let timer = clock.setTimer(TIMEOUT_MS, () => {
      isLate = true
      child.kill('SIGKILL')
    })
    child.once('exit', () => {
      timer.cancel()
      timer = clock.setTimer(DRAIN_MS, () => child.stdout.destroy())
    })
    child.once('error', (error: NodeJS.ErrnoException) => {
      timer.cancel()
      const hint = error.code === 'ENOENT' && installHint !== '' ? `\n${installHint}` : ''
      reject(new Error(`the kubeconfig's exec plugin ${command}: ${error.message}${hint}`, { cause: error }))
    })
    child.once('close', (code, signal) => {
      timer.cancel()
      if (isLate) reject(new Error(`the kubeconfig's exec plugin ${command} did not end within ${TIMEOUT_MS} ms`))
      else if (size > MAX_OUTPUT_BYTES) reject(new Error(`${command} printed more than ${MAX_OUTPUT_BYTES} bytes`))
      else if (code === 0) resolve(Buffer.concat(chunks).toString('utf8'))
      else reject(new Error(`the kubeconfig's exec plugin ${command} ended with ${signal ?? `exit code ${code}`}`))
    })
  })
}

interface ExecCredential {
  readonly kind?: unknown
  readonly apiVersion?: unknown
  readonly status?: {
    readonly expirationTimestamp?: string | null
    readonly token?: string
    readonly clientCertificateData?: string
    readonly clientKeyData?: string
  } | null
}

/** Parses the command's output. Error messages never contain the output, because it may be a secret. */
function credentialsIn(output: string, { command, apiVersion }: ExecPlugin): Cached {
  const fail = (problem: string): never => {
    throw new Error(`the kubeconfig's exec plugin ${command}: ${problem}`)
  }
  const printed = jsonIn(output) as ExecCredential | null | undefined
  if (printed === undefined) return fail('it did not print JSON')
  if (printed?.kind !== 'ExecCredential') return fail('it did not print an ExecCredential')
  if (printed.apiVersion !== apiVersion) {
    return fail(`it printed apiVersion ${JSON.stringify(printed.apiVersion)} instead of ${apiVersion}`)
  }
  const { token = '', clientCertificateData: cert = '', clientKeyData: key = '' } = printed.status ?? {}
  if ((cert === '') !== (key === '')) return fail('it printed only one of clientCertificateData and clientKeyData')
  if (token === '' && cert === '') return fail('it printed neither a token nor a certificate')
  const until = printed.status?.expirationTimestamp ?? null
  const expiresAt = until === null ? null : Date.parse(until)
  if (Number.isNaN(expiresAt)) return fail(`expirationTimestamp ${JSON.stringify(until)} is not a time`)
  return {
    credentials: {
      ...(token === '' ? {} : { authorization: `Bearer ${token}` }),
      ...(cert === '' ? {} : { cert, key }),
    },
    expiresAt,
  }
}
