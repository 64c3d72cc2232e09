/** Tells the variables that name options from those that Kubernetes injects for services, and from mistakes, npm's included. */
import { environmentName, flagNames, options, variableOf } from './options.js'
import { adviceOn } from './removed-options.js'

export type Environment = Readonly<Record<string, string | undefined>>

const PREFIX = 'DISTRIBUTARY_'
/** Read by commands, which often run in the same environment. */
const OF_COMMANDS = ['DISTRIBUTARY_SERVER', 'DISTRIBUTARY_TOKEN']
const INJECTED =
  /^DISTRIBUTARY(_[A-Z\d_]+)?_(SERVICE_HOST|SERVICE_PORT(_[A-Z\d_]+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$/
const INJECTED_PORT = /^DISTRIBUTARY(_[A-Z\d_]+)?_PORT$/

/**
 * Whether Kubernetes sets the variable in every pod of a namespace with a service named `distributary` or
 * `distributary-…`: DISTRIBUTARY_PORT, for example, to tcp://10.0.0.1:8001, although that is also the name of an option.
 */
export function isInjected(name: string, value: string): boolean {
  return INJECTED.test(name) || (INJECTED_PORT.test(name) && /^(tcp|udp|sctp):\/\//.test(value))
}

/** Returns a warning for each variable that looks like an option but is none. It has no effect, which is easily missed. */
export function unknownVariables(environment: Environment): readonly string[] {
  const known = [...flagNames.map(environmentName), ...OF_COMMANDS]
  return Object.entries(environment)
    .filter(([name, value = '']) => name.startsWith(PREFIX) && value !== '' && !isInjected(name, value))
    .filter(([name]) => !known.includes(name))
    .map(([name]) => `${name} names no option, so it is ignored${adviceOn(name, known, variableOf, PREFIX)}`)
}

/**
 * Returns a hint for each option that npm has taken for one of its own (`npm start --port 80` without `--`). It leaves
 * only a variable such as npm_config_port behind, so the server would start as if the option had not been given.
 */
export function optionsKeptByNpm(environment: Environment): readonly string[] {
  return flagNames.flatMap((name) => {
    const { flag } = options[name]
    const isKept = environment[`npm_config_${flag.slice(2).replaceAll('-', '_')}`] !== undefined
    return isKept ? [`npm has kept ${flag} to itself: put -- before it, as in "npm start -- ${flag}"`] : []
  })
}
