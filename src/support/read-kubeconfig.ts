/**
 * Reads a context of a kubeconfig: where the API server is, and which credentials to present. The caller passes the
 * parsed file, because the server loads a YAML parser at its start and the client only on request.
 *
 * These members are read: server (with a path), certificate-authority(-data), insecure-skip-tls-verify,
 * tls-server-name, client-certificate(-data) with client-key(-data), token, tokenFile (reread for each request; while
 * it is missing or empty, its last token is used), username and password, `as` with its groups, uid and extra fields,
 * the context's namespace, and `exec`, which is only returned as data, because the caller decides whether it may start
 * programs. The members `auth-provider` and `proxy-url` are rejected with an error.
 */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import type { ExecPlugin } from './exec-plugin.js'
import { field, textAt } from './fields.js'
import type { TlsClientOptions } from './tls-client-options.js'

export interface KubeconfigContext extends TlsClientOptions {
  readonly server: string
  /** '' if the context has no namespace. */
  readonly namespace: string
  /** Called for each request, so that a rotated token file is reread. */
  readonly authorization?: () => string
  readonly exec?: ExecPlugin
  readonly impersonate?: KubeconfigImpersonation
}

/** The user to impersonate: `as`, `as-groups`, `as-uid`, `as-user-extra`. */
export interface KubeconfigImpersonation {
  readonly user: string
  readonly groups?: readonly string[]
  readonly uid?: string
  readonly extra?: Readonly<Record<string, readonly string[]>>
}

export interface KubeconfigSource {
  /** The path of the file. Paths inside it are relative to its folder, and messages name it. */
  readonly file: string
  /** Default: `current-context`, or the only context. */
  readonly context?: string
  readonly readFile?: (path: string) => Buffer
}

const EXEC_VERSIONS = ['client.authentication.k8s.io/v1', 'client.authentication.k8s.io/v1beta1']
const EXEC_MODES = ['Never', 'IfAvailable', 'Always'] as const
/** The name of a cluster's extension that is intended for the plugin. */
const EXEC_EXTENSION = 'client.authentication.k8s.io/exec'

/** @throws Error that names the file and what is missing. */
export function readKubeconfig(config: unknown, source: KubeconfigSource): KubeconfigContext {
  const { file, readFile = readFileSync } = source
  const fail = (problem: string): never => {
    throw new Error(`kubeconfig ${file}: ${problem}`)
  }
  const contexts = field(config, 'contexts')
  const only = Array.isArray(contexts) && contexts.length === 1 ? textAt(contexts[0], 'name') : ''
  const contextName = (source.context ?? textAt(config, 'current-context')) || only
  const context = named(contexts, contextName, 'context')
  if (context === undefined) return fail(`no context ${JSON.stringify(contextName)}`)
  const clusterName = textAt(context, 'cluster')
  const cluster = named(field(config, 'clusters'), clusterName, 'cluster')
  if (cluster === undefined) return fail(`no cluster ${JSON.stringify(clusterName)}`)
  const userName = textAt(context, 'user')
  const user = userName === '' ? {} : named(field(config, 'users'), userName, 'user')
  if (user === undefined) return fail(`no user ${JSON.stringify(userName)}`)
  const failOfUser = (problem: string): never => fail(`user ${JSON.stringify(userName)}: ${problem}`)
  if (field(user, 'auth-provider') !== undefined) return failOfUser('auth-provider is not supported')
  if (textAt(cluster, 'proxy-url') !== '') {
    return fail(`cluster ${JSON.stringify(clusterName)}: proxy-url is not supported`)
  }
  const server = textAt(cluster, 'server')
  if (!/^https?:\/\/\S+$/.test(server)) return fail(`server ${JSON.stringify(server)} is not a URL`)

  const resolve = (name: string): string => path.resolve(path.dirname(file), name)
  const pem = (owner: unknown, field: string): Buffer | undefined => {
    const data = textAt(owner, `${field}-data`)
    if (data !== '') return Buffer.from(data, 'base64')
    const name = textAt(owner, field)
    return name === '' ? undefined : readFile(resolve(name))
  }
  const ca = pem(cluster, 'certificate-authority')
  const cert = pem(user, 'client-certificate')
  const key = pem(user, 'client-key')
  if ((cert === undefined) !== (key === undefined)) {
    return failOfUser('client-certificate and client-key must be given together')
  }
  const tlsServerName = textAt(cluster, 'tls-server-name')
  const authorization = authorizationOf(user, (name) => readFile(resolve(name)).toString('utf8').trim())
  const execSection = field(user, 'exec')
  const exec =
    execSection === undefined || execSection === null
      ? null
      : execOf(execSection, { cluster, ca, resolve, fail: failOfUser })
  const impersonate = impersonationOf(user, failOfUser)
  return {
    server,
    namespace: textAt(context, 'namespace'),
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
    ...(tlsServerName === '' ? {} : { tlsServerName }),
    ...(field(cluster, 'insecure-skip-tls-verify') === true ? { insecureSkipTlsVerify: true } : {}),
    ...(authorization === null ? {} : { authorization }),
    ...(exec === null ? {} : { exec }),
    ...(impersonate === null ? {} : { impersonate }),
  }
}

