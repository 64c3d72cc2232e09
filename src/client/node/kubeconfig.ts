/**
 * A context of a kubeconfig file, as options of the Node transport.
 *
 * Supported: server (with a path), certificate-authority(-data), insecure-skip-tls-verify, tls-server-name,
 * client-certificate(-data) with client-key(-data), token, tokenFile (read again at each request), username and password,
 * and the context's namespace. Refused, in words: `exec` and `auth-provider` (a library does not start programs) and
 * `proxy-url`. Impersonation (`as`) is refused too: leaving it out in silence would act as somebody else.
 */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { parse } from 'yaml'
import type { NodeTransportOptions } from './node-transport.js'

export interface KubeconfigOptions {
  /** Default: the file's `current-context`, or its only one. */
  readonly context?: string
}

export interface Kubeconfig extends NodeTransportOptions {
  /** Of the context; '' when it names none. */
  readonly namespace: string
}

const REFUSED_OF_USER = ['exec', 'auth-provider', 'as', 'as-groups', 'as-uid', 'as-user-extra']

/** @throws Error that names the file and what is missing. */
export function loadKubeconfig(file: string, options: KubeconfigOptions = {}): Kubeconfig {
  const fail = (problem: string): never => {
    throw new Error(`kubeconfig ${file}: ${problem}`)
  }
  const config: unknown = parse(readFileSync(file, 'utf8'))
  const contexts = member(config, 'contexts')
  const only = Array.isArray(contexts) && contexts.length === 1 ? text(contexts[0], 'name') : ''
  const contextName = (options.context ?? text(config, 'current-context')) || only
  const context = named(contexts, contextName, 'context')
  if (context === undefined) return fail(`no context ${JSON.stringify(contextName)}`)
  const clusterName = text(context, 'cluster')
  const cluster = named(member(config, 'clusters'), clusterName, 'cluster')
  if (cluster === undefined) return fail(`no cluster ${JSON.stringify(clusterName)}`)
  const userName = text(context, 'user')
  const user = userName === '' ? {} : named(member(config, 'users'), userName, 'user')
  if (user === undefined) return fail(`no user ${JSON.stringify(userName)}`)
  const refused = REFUSED_OF_USER.find((field) => member(user, field) !== undefined)
  if (refused !== undefined) return fail(`user ${JSON.stringify(userName)}: ${refused} is not supported`)
  if (text(cluster, 'proxy-url') !== '')
    return fail(`cluster ${JSON.stringify(clusterName)}: proxy-url is not supported`)
  const server = text(cluster, 'server')
  if (!/^https?:\/\/\S+$/.test(server)) return fail(`server ${JSON.stringify(server)} is not a URL`)

  // Paths in it are relative to the file.
  const read = (name: string): Buffer => readFileSync(path.resolve(path.dirname(file), name))
  const pem = (owner: unknown, field: string): Buffer | undefined => {
    const data = text(owner, `${field}-data`)
    if (data !== '') return Buffer.from(data, 'base64')
    const name = text(owner, field)
    return name === '' ? undefined : read(name)
  }
  const ca = pem(cluster, 'certificate-authority')
  const cert = pem(user, 'client-certificate')
  const key = pem(user, 'client-key')
  const tlsServerName = text(cluster, 'tls-server-name')
  const authorization = authorizationOf(user, (name) => read(name).toString('utf8').trim())
  return {
    server,
    namespace: text(context, 'namespace'),
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
    ...(tlsServerName === '' ? {} : { tlsServerName }),
    ...(member(cluster, 'insecure-skip-tls-verify') === true ? { insecureSkipTlsVerify: true } : {}),
    ...(authorization === null ? {} : { authorization }),
  }
}

function member(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
  return (value as Readonly<Record<string, unknown>>)[name]
}

function text(value: unknown, name: string): string {
  const found = member(value, name)
  return typeof found === 'string' ? found : ''
}

function named(list: unknown, name: string, what: string): unknown {
  if (!Array.isArray(list)) return undefined
  return member(
    list.find((entry: unknown) => text(entry, 'name') === name),
    what,
  )
}

function authorizationOf(user: unknown, readText: (name: string) => string): (() => string) | null {
  const file = text(user, 'tokenFile')
  if (file !== '') return () => `Bearer ${readText(file)}`
  const token = text(user, 'token')
  if (token !== '') return () => `Bearer ${token}`
  const name = text(user, 'username')
  if (name === '') return null
  const basic = Buffer.from(`${name}:${text(user, 'password')}`).toString('base64')
  return () => `Basic ${basic}`
}
