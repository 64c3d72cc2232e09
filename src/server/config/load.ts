/**
 * Turns command line, environment and YAML file into one frozen Config, or reports every problem at once.
 *
 * A flag takes precedence over the environment, the environment over the file, and the file over the default. Resources
 * are the exception: `--resource` adds to the file's `resources:`. Arguments, environment and file system are
 * parameters, so that tests run the same code as the program.
 */
import { resolveResources } from '../../kubernetes/dialect/declared-resource.js'
import { type OtherEtcd, resolveOtherEtcds } from '../../kubernetes/dialect/other-etcds.js'
import type { ServedResource } from '../../kubernetes/dialect/resource-registry.js'
import { parseCommandLine } from './parse-command-line.js'
import { ConfigError } from './config-error.js'
import { type Environment, isInjected, optionsKeptByNpm, unknownVariables } from './environment.js'
import { helpText } from './help.js'
import { OptionValueError } from './option.js'
import { environmentName, optionNames, options, type OptionName, type OptionValues } from './options.js'
import { complete, type Completed, conflictsIn } from './relations.js'
import { parseYamlFile, type YamlFile } from './yaml-file.js'
import { errorMessage } from '../../support/error-message.js'
import { mayPass } from './passing-error.js'

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
  | {
      readonly kind: 'run'
      readonly config: Config
      /** The file of `--config` as it was read; null without one. */
      readonly file: ConfigFile | null
      readonly sources: Sources
      /** Settings without an effect that were probably meant to have one. */
      readonly warnings: readonly string[]
    }
  | { readonly kind: 'help'; readonly text: string }
  | { readonly kind: 'version' }

export interface ConfigFile {
  readonly path: string
  readonly text: string
}

export type Source = 'flag' | 'environment' | 'file' | 'default'
export type Sources = Readonly<Record<OptionName, Source>>

/** Returns the text of a file; throws like `node:fs`. */
export type ReadFile = (path: string) => string

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
  const path = commandLine.texts.get('config')?.at(-1) ?? environment[environmentName('config')]
  const file = path === undefined || path === '' ? null : readConfigFile(path, readFile)
  const yaml = file === null ? NO_YAML : parseYamlFile(file.path, file.text)
  problems.push(...yaml.problems)
  for (const name of optionNames) {
    const flagTexts = commandLine.texts.get(name)
    const environmentText = options[name].isFileOnly === true ? null : environmentValue(environment, name)
    const fileValue = yaml.values.get(name)
    if (flagTexts !== undefined) given.set(name, { source: 'flag', texts: flagTexts, place: options[name].flag })
    else if (environmentText !== null) {
      given.set(name, { source: 'environment', texts: [environmentText], place: environmentName(name) })
    } else if (fileValue !== undefined) {
      given.set(name, { source: 'file', texts: fileValue.texts, place: `${fileValue.place}: ${name}` })
    }
  }

  const passing = new Set<OptionName>()
  const { values, broken } = parseValues(given, readFile, problems, passing)
  const completed = complete(values)
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
  const namesKubernetes = [...yaml.resourceNames, ...resource].some((text) => !/^-|=/.test(text))
  const awaitsKubernetes =
    declared.length > 0 && !namesKubernetes && !given.has('etcdPrefix') && mayAwaitKubernetes(completed)
  const resources = isOnlyDeclared ? declared : served.resources
  const subject = {
    ...completed,
    isGiven: (name: OptionName) => given.has(name),
    resources,
    leftOut: served.leftOut,
    isDeclaredWell: wrong.length === 0,
  }
  problems.push(...conflictsIn(subject, (name) => broken.has(name)))
  if (problems.length > 0) {
    // A file with options that is not there yet may cure everything else.
    const mayPass = passing.has('config') || problems.length === passing.size
    throw new ConfigError([...problems, ...optionsKeptByNpm(environment)], mayPass)
  }

  const config: Config = {
    ...rest,
    ...served,
    resources,
    otherEtcds: others.etcds,
    awaitsKubernetes,
  }
  const warnings = [...unknownVariables(environment), ...optionsKeptByNpm(environment)]
  return { kind: 'run', config: deepFreeze(config), file, sources: sourcesOf(given), warnings }
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

interface Given {
  readonly source: Source
  readonly texts: readonly string[]
  /** The name of the place in messages. */
  readonly place: string
}

const NO_YAML: YamlFile = { values: new Map(), resourceNames: [], declarations: [], problems: [] }

function readConfigFile(path: string, readFile: ReadFile): ConfigFile | null {
  try {
    return { path, text: readFile(path) }
  } catch {
    // The check of all file options reports the same failure.
    return null
  }
}

/** An empty variable counts as unset, because compose files and charts set empty variables. */
function environmentValue(environment: Environment, name: OptionName): string | null {
  const variable = environmentName(name)
  const text = environment[variable]
  return text === undefined || text === '' || isInjected(variable, text) ? null : text
}

function parseValues(
  given: ReadonlyMap<OptionName, Given>,
  readFile: ReadFile,
  problems: string[],
  passing: Set<OptionName>,
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
      if (mayPass(error)) passing.add(name)
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