function impersonationOf(user: unknown, fail: (problem: string) => never): KubeconfigImpersonation | null {
  const name = textAt(user, 'as')
  const uid = textAt(user, 'as-uid')
  const groups = field(user, 'as-groups') ?? []
  const extra = field(user, 'as-user-extra') ?? {}
  if (!isTexts(groups)) return fail('as-groups must be a list of strings')
  if (typeof extra !== 'object' || !Object.values(extra).every(isTexts))
    return fail('as-user-extra must contain lists of strings')
  const hasExtra = Object.keys(extra).length > 0
  if (name === '') {
    if (uid !== '' || groups.length > 0 || hasExtra) return fail('as-uid, as-groups and as-user-extra require as')
    return null
  }
  return {
    user: name,
    ...(groups.length === 0 ? {} : { groups }),
    ...(uid === '' ? {} : { uid }),
    ...(hasExtra ? { extra: extra as Readonly<Record<string, readonly string[]>> } : {}),
  }
}

function isTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((one) => typeof one === 'string')
}

interface ExecContext {
  readonly cluster: unknown
  readonly ca: Buffer | undefined
  readonly resolve: (name: string) => string
  readonly fail: (problem: string) => never
}

function execOf(exec: unknown, { cluster, ca, resolve, fail }: ExecContext): ExecPlugin {
  const apiVersion = textAt(exec, 'apiVersion')
  if (!EXEC_VERSIONS.includes(apiVersion)) {
    return fail(`exec.apiVersion must be one of ${EXEC_VERSIONS.join(', ')}, not ${JSON.stringify(apiVersion)}`)
  }
  const command = textAt(exec, 'command')
  if (command === '') return fail('exec.command is missing')
  const given = textAt(exec, 'interactiveMode')
  // v1beta1 has a default; v1 requires the member.
  const mode = EXEC_MODES.find((one) => one === (given === '' && apiVersion.endsWith('beta1') ? 'IfAvailable' : given))
  if (mode === undefined) {
    return fail(`exec.interactiveMode must be one of ${EXEC_MODES.join(', ')}, not ${JSON.stringify(given)}`)
  }
  const [args, env] = [field(exec, 'args') ?? [], field(exec, 'env') ?? []]
  if (!isTexts(args)) return fail('exec.args must be a list of strings')
  if (!Array.isArray(env) || !env.every((one) => textAt(one, 'name') !== '')) {
    return fail('exec.env must be a list of entries with name and value')
  }
  return {
    apiVersion,
    // A name is looked up in PATH; a path is relative to the file, like every other path in it.
    command: /[/\\]/.test(command) ? resolve(command) : command,
    args,
    env: Object.fromEntries(env.map((one: unknown) => [textAt(one, 'name'), textAt(one, 'value')])),
    interactiveMode: mode,
    installHint: textAt(exec, 'installHint'),
    cluster: field(exec, 'provideClusterInfo') === true ? clusterInfo(cluster, ca) : null,
  }
}

