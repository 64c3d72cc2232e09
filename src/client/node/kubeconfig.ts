/**
 * Turns a context of kubeconfig files into options of the Node transport. `support/read-kubeconfig.ts` documents the
 * supported fields. The YAML parser is loaded only here, so a client without a kubeconfig needs no npm package.
 */
import { existsSync, readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import path from 'node:path'
import { mergeKubeconfigs, readKubeconfig } from '../../support/read-kubeconfig.js'
import { execCredentials } from './exec-credentials.js'
import type { NodeTransportOptions } from './node-transport.js'

/** Which context to use. */
export interface KubeconfigOptions {
  /** Default: the `current-context`, or the only context. */
  readonly context?: string
}

/** A context: options of `nodeTransport`, and its namespace. */
export interface Kubeconfig extends NodeTransportOptions {
  /** The namespace of the context; '' if it has none. */
  readonly namespace: string
}

/**
 * Reads a context.
 * @param files one file, or several that are merged as kubectl merges them (`kubeconfigFiles()`), ignoring files that do
 * not exist.
 *
 * @throws Error that names the file and what is missing.
 */
export async function loadKubeconfig(
  files: string | readonly string[],
  options: KubeconfigOptions = {},
): Promise<Kubeconfig> {
  const names = typeof files === 'string' ? [files] : [...new Set(files)]
  const present = names.length === 1 ? names : names.filter((name) => existsSync(name))
  const file = present.join(path.delimiter)
  if (file === '') throw new Error(`no kubeconfig found: none of ${names.join(', ')} exists`)
  const { readYaml } = await import('../../support/yaml.js')
  const contents = present.map((name) => ({ file: name, config: readYaml(readFileSync(name, 'utf8')) }))
  const { exec, ...context } = readKubeconfig(mergeKubeconfigs(contents), { file, ...options })
  return exec === undefined ? context : { ...context, credentials: execCredentials(exec) }
}

/** Returns the files that kubectl would read: the files listed in KUBECONFIG, or else `~/.kube/config`. */
export function kubeconfigFiles(
  environment: Readonly<Record<string, string | undefined>> = process.env,
): readonly string[] {
  const named = (environment['KUBECONFIG'] ?? '').split(path.delimiter).filter((name) => name !== '')
  return named.length > 0 ? named : [path.join(homedir(), '.kube', 'config')]
}
