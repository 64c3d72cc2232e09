/** Which options of a running server may change, and what changed between two configurations. */
import type { Config } from './load.js'
import { options, type OptionName } from './options.js'

/** Options that take effect at once: they are read for each request, or their readers are notified. */
export const RELOADABLE = [
  'logLevel',
  'allowedHosts',
  'maxWatchers',
  'maxWatchersPerClient',
  'requestsPerSecond',
  'initialBytesPerSecond',
  'maxInitialStates',
  'passthroughMaxRequests',
  'memoryTarget',
  'listCacheBytes',
  'watchCacheBytes',
  'watchCacheAge',
  'defaultWatchCacheSize',
] as const satisfies readonly OptionName[]

export interface ConfigChanges {
  /** Flags whose values may change while the server runs, and `resources`. */
  readonly reloadable: readonly string[]
  /** Flags whose values need a new process; over --upstream `resources` too. */
  readonly refused: readonly string[]
}

/** Keys of the file that a server with this configuration takes over while it runs. */
export function reloadableNames({ upstream }: Config): readonly (OptionName | 'resources')[] {
  // Over --upstream they choose among what the server there serves, once.
  return upstream === null ? [...RELOADABLE, 'resources'] : RELOADABLE
}

export function changesBetween(before: Config, after: Config): ConfigChanges {
  const changed = (Object.keys(after) as (keyof Config)[]).filter((name) => {
    // The password follows its file by itself.
    if (name === 'etcdPassword' && after.etcdPasswordFile !== null) return false
    return JSON.stringify(before[name]) !== JSON.stringify(after[name])
  })
  const canChange = new Set<string>(reloadableNames(after))
  return {
    reloadable: changed.filter((name) => canChange.has(name)).map(flagOf),
    // What follows from other options (embedded, awaitsKubernetes, enableWrites) has no flag of its own to name.
    refused: changed
      .filter((name) => !canChange.has(name) && name !== 'embedded' && name !== 'awaitsKubernetes')
      .map(flagOf),
  }
}

/** `--max-watchers` of `maxWatchers`; a name that is no option stays. */
export function flagOf(name: string): string {
  if (name === 'leftOut') return 'what --resource leaves out'
  return Object.hasOwn(options, name) ? options[name as OptionName].flag : name
}
