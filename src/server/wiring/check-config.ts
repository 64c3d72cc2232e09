/**
 * `distributary config check`: reads everything that a server would read, without starting one. It loads flags,
 * environment and file, and parses files with keys and certificates using the same code as the server. On request, it
 * also connects to etcd, NATS or the upstream.
 */
import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createSecureContext } from 'node:tls'
import { buildAuthenticator, buildAuthorizer } from '../auth/access-control.js'
import { parsePolicy } from '../auth/authz/policy.js'
import { policyWarnings } from '../auth/authz/policy-warnings.js'
import { RbacRules } from '../auth/authz/rbac.js'
import { reviewKinds } from '../auth/authz/reviews.js'
import { loadDescriptors } from '../../kubernetes/codec/protobuf/descriptors.js'
import { wellKnownResources } from '../../kubernetes/dialect/well-known-resources.js'
import { kubernetesSchema } from '../../kubernetes/codec/protobuf/schema.js'
import { ConfigError } from '../config/config-error.js'
import { type Config, type Loaded, load } from '../config/load.js'
import { optionNames, options } from '../config/options.js'
import { parseSigningKeys } from '../../fleet/stream/signed-envelope.js'
import { type Key, keyFromText, keyToText } from '../../engine/model/event.js'
import { ZERO_REVISION } from '../../engine/model/revision.js'
import { AUTH_BYPASS, checksRoles, hasAuthBypass } from '../../engine/upstream/etcd/member-versions.js'
import type { Upstream } from '../../engine/upstream/upstream.js'
import { systemClock as clock } from '../../support/clock.js'
import { silentLogger as logger } from '../../support/log.js'
import { Metrics } from '../metrics/metrics.js'
import {
  declaredIn,
  describeAccess,
  describeKeys,
  describeReload,
  describeResources,
  describeSource,
  urlHost,
} from './describe-config.js'
import { explainDecision } from './explain-decision.js'
import { connectionOf } from './nats-fleet.js'
import { openRemoteApiServer } from './open-remote-api-server.js'
import { openEncryption } from './open-encryption.js'
import { closeAll, openUpstreams } from './open-upstream.js'
import { errorMessage } from '../../support/error-message.js'
import { readRegularFile } from '../auth/read-regular-file.js'

export interface CheckOptions {
  readonly argv: readonly string[]
  readonly environment: Readonly<Record<string, string | undefined>>
  /** Whether to connect to etcd, NATS or the upstream too. */
  readonly connects: boolean
  /** A question about a decision, for `explainDecision`. */
  readonly explains?: string
}

export interface CheckedConfig {
  readonly outcome: 'valid' | 'invalid' | 'unreachable'
  /** Lines that describe what the server would do; empty if the configuration cannot be read. */
  readonly lines: readonly string[]
  readonly problems: readonly string[]
}

type Run = Extract<Loaded, { kind: 'run' }>

const PAIRS = [
  ['tlsCertFile', 'tlsPrivateKeyFile'],
  ['etcdCertfile', 'etcdKeyfile'],
  ['natsCertfile', 'natsKeyfile'],
  ['proxyClientCertFile', 'proxyClientKeyFile'],
] as const
const AUTHORITIES = [
  'clientCaFile',
  'requestheaderClientCaFile',
  'etcdCafile',
  'natsCafile',
  'passthroughCafile',
  'oidcCaFile',
] as const
const CONNECT_MS = 10_000

