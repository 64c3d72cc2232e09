/** Former options, and those only in the file. Using one elsewhere is an error that names its replacement. */
import { flagOf, optionNames, options } from './options.js'
import { nearestName } from '../../support/nearest-name.js'

/** By flag: what to do instead. */
const REMOVED: ReadonlyMap<string, string> = new Map([
  ['--serve-cbor', 'custom resources stored as CBOR are read as before, and clients get JSON or protobuf'],
  ['--tracing-sampling-rate-per-million', 'sample the spans in the collector'],
  ['--nats-fallback', 'use --nats-role edge for a replica that must not read etcd'],
  ['--initial-bytes-per-second', 'use --requests-per-second and --max-initial-states, which also count by identity'],
])

/**
 * Returns what to say after an unknown name: what replaces a removed option, or the known name most like it.
 *
 * @param known all names that could stand here.
 * @param nameOf how the option with this flag is called here.
 * @param prefix what all names here begin with. It does not count as similar.
 */
export function adviceOn(
  name: string,
  known: readonly string[],
  nameOf: (flag: string) => string,
  prefix = '',
): string {
  for (const [flag, instead] of REMOVED) if (nameOf(flag) === name) return `: it was removed; ${instead}`
  const key = optionNames.find((one) => options[one].isFileOnly === true && nameOf(flagOf(one)) === name)
  if (key !== undefined) return `: set ${key} in the file of --config`
  const rest = (one: string): string => one.slice(prefix.length)
  const nearest = nearestName(rest(name), known.map(rest))
  return nearest === null ? '' : `; did you mean ${prefix}${nearest}?`
}
