/**
 * Turns command line, environment and YAML file into one frozen Config, or reports every problem at once.
 *
 * A flag takes precedence over the environment, the environment over the file, and the file over the default. Resources
 * are the exception: `--resource` adds to the file's `resources:`. Arguments, environment and file system are
 * parameters, so that tests run the same code as the program.
 */
import { resourceId } from '../../engine/model/resource.js'
import { mayBeCustom, resolveResources } from '../../kubernetes/dialect/declared-resource.js'
import { type OtherEtcd, resolveOtherEtcds } from '../../kubernetes/dialect/other-etcds.js'
import type { ServedResource } from '../../kubernetes/dialect/resource-registry.js'
import { wellKnownResources } from '../../kubernetes/dialect/well-known-resources.js'
import { parseCommandLine } from './command-line.js'
import { ConfigError } from './config-error.js'
import { helpText } from './help.js'
import { OptionValueError } from './option.js'
import { environmentName, optionNames, options, type OptionName, type OptionValues } from './options.js'
import { complete, type Completed, conflictsIn } from './relations.js'
import { parseYamlFile, type YamlFile } from './yaml-file.js'
import { errorMessage } from '../../support/error-message.js'
import { nearestName } from '../../support/nearest-name.js'

/** Durations are in milliseconds, sizes in bytes; null means not given. */
export interface Config extends Omit<Completed, 'resource' | 'etcdServersOverrides'> {
  /** The resources served at the start: the table's defaults, the file's `resources:` and `--resource`. */
  readonly resources: readonly ServedResource[]
  /** Ids of resources that are never served, even if a definition names them, as with `--resource=-events`. */
  readonly leftOut: readonly string[]
  /** The etcds of `--etcd-servers-overrides`, with their resources. */
  readonly otherEtcds: readonly OtherEtcd[]
  /** Whether Kubernetes' resources are served only after something has been stored under Kubernetes' prefix. */
  readonly awaitsKubernetes: boolean
}

export type Loaded =
  | { readonly kind: 'run'; readonly config: Config; readonly sources: Sources }
  | { readonly kind: 'help'; readonly text: string }
  | { readonly kind: 'version' }

export type Source = 'flag' | 'environment' | 'file' | 'default'
export type Sources = Readonly<Record<OptionName, Source>>

/** Returns the text of a file; throws like `node:fs`. */
export type ReadFile = (path: string) => string
export type Environment = Readonly<Record<string, string | undefined>>

/**
 * @param args the arguments after the program's name.
 * @throws ConfigError with every problem found.
 */
export function load(args: readonly string[], environment: Environment, readFile: ReadFile): Loaded {
  const commandLine = parseCommandLine(args)
  if (commandLine.help !== null) return { kind: 'help', text: helpText(commandLine.help) }
  if (commandLine.version) return { kind: 'version' }
  const problems = [...commandLine.problems]

  const given = new Map<OptionName, Given>()
  const yaml = readYaml(commandLine.texts.get('config')?.at(-1) ?? environment[environmentName('config')], readFile)
  problems.push(...yaml.problems)
  for (const name of optionNames) {
    const flagTexts = commandLine.texts.get(name)
    const environmentText = environmentValue(environment, name)
    const fileValue = yaml.values.get(name)
    if (flagTexts !== undefined) given.set(name, { source: 'flag', texts: flagTexts, place: options[name].flag })
    else if (environmentText !== null) {
      given.set(name, { source: 'environment', texts: [environmentText], place: environmentName(name) })
    } else if (fileValue !== undefined) {
      given.set(name, { source: 'file', texts: fileValue.texts, place: `${fileValue.place}: ${name}` })
    }
  }

  const { values, broken } = parseValues(given, readFile, problems)
  const completed = complete(values)
  const isGiven = (name: OptionName): boolean => given.has(name)
  problems.push(...conflictsIn(completed, isGiven, (name) => broken.has(name)))
  // A configuration that names the secure port requires TLS. A plain port in its place would be worse than no port.
  const securePort = given.get('securePort')
  const isReported =
    broken.has('tlsCertFile') || broken.has('tlsPrivateKeyFile') || completed.tlsPrivateKeyFile !== null
  if (securePort !== undefined && completed.securePort === null && !isReported) {
    const instead = 'set --tls-cert-file and --tls-private-key-file'
    problems.push(`${securePort.place}: needs a certificate: ${instead}`)
  }
  const { resource, etcdServersOverrides, ...rest } = completed
  const resolved = resolveResources({
    etcdPrefix: rest.etcdPrefix,
    names: [...yaml.resourceNames, ...resource],
    declarations: yaml.declarations,
  })
  const { problems: wrong, ...served } = resolved
  const others = resolveOtherEtcds(rest.etcdPrefix, etcdServersOverrides)
  problems.push(...wrong, ...others.problems)
  const declared = served.resources.filter(({ origin }) => origin === 'declared')
  const isOnlyDeclared = rest.kubernetesResources === 'never' && rest.upstream === null
  if (isOnlyDeclared && declared.length === 0) {
    problems.push('--kubernetes-resources=never leaves nothing to serve: declare a prefix as --resource NAME=/prefix/')
  }
  const namesKubernetes = [...yaml.resourceNames, ...resource].some((text) => !/^-|=/.test(text))
  const awaitsKubernetes =
    declared.length > 0 && !namesKubernetes && !given.has('etcdPrefix') && mayAwaitKubernetes(completed)
  const checked = rest.enableWrites ? served.leftOut.filter((id) => CHECKED_BY_WRITES.has(id)) : []
  if (checked.length > 0)
    problems.push(`--enable-writes needs ${checked.join(', ')}: do not leave out these resources with --resource`)
  if (rest.upstream !== null && resolved.resources.some(({ origin }) => origin === 'declared')) {
    problems.push('a prefix (--resource NAME=/prefix/) needs etcd: with --upstream, declare it on the upstream server')
  }
  const resources = isOnlyDeclared ? declared : served.resources
  const mayAppear = (id: string): boolean =>
    rest.upstream !== null || (!isOnlyDeclared && !served.leftOut.includes(id) && mayBeCustom(id))
  // Skip this check after a wrong declaration, which would otherwise be reported twice.
  if (wrong.length === 0) {
    const isUnserved = (id: string): boolean => !mayAppear(id)
    const kubernetes = wellKnownResources().map(({ resource }) => resourceId(resource))
    const isUnknown = (id: string): boolean => !mayAppear(id) && !kubernetes.includes(id)
    problems.push(
      ...unserved('--public-caching', rest.publicCaching, resources, isUnserved),
      ...unserved('--watch-cache-sizes', rest.watchCacheSizes, resources, isUnknown),
    )
  }
  if (problems.length > 0) throw new ConfigError(problems)

  const config: Config = {
    ...rest,
    ...served,
    resources,
    otherEtcds: others.etcds,
    awaitsKubernetes,
  }
  return { kind: 'run', config: deepFreeze(config), sources: sourcesOf(given) }
}

