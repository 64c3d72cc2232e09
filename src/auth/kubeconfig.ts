/**
 * The current context of a kubeconfig file: where the API server is and how we show who we are. Plugins that run a
 * command (`exec`, `auth-provider`) are refused: a server that serves thousands does not start programs to log in.
 */
import { readFileSync } from 'node:fs'
import path from 'node:path'

import { parse } from 'yaml'

import { type JsonServer, member, textOf } from './https-json.js'

type ReadFile = (path: string) => Buffer

/** @throws Error that names the file and what is missing. */
export function loadKubeconfig(file: string, readFile: ReadFile = readFileSync): JsonServer {
  const fail = (problem: string): never => {
    throw new Error(`kubeconfig ${file}: ${problem}`)
  }
  const config: unknown = parse(readFile(file).toString('utf8'))
  const contexts = member(config, 'contexts')
  const current = textOf(member(config, 'current-context'))
  const only = Array.isArray(contexts) && contexts.length === 1 ? textOf(member(contexts[0], 'name')) : ''
  const context = named(contexts, current === '' ? only : current, 'context')
  if (context === undefined) return fail(`no context ${JSON.stringify(current)}`)
  const clusterName = textOf(member(context, 'cluster'))
  const cluster = named(member(config, 'clusters'), clusterName, 'cluster')
  if (cluster === undefined) return fail(`no cluster ${JSON.stringify(clusterName)}`)
  const userName = textOf(member(context, 'user'))
  const user = userName === '' ? {} : named(member(config, 'users'), userName, 'user')
  if (user === undefined) return fail(`no user ${JSON.stringify(userName)}`)
  for (const plugin of ['exec', 'auth-provider']) {
    if (member(user, plugin) !== undefined)
      return fail(`user ${JSON.stringify(userName)} logs in by ${plugin}, which is not run here`)
  }
  const url = textOf(member(cluster, 'server'))
  if (!/^https?:\/\/[^\s]+$/.test(url)) return fail(`server ${JSON.stringify(url)} is not a URL`)

  const resolve = (relative: string): string => path.resolve(path.dirname(file), relative)
  const pem = (owner: unknown, field: string): Buffer | undefined => {
    const data = textOf(member(owner, `${field}-data`))
    if (data !== '') return Buffer.from(data, 'base64')
    const name = textOf(member(owner, field))
    return name === '' ? undefined : readFile(resolve(name))
  }
  const ca = pem(cluster, 'certificate-authority')
  const cert = pem(user, 'client-certificate')
  const key = pem(user, 'client-key')
  const tlsServerName = textOf(member(cluster, 'tls-server-name'))
  const authorization = authorizationOf(user, (name) => readFile(resolve(name)).toString('utf8').trim())
  return {
    url,
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
    ...(tlsServerName === '' ? {} : { tlsServerName }),
    ...(member(cluster, 'insecure-skip-tls-verify') === true ? { insecureSkipTlsVerify: true } : {}),
    ...(authorization === null ? {} : { authorization }),
  }
}

function named(list: unknown, name: string, what: string): unknown {
  if (!Array.isArray(list)) return undefined
  return member(
    list.find((entry: unknown) => textOf(member(entry, 'name')) === name),
    what,
  )
}

function authorizationOf(user: unknown, readText: (name: string) => string): (() => string) | null {
  const file = textOf(member(user, 'tokenFile'))
  if (file !== '') {
    readText(file)
    return () => `Bearer ${readText(file)}`
  }
  const token = textOf(member(user, 'token'))
  if (token !== '') return () => `Bearer ${token}`
  const name = textOf(member(user, 'username'))
  if (name === '') return null
  const basic = Buffer.from(`${name}:${textOf(member(user, 'password'))}`).toString('base64')
  return () => `Basic ${basic}`
}