function clusterInfo(cluster: unknown, ca: Buffer | undefined): object {
  const tlsServerName = textAt(cluster, 'tls-server-name')
  const config = named(field(cluster, 'extensions'), EXEC_EXTENSION, 'extension')
  return {
    server: textAt(cluster, 'server'),
    ...(tlsServerName === '' ? {} : { 'tls-server-name': tlsServerName }),
    ...(field(cluster, 'insecure-skip-tls-verify') === true ? { 'insecure-skip-tls-verify': true } : {}),
    ...(ca === undefined ? {} : { 'certificate-authority-data': ca.toString('base64') }),
    ...(config === undefined ? {} : { config }),
  }
}

/** One of several files of KUBECONFIG, parsed. */
export interface KubeconfigFile {
  readonly file: string
  readonly config: unknown
}

/**
 * Merges several files by kubectl's rules. Of several clusters, users or contexts with the same name, the first is used
 * as a whole. The first `current-context` is used too. Paths become absolute, because they are relative to their own
 * file.
 */
export function mergeKubeconfigs(files: readonly KubeconfigFile[]): unknown {
  const merged = (list: string, owner: string): unknown[] => {
    const byName = new Map<string, unknown>()
    for (const { file, config } of files) {
      const entries = field(config, list)
      if (!Array.isArray(entries)) continue
      for (const entry of entries as unknown[]) {
        const name = textAt(entry, 'name')
        if (!byName.has(name)) byName.set(name, { name, [owner]: withAbsolutePaths(field(entry, owner), file) })
      }
    }
    return [...byName.values()]
  }
  return {
    'current-context': files.map(({ config }) => textAt(config, 'current-context')).find((name) => name !== '') ?? '',
    clusters: merged('clusters', 'cluster'),
    users: merged('users', 'user'),
    contexts: merged('contexts', 'context'),
  }
}

const PATHS = ['certificate-authority', 'client-certificate', 'client-key', 'tokenFile']

function withAbsolutePaths(entry: unknown, file: string): unknown {
  if (typeof entry !== 'object' || entry === null) return entry
  const resolve = (name: string): string => path.resolve(path.dirname(file), name)
  const resolved: Record<string, unknown> = { ...entry }
  for (const name of PATHS) if (textAt(entry, name) !== '') resolved[name] = resolve(textAt(entry, name))
  const exec = field(entry, 'exec')
  const command = textAt(exec, 'command')
  if (/[/\\]/.test(command)) resolved['exec'] = { ...(exec as object), command: resolve(command) }
  return resolved
}

function named(list: unknown, name: string, what: string): unknown {
  if (!Array.isArray(list)) return undefined
  return field(
    list.find((entry: unknown) => textAt(entry, 'name') === name),
    what,
  )
}

function authorizationOf(user: unknown, readText: (name: string) => string): (() => string) | null {
  const file = textAt(user, 'tokenFile')
  if (file !== '') {
    const read = (): string => {
      const token = readText(file)
      if (token === '') throw new Error(`${file} is empty`)
      return token
    }
    // A missing file is reported now, not at the first request. Later, as in client-go, the last token is used while
    // the file is being replaced.
    let token = read()
    return () => {
      try {
        token = read()
      } catch {}
      return `Bearer ${token}`
    }
  }
  const token = textAt(user, 'token')
  if (token !== '') return () => `Bearer ${token}`
  const name = textAt(user, 'username')
  if (name === '') return null
  const basic = Buffer.from(`${name}:${textAt(user, 'password')}`).toString('base64')
  return () => `Basic ${basic}`
}
