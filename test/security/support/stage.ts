/**
 * A server as its users run it, in front of a real etcd, with something to steal: objects of a namespace that an
 * attacker must not read, tokens, keys. Honest clients use it at the same time, and must notice nothing.
 */
import { readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { createServer as createHttpsServer, Agent, get } from 'node:https'
import { mkdtempSync, rmSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type CryptoKey, exportJWK, generateKeyPair } from 'jose'
import type { Test } from 'tap'
import { pod } from '../../support/pod.js'
import { type CertificateAuthority, createAuthority } from '../../support/certificates.js'
import { startEtcd } from '../../support/etcd-process.js'
import { EtcdWriter } from '../../support/etcd-writer.js'
import { type ServerProcess, startServer } from '../../support/server-process.js'

/** A marker in every object that only the administrator may see. */
export const LOOT = 'PLANTED-IN-A-CLOSED-NAMESPACE'
/** A marker in every wrong credential that an attacker sends. */
export const BAIT = 'PLANTED-IN-A-WRONG-CREDENTIAL'

export const TOKENS = {
  admin: 'PLANTED-TOKEN-admin',
  low: 'PLANTED-TOKEN-low',
  honest: 'PLANTED-TOKEN-honest',
} as const

export interface SigningKey {
  readonly kid: string
  readonly privateKey: CryptoKey
  readonly publicKey: CryptoKey
}

export interface Stage {
  readonly server: ServerProcess
  readonly writer: EtcdWriter
  readonly ca: Buffer
  readonly authority: CertificateAuthority
  readonly issuerUrl: string
  readonly key: SigningKey
  /** Texts that must not appear in any output: tokens, and the lines of the private key. */
  readonly secrets: readonly string[]
  /** The number of file descriptors that the server's processes have open. */
  descriptors(): number
}

const POLICY = `rules:
  - name: the administrator
    users: [admin]
    verbs: ["*"]
    apiGroups: ["*"]
    resources: ["*"]
  - name: metrics for the administrator
    users: [admin]
    verbs: [get]
    paths: ["/metrics"]
  - name: everybody else reads what is open
    users: [low, honest]
    verbs: [get, list, watch]
    apiGroups: [""]
    resources: [pods]
    namespaces: [open]
`

export async function setStage(
  t: Test,
  flags: readonly string[] = [],
  environment: Readonly<Record<string, string>> = {},
): Promise<Stage> {
  const directory = mkdtempSync(join(tmpdir(), 'distributary-attack-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const file = (name: string, text: string): string => {
    writeFileSync(join(directory, name), text)
    return join(directory, name)
  }
  const etcd = await startEtcd(t)
  const writer = new EtcdWriter([etcd])
  const objects: Record<string, object> = {}
  for (let i = 0; i < 50; i++) {
    objects[`/registry/pods/open/p${i}`] = pod(`p${i}`, {
      namespace: 'open',
      annotations: { filler: 'x'.repeat(1_000) },
    })
    objects[`/registry/pods/closed/p${i}`] = pod(`p${i}`, { namespace: 'closed', annotations: { note: LOOT } })
  }
  objects['/registry/configmaps/open/c'] = {
    kind: 'ConfigMap',
    apiVersion: 'v1',
    metadata: { name: 'c', namespace: 'open' },
    data: { note: LOOT },
  }
  await writer.commit(objects)

  const authority = createAuthority(t)
  const [own, issuers] = [authority.server(), authority.server()]
  const key = { kid: 'one', ...(await generateKeyPair('RS256')) }
  const jwk = { ...(await exportJWK(key.publicKey)), kid: key.kid, use: 'sig' }
  const issuer = createHttpsServer(
    { cert: readFileSync(issuers.cert), key: readFileSync(issuers.key) },
    (asked, said) =>
      said.end(
        JSON.stringify(asked.url === '/keys' ? { keys: [jwk] } : { issuer: issuerUrl, jwks_uri: `${issuerUrl}/keys` }),
      ),
  )
  await new Promise<void>((resolve) => issuer.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    issuer.closeAllConnections()
    issuer.close()
  })
  const issuerUrl = `https://127.0.0.1:${(issuer.address() as AddressInfo).port}`
  const tokens = Object.entries(TOKENS).map(([name, token], i) => `${token},${name},${i}`)
  const server = await startServer(t, {
    // prettier-ignore
    flags: [
      '--etcd-servers', etcd.url,
      '--secure-port', '0',
      '--tls-cert-file', own.cert,
      '--tls-private-key-file', own.key,
      '--client-ca-file', authority.ca,
      '--token-auth-file', file('tokens.csv', `${tokens.join('\n')}\n`),
      '--oidc-issuer-url', issuerUrl,
      '--oidc-client-id', 'distributary',
      '--oidc-ca-file', authority.ca,
      '--authorization-mode', 'Policy',
      '--authorization-policy-file', file('policy.yaml', POLICY),
      '--audit-log-path', '-',
      '--requests-per-second', '100000',
      ...flags,
    ],
    environment,
  })
  const keyLines = readFileSync(own.key, 'utf8')
    .split('\n')
    .filter((line) => line.length > 40)
  return {
    server,
    writer,
    ca: readFileSync(authority.ca),
    authority,
    issuerUrl,
    key,
    secrets: [...Object.values(TOKENS), ...keyLines],
    descriptors: () => server.pids().reduce((sum, pid) => sum + readdirSync(`/proc/${pid}/fd`).length, 0),
  }
}

/** List repeatedly and hold a watch; every write is timed until its event arrives. */
export class HonestClients {
  readonly listMs: number[] = []
  readonly eventMs: number[] = []
  readonly problems: string[] = []
  #stage: Stage
  #agent: Agent
  #isStopped = false
  #lanes: Promise<void>[] = []
  #seen = new Set<string>()
  #written = 0
  /** The writes that etcd has confirmed. On a busy machine it may not answer in time. */
  readonly #owed = new Set<string>()
  #endWatch = (): void => {}
  readonly #watching: Promise<void>

  constructor(stage: Stage, lanes: number) {
    this.#stage = stage
    this.#agent = new Agent({ ca: stage.ca, keepAlive: true })
    this.#watching = new Promise((resolve) => this.#watch(resolve))
    this.#lanes = [...Array.from({ length: lanes }, () => this.#list()), this.#write()]
  }

  /** Returns what was measured since the last call. */
  take(): { readonly lists: string; readonly events: string } {
    const take = (values: number[]): string => {
      const sorted = values.splice(0).sort((a, b) => a - b)
      const at = (share: number): string => (sorted[Math.floor((sorted.length - 1) * share)] ?? 0).toFixed(1)
      return `${sorted.length} in p50 ${at(0.5)} ms, p99 ${at(0.99)} ms`
    }
    return { lists: take(this.listMs), events: take(this.eventMs) }
  }

  /** Waits until every write has been seen. */
  async stop(withinMs = 30_000): Promise<void> {
    this.#isStopped = true
    await Promise.all(this.#lanes)
    const end = performance.now() + withinMs
    const missing = (): number => [...this.#owed].filter((name) => !this.#seen.has(name)).length
    while (missing() > 0 && performance.now() < end) await pause(10)
    if (missing() > 0) this.problems.push(`${missing()} events never came`)
    this.#endWatch()
    this.#agent.destroy()
  }

  #options(path: string) {
    const headers = { authorization: `Bearer ${TOKENS.honest}` }
    return { host: '127.0.0.1', port: this.#stage.server.securePort, path, headers, agent: this.#agent }
  }

  async #list(): Promise<void> {
    while (!this.#isStopped) {
      const started = performance.now()
      const problem = await new Promise<string | null>((resolve) => {
        get(this.#options('/api/v1/namespaces/open/pods?resourceVersion=0'), (response) => {
          let text = ''
          response.on('data', (bytes: Buffer) => (text += bytes.toString()))
          response.on('end', () =>
            resolve(response.statusCode === 200 && text.endsWith('}') ? null : `a list: ${response.statusCode}`),
          )
          response.on('error', (error) => resolve(`a list: ${error.message}`))
        }).on('error', (error) => resolve(`a list: ${error.message}`))
      })
      this.listMs.push(performance.now() - started)
      if (problem !== null) this.problems.push(problem)
      await pause(10)
    }
  }

  async #write(): Promise<void> {
    await this.#watching
    while (!this.#isStopped) {
      const name = `w${this.#written++}`
      const written = `${name} ${performance.now()}`
      const value = pod(`w${this.#written % 20}`, { namespace: 'open', annotations: { written } })
      const revision = await this.#stage.writer.tryCommit({ [`/registry/pods/open/w${this.#written % 20}`]: value })
      if (revision !== null) this.#owed.add(name)
      await pause(20)
    }
  }

  #watch(hasBegun: () => void): void {
    const request = get(
      this.#options('/api/v1/namespaces/open/pods?watch=1&resourceVersion=0&timeoutSeconds=86400'),
      (response) => {
        hasBegun()
        let rest = ''
        response.on('data', (bytes: Buffer) => {
          const lines = (rest + bytes.toString()).split('\n')
          rest = lines.pop() ?? ''
          for (const line of lines) {
            const [, name, at] = /"written":"(w\d+) ([\d.]+)"/.exec(line) ?? []
            if (name === undefined) continue
            this.#seen.add(name)
            this.eventMs.push(performance.now() - Number(at))
          }
        })
        response.on('close', () => {
          if (!this.#isStopped) this.problems.push('the watch ended')
        })
        response.on('error', () => {})
      },
    )
    request.on('error', (error) => {
      if (!this.#isStopped) this.problems.push(`the watch: ${error.message}`)
      hasBegun()
    })
    this.#endWatch = () => request.destroy()
  }
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
