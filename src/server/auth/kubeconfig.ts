/**
 * Reads a kubeconfig file for the server itself. Plugins that run a command (`exec`) are refused: a server for
 * thousands of clients does not start programs in order to log in.
 */
import { readRegularFile } from '../../support/read-regular-file.js'
import { parse } from '../../support/yaml.js'
import { readKubeconfig } from '../../support/kubeconfig.js'
import type { JsonServer } from './https-json.js'

/** @throws Error that names the file and what is missing. */
export function loadKubeconfig(file: string, readFile: (path: string) => Buffer = readRegularFile): JsonServer {
  const { exec, impersonate, ...context } = readKubeconfig(parse(readFile(file).toString('utf8')), { file, readFile })
  if (exec !== undefined)
    throw new Error(`kubeconfig ${file}: its user has an exec plugin, which a server does not run`)
  if (impersonate !== undefined)
    throw new Error(`kubeconfig ${file}: its user impersonates another (as), which the server does not do`)
  return context
}
