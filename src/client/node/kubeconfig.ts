/**
 * A context of a kubeconfig file, as options of the Node transport. What is read of it, and what is refused, is said in
 * `support/kubeconfig.ts`. The YAML reader is loaded only here: a client that reads no kubeconfig needs no package at all.
 */
import { readFileSync } from 'node:fs'
import { readKubeconfig } from '../../support/kubeconfig.js'
import { execCredentials } from './exec-credentials.js'
import type { NodeTransportOptions } from './node-transport.js'

export interface KubeconfigOptions {
  /** Default: the file's `current-context`, or its only one. */
  readonly context?: string
}

export interface Kubeconfig extends NodeTransportOptions {
  /** Of the context; '' when it names none. */
  readonly namespace: string
}

/** @throws Error that names the file and what is missing. */
export async function loadKubeconfig(file: string, options: KubeconfigOptions = {}): Promise<Kubeconfig> {
  const content = readFileSync(file, 'utf8')
  const { parse } = await import('yaml')
  const { exec, ...context } = readKubeconfig(parse(content), { file, ...options })
  return exec === undefined ? context : { ...context, credentials: execCredentials(exec) }
}