export async function checkConfig({ argv, environment, connects, explains }: CheckOptions): Promise<CheckedConfig> {
  let loaded: Loaded
  try {
    loaded = load(argv, environment, (path) => readRegularFile(path).toString('utf8'))
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return { outcome: 'invalid', lines: [], problems: error.problems }
  }
  if (loaded.kind !== 'run')
    return { outcome: 'invalid', lines: [], problems: ['--help and --version cannot be combined with config check'] }
  const { config } = loaded
  const certificates: string[] = []
  const problems = [...certificateProblems(config, certificates), ...fileProblems(config)]
  const lines = [...described(loaded), ...certificates]
  const warnings = [...loaded.warnings, ...(problems.length > 0 ? [] : warningsOfPolicy(config))]
  lines.push(...warnings.map((warning) => `warning: ${warning}`))
  if (problems.length > 0) return { outcome: 'invalid', lines, problems }
  if (explains !== undefined) {
    try {
      return { outcome: 'valid', lines: explainDecision(config, explains), problems }
    } catch (error) {
      return { outcome: 'invalid', lines: [], problems: [errorMessage(error)] }
    }
  }
  if (!connects) return { outcome: 'valid', lines, problems }
  for await (const [name, check] of sources(config)) {
    try {
      lines.push(`${name}: ${await check()}`)
    } catch (error) {
      problems.push(`${name}: ${errorMessage(error)}`)
    }
  }
  return { outcome: problems.length > 0 ? 'unreachable' : 'valid', lines, problems }
}

/** Returns the problems with certificates and keys. @param lines receives the expiry of each certificate. */
function certificateProblems(config: Config, lines: string[]): string[] {
  const problems: string[] = []
  const read = (flag: string, path: string | null, isOwn: boolean): void => {
    if (path === null) return
    try {
      const { subject, validTo } = new X509Certificate(readFileSync(path))
      const end = new Date(validTo)
      lines.push(`${flag}: ${subject.replaceAll('\n', ', ')}, valid until ${end.toISOString()}`)
      if (isOwn && end.getTime() < clock.now()) problems.push(`${flag}: ${path} expired on ${end.toISOString()}`)
    } catch (error) {
      problems.push(`${flag}: ${path}: ${errorMessage(error)}`)
    }
  }
  for (const [certName, keyName] of PAIRS) {
    const cert = config[certName]
    const key = config[keyName]
    const found = problems.length
    read(options[certName].flag, cert, true)
    if (cert === null || key === null || problems.length > found) continue
    try {
      createSecureContext({ cert: readFileSync(cert), key: readFileSync(key) })
    } catch (error) {
      problems.push(`${options[keyName].flag}: ${key} does not match ${cert}: ${errorMessage(error)}`)
    }
  }
  for (const name of AUTHORITIES) read(options[name].flag, config[name], false)
  return problems
}

/** Checks the remaining files that stages parse when they are created. */
function fileProblems(config: Config): string[] {
  const noRules = new RbacRules({
    unread: 'nothing is read',
    list: () => Promise.reject(new Error('nothing is read')),
    onChange: () => () => {},
  })
  const attempts: readonly (() => void)[] = [
    () => buildAuthenticator(config, { clock, logger }).close(),
    () => buildAuthorizer(config, { clock, logger }, noRules, { isRelated: () => false }).close(),
    () => {
      if (config.protoDescriptors !== null) loadDescriptors(readFileSync(config.protoDescriptors), kubernetesSchema())
    },
    () => openEncryption(config, { clock, logger })?.close(),
    () => {
      if (config.natsServers.length > 0) connectionOf(config)
    },
    () => {
      if (config.natsSigningKeyFile !== null) parseSigningKeys(readFileSync(config.natsSigningKeyFile))
    },
    () => {
      if (config.upstream !== null) openRemoteApiServer(config, { clock, logger }).close()
    },
  ]
  return attempts.flatMap((attempt) => {
    try {
      attempt()
      return []
    } catch (error) {
      return [errorMessage(error)]
    }
  })
}

/** Called only with files that can be read. */
function warningsOfPolicy({ authorizationMode, authorizationPolicyFile: path, resources }: Config): readonly string[] {
  if (path === null || !authorizationMode.includes('Policy')) return []
  const known = [...resources, ...wellKnownResources()].map(({ resource }) => resource)
  return policyWarnings(parsePolicy(readRegularFile(path).toString('utf8')), [...known, ...reviewKinds(true)])
}