/**
 * Whether to serve Kubernetes' resources only after an object of one has been stored. The server does not wait for that
 * if permissions depend on the resources, if the first object may be written here, or if other servers share them.
 */
function mayAwaitKubernetes(config: Completed): boolean {
  const { kubernetesResources, etcdServers, natsServers, passthrough, apiservice, authorizationMode } = config
  const isNeeded = authorizationMode.includes('RBAC') || config.enableWrites
  const isAlone = natsServers.length === 0 && passthrough === null && apiservice.length === 0
  return kubernetesResources === 'auto' && etcdServers.length > 0 && isAlone && !isNeeded
}

/** The resources against which writes are checked. */
const CHECKED_BY_WRITES: ReadonlySet<string> = new Set(['namespaces', 'poddisruptionbudgets.policy'])

/**
 * Returns a problem for each resource that an option names although it is not served. Otherwise the option would
 * silently have no effect.
 */
function unserved(
  flag: string,
  named: readonly { readonly resource: string }[],
  resources: readonly ServedResource[],
  isWrong: (id: string) => boolean,
): readonly string[] {
  const ids = resources.map(({ resource }) => resourceId(resource))
  return named
    .filter(({ resource }) => !ids.includes(resource) && isWrong(resource))
    .map(({ resource }) => {
      const nearest = ids.find((id) => id.startsWith(`${resource}.`)) ?? nearestName(resource, ids)
      return `${flag}: ${resource} is not served${nearest === null ? '' : `; did you mean ${nearest}?`}`
    })
}

interface Given {
  readonly source: Source
  readonly texts: readonly string[]
  /** The name of the place in messages. */
  readonly place: string
}

function readYaml(path: string | undefined, readFile: ReadFile): YamlFile {
  const none: YamlFile = { values: new Map(), resourceNames: [], declarations: [], problems: [] }
  if (path === undefined || path === '') return none
  try {
    return parseYamlFile(path, readFile(path))
  } catch {
    // The check of all file options reports the same failure.
    return none
  }
}

/**
 * An empty variable counts as unset, because compose files and charts set empty variables. If a service is named
 * distributary, Kubernetes itself sets DISTRIBUTARY_PORT in every pod of its namespace, to a value such as
 * tcp://10.0.0.1:8001, which also counts as unset.
 */
function environmentValue(environment: Environment, name: OptionName): string | null {
  const text = environment[environmentName(name)]
  if (text === undefined || text === '' || (name === 'port' && text.startsWith('tcp://'))) return null
  return text
}

function parseValues(
  given: ReadonlyMap<OptionName, Given>,
  readFile: ReadFile,
  problems: string[],
): { values: OptionValues; broken: ReadonlySet<OptionName> } {
  const broken = new Set<OptionName>()
  const entries = optionNames.map((name) => {
    const option = options[name]
    const from = given.get(name)
    if (from === undefined) return [name, option.default]
    try {
      const value = option.parse(from.texts)
      if (option.kind === 'file' && typeof value === 'string') readFile(value)
      return [name, value]
    } catch (error) {
      broken.add(name)
      problems.push(`${from.place}: ${reasonOf(error)}`)
      return [name, option.default]
    }
  })
  // Each value came from the option of the same name, as the type of `OptionValues` requires.
  return { values: Object.fromEntries(entries) as OptionValues, broken }
}

function reasonOf(error: unknown): string {
  if (error instanceof OptionValueError) return error.message
  // Node's message names the call and the path; only the code matters here.
  return `cannot be read: ${errorMessage(error)}`
}

function sourcesOf(given: ReadonlyMap<OptionName, Given>): Sources {
  return Object.fromEntries(optionNames.map((name) => [name, given.get(name)?.source ?? 'default'])) as Sources
}

function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    for (const inner of Object.values(value)) deepFreeze(inner)
  }
  return value
}
