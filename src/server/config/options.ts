/**
 * The table of all options of the server: name, default, limits, and what goes wrong with a bad value. The flag, the
 * environment name, `--help`, the docs and the schema of the Helm values are generated from this table. The name itself
 * is the YAML key.
 *
 * To add an option, add its entry together with the code that reads it, because an option that nothing reads is
 * useless. Flags shared with kube-apiserver have the same meaning. `relations.ts` defines how options depend on each
 * other.
 */
import type { OptionDefinition, ValueOf } from './option.js'
import { authenticationOptions, authorizationOptions } from './options/access.js'
import { fleetOptions } from './options/fleet.js'
import { limitsOptions } from './options/limits.js'
import { processOptions } from './options/process.js'
import { servingOptions, tlsOptions } from './options/serving.js'
import { upstreamOptions } from './options/upstream.js'
import { resourceOptions, watchCacheOptions, watchOptions } from './options/watching.js'

/** The groups of options, in the order of `--help`. */
const groups = {
  Upstream: upstreamOptions,
  Fleet: fleetOptions,
  Serving: servingOptions,
  TLS: tlsOptions,
  Resources: resourceOptions,
  'Watch cache': watchCacheOptions,
  Watches: watchOptions,
  Limits: limitsOptions,
  Authentication: authenticationOptions,
  Authorization: authorizationOptions,
  Process: processOptions,
} as const

export type OptionGroup = keyof typeof groups
type Definitions = AllOf<(typeof groups)[OptionGroup]>
type AllOf<U> = (U extends unknown ? (one: U) => void : never) extends (all: infer A) => void ? A : never

export type OptionName = keyof Definitions

export interface Option<T> extends OptionDefinition<T> {
  /** Includes the dashes: `--etcd-servers` for `etcdServers`. The name itself where there is only the file. */
  readonly flag: string
  readonly group: OptionGroup
}

/** The values of all options, before the defaults that depend on other options are filled in. */
export type OptionValues = { readonly [Name in OptionName]: ValueOf<Definitions[Name]> }

// Each entry comes from the definition of the same name, as the mapped type says.
export const options = Object.fromEntries(
  Object.entries(groups).flatMap(([group, definitions]) =>
    Object.entries<OptionDefinition<unknown>>(definitions).map(([name, definition]) => {
      const flag = definition.isFileOnly === true ? name : flagOf(name)
      return [name, { ...definition, flag, group }]
    }),
  ),
) as unknown as { readonly [Name in OptionName]: Option<OptionValues[Name]> }

export const optionNames = Object.keys(options) as readonly OptionName[]

/** `etcdServers` is `--etcd-servers`. */
export function flagOf(name: string): string {
  return `--${name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`
}

/** The options that are also flags and variables. */
export const flagNames = optionNames.filter((name) => options[name].isFileOnly !== true)

/** `--etcd-servers` is `DISTRIBUTARY_ETCD_SERVERS`. */
export function environmentName(name: OptionName): string {
  return variableOf(options[name].flag)
}

/** Like `environmentName`, for any flag. */
export function variableOf(flag: string): string {
  return `DISTRIBUTARY_${flag.slice(2).replaceAll('-', '_').toUpperCase()}`
}

/** `--etcd-servers` is `etcdServers`. */
export function keyOf(flag: string): string {
  return flag.slice(2).replaceAll(/-([a-z])/g, (_, letter: string) => letter.toUpperCase())
}

/**
 * Returns null for options that have no place in the file: the file's own path, and `--resource`, for which the file
 * has `resources:`.
 */
export function yamlKey(name: OptionName): string | null {
  return name === 'config' || name === 'resource' ? null : name
}
