/**
 * A kubeconfig file for the server itself. Plugins that run a command (`exec`) are refused: a server that serves thousands
 * does not start programs to log in.
 */
import { readFileSync } from 'node:fs'
import { parse } from 'yaml'
import { readKubeconfig } from '../support/kubeconfig.js'
import type { JsonServer } from './https-json.js'

/** @throws Error that names the file and what is missing. */
export function loadKubeconfig(file: string, readFile: (path: string) => Buffer = readFileSync): JsonServer {
  const context = readKubeconfig(parse(readFile(file).toString('utf8')), { file, readFile })
  const { server: url, namespace: _, exec, ...credentials } = context
  if (exec !== undefined) throw new Error(`kubeconfig ${file}: its user logs in by exec, which a server does not run`)
  return { url, ...credentials }
}
