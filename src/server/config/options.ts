/**
 * Every option of the server, once: flag, default, limits, and what goes wrong with a bad value. The environment name,
 * the YAML key, `--help`, the docs and the schema of the Helm values are generated from this table.
 *
 * To add an option, add its entry here *with the code that reads it*: an option that nothing reads does not exist.
 * Flags shared with kube-apiserver have the same meaning. `relations.ts` defines how options depend on each other.
 */
import type { ValueOf } from './option.js'
import { upstreamOptions } from './options/upstream.js'
import { fleetOptions } from './options/fleet.js'
import { servingOptions } from './options/serving.js'
import { watchingOptions } from './options/watching.js'
import { limitsOptions } from './options/limits.js'
import { accessOptions } from './options/access.js'
import { processOptions } from './options/process.js'

/** In the order of `--help`. */
export const options = {
  ...upstreamOptions,
  ...fleetOptions,
  ...servingOptions,
  ...watchingOptions,
  ...limitsOptions,
  ...accessOptions,
  ...processOptions,
} as const

export type OptionName = keyof typeof options

/** The values before defaults that depend on other options are filled in. */
export type OptionValues = { readonly [Name in OptionName]: ValueOf<(typeof options)[Name]> }

export const optionNames = Object.keys(options) as readonly OptionName[]

/** `--etcd-servers` is `DISTRIBUTARY_ETCD_SERVERS`. */
export function environmentName(name: OptionName): string {
  return `DISTRIBUTARY_${options[name].flag.slice(2).replaceAll('-', '_').toUpperCase()}`
}

/** null for options that have no place in the file: the file's own path, and what `resources:` expresses better. */
export function yamlKey(name: OptionName): string | null {
  return name === 'config' || name === 'resource' ? null : name
}
