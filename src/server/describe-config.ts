/** The words in which the greeting and `config check` tell what a configuration means. */
import type { Config } from '../config/load.js'

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