function described({ config, sources }: Run): string[] {
  const { bindAddress, port, securePort, metricsBindAddress } = config
  const ports = [
    ...(port === null ? [] : [`http://${urlHost(bindAddress)}:${port}`]),
    ...(securePort === null ? [] : [`https://${urlHost(bindAddress)}:${securePort}`]),
    ...(metricsBindAddress === null
      ? []
      : [`metrics at http://${urlHost(metricsBindAddress.host)}:${metricsBindAddress.port}`]),
  ]
  const given = optionNames
    .filter((name) => sources[name] !== 'default')
    .map((name) => `${options[name].flag} (${sources[name]})`)
  return [
    `reads ${describeSource(config)}`,
    `listens on ${ports.join(', ')}${config.workers > 1 ? ` with ${config.workers} workers` : ''}`,
    `serves ${config.awaitsKubernetes ? `${describeResources(config, false)}, and then ` : ''}${describeResources(config)}`,
    describeAccess(config),
    config.enableWrites
      ? 'accepts writes'
      : config.passthrough === null
        ? 'refuses writes'
        : `forwards all other requests to ${config.passthrough}`,
    `options set: ${given.length === 0 ? 'none' : given.join(', ')}`,
    ...describeReload(config, sources),
  ]
}

/** Yields the servers to which this server would connect, by name. Each one stays open until the next is requested. */
async function* sources(config: Config): AsyncGenerator<readonly [name: string, check: () => Promise<string>]> {
  if (config.etcdServers.length > 0) {
    const { upstream: main, others } = openUpstreams(config, logger, new Metrics('check'))
    try {
      const { kubernetesResources, etcdPrefix } = config
      const kubernetes = kubernetesResources === 'never' ? [] : [keyFromText(`${etcdPrefix}/`)]
      const declared = declaredIn(config).map(({ resource }) => resource.etcdPrefix)
      yield ['etcd', () => checkEtcd(main, [...kubernetes, ...declared])]
      for (const { resources, prefixes, upstream } of others)
        yield [`the etcd of ${resources.join(', ')}`, () => checkEtcd(upstream, prefixes)]
    } finally {
      await closeAll({ upstream: main, others })
    }
  }
  if (config.natsServers.length > 0) yield [`NATS ${config.natsServers.join(', ')}`, () => checkNats(config)]
  if (config.upstream !== null) yield [`--upstream ${config.upstream}`, () => checkUpstream(config)]
}

async function checkEtcd(upstream: Upstream, prefixes: readonly Key[]): Promise<string> {
  const signal = AbortSignal.timeout(CONNECT_MS)
  const { serverVersions } = await upstream.status(signal)
  let revision = ZERO_REVISION
  const counts: string[] = []
  // Only a read shows whether the server has permission; requesting the status needs none.
  for (const prefix of prefixes) {
    const { currentRevision, count } = await upstream.read({ prefix, limit: 1, keysOnly: true, signal })
    revision = currentRevision
    counts.push(`${describeKeys(count)} under ${keyToText(prefix)}`)
  }
  const answers = `${serverVersions.join(', ')} answers, at revision ${revision}, with ${counts.join(', ')}`
  const isBypassed = serverVersions.some(hasAuthBypass) && (await checksRoles(upstream, signal))
  return isBypassed ? `${answers}; warning: ${AUTH_BYPASS}` : answers
}

async function checkNats(config: Config): Promise<string> {
  const { NatsClient } = await import('../../fleet/nats/nats-client.js')
  const client = await NatsClient.connect(connectionOf(config), clock)
  await client.close()
  return 'answers'
}

async function checkUpstream(config: Config): Promise<string> {
  const server = openRemoteApiServer(config, { clock, logger })
  try {
    const { status } = await server.transport.send({
      path: '/version',
      query: {},
      accept: 'application/json',
      signal: AbortSignal.timeout(CONNECT_MS),
    })
    if (status !== 200) throw new Error(`/version returned ${status}`)
    return 'answers'
  } finally {
    server.close()
  }
}
