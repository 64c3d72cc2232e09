/** The words in which the greeting and `config check` tell what a configuration means. */
import type { Config, Sources } from '../config/load.js'
import { type OptionName, optionNames } from '../config/options.js'
import { flagOf, reloadableNames } from '../config/reload.js'

/** Where objects come from: `http://127.0.0.1:2379`, … */
export function describeSource({ embedded, upstream, etcdServers, natsServers }: Config): string {
  return embedded ? 'the in-process store' : (upstream ?? [...etcdServers, ...natsServers].join(', '))
}

/** What is served: `57 resources, and custom ones as they are defined`, or what a server further up serves. */
export function describeResources(config: Config): string {
  if (config.upstream !== null) return 'what the upstream serves'
  return `${countResources(config)} resources, and custom ones as they are defined`
}

/**
 * The number of resources that are configured. Versions of one resource (`autoscaling/v1` and `v2`) share its keys, and
 * count once, as in the log line `ready` and in the metrics, which count custom resources too.
 */
function countResources({ resources }: Config): number {
  return new Set(resources.map(({ resource }) => resource.etcdPrefix)).size
}

/** As it stands in a URL: in brackets where it is of IPv6. */
export function urlHost(address: string): string {
  return address.includes(':') ? `[${address}]` : address
}

/**
 * What can be changed while the server runs. A process keeps the flags and the environment that it was started with, so
 * that only the file of --config can change an option, and only one that neither of them gives.
 */
export function describeReload(config: Config, sources: Sources): string[] {
  const { config: file } = config
  const files = 'reads again by itself: files of certificates, keys, tokens, passwords and policies'
  if (file === null) return ['needs a restart to change: every option, because there is no --config', files]
  const isFixed = (name: string): boolean => ['flag', 'environment'].includes(sources[name as OptionName])
  const reloads = reloadableNames(config).filter((name) => !isFixed(name))
  const restarts = optionNames.filter((name) => sources[name] !== 'default' && !reloads.includes(name))
  const listed = (names: readonly string[]): string => names.map(flagOf).join(', ')
  return [
    `reloads from ${file}, when it changes and on SIGHUP: ${listed(reloads)}`,
    `needs a restart to change: ${listed(restarts)}, and all other options`,
    files,
  ]
}
