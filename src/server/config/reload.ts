/** Which options may change while a server runs, and what changed between two configurations. */
import type { Config } from './load.js'
import { options, type OptionName } from './options.js'

/** Options whose changes take effect at once, because they are read for each request or their readers are notified. */
export const RELOADABLE = [
  'logLevel',
  'allowedHosts',
  'maxWatchers',
  'maxWatchersPerClient',
  'requestsPerSecond',
  'maxInitialStates',
  'passthroughMaxRequests',
  'memoryTarget',
  'listCacheBytes',
  'watchCacheBytes',
  'watchCacheAge',
  'defaultWatchCacheSize',
] as const satisfies readonly OptionName[]

export interface ConfigChanges {
  /** Flags with changed values that take effect at once; without --upstream, possibly also `resources`. */
  readonly reloadable: readonly string[]
  /** Flags with changed values that need a new process; with --upstream, possibly also `resources`. */
  readonly refused: readonly string[]
}

/** Returns the keys of the file that a running server with this configuration adopts. */
export function reloadableNames({ upstream }: Config): readonly (OptionName | 'resources')[] {
  // With --upstream, `resources` only selects from the other server's resources once, at the start.
  return upstream === null ? [...RELOADABLE, 'resources'] : RELOADABLE
}

export function changesBetween(before: Config, after: Config): ConfigChanges {
  const changed = (Object.keys(after) as (keyof Config)[]).filter(
    (name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]),
  )
  const canChange = new Set<string>(reloadableNames(after))
  return {
    reloadable: changed.filter((name) => canChange.has(name)).map(flagOf),
    // Derived values (embedded, awaitsKubernetes, enableWrites) have no flag to name.
    refused: changed
      .filter((name) => !canChange.has(name) && name !== 'embedded' && name !== 'awaitsKubernetes')
      .map(flagOf),
  }
}

/** `--max-watchers` for `maxWatchers`; a name that is not an option is returned unchanged. */
export function flagOf(name: string): string {
  if (name === 'leftOut') return 'what --resource leaves out'
  return Object.hasOwn(options, name) ? options[name as OptionName].flag : name
}
