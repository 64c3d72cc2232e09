/**
 * Turns a context of a kubeconfig file into options of the Node transport. `support/kubeconfig.ts` says what is read
 * and what is refused. The YAML reader is loaded only here, so a client without a kubeconfig needs no package at all.
 */
import { readFileSync } from 'node:fs'
import { readKubeconfig } from '../../support/kubeconfig.js'
import { execCredentials } from './exec-credentials.js'
import type { NodeTransportOptions } from './node-transport.js'

export interface KubeconfigOptions {
  /** Default: the file's `current-context`, or its only context. */
  readonly context?: string
}

export interface Kubeconfig extends NodeTransportOptions {
  /** The namespace of the context; '' when it names none. */
  readonly namespace: string
}

/** @throws Error that names the file and what is missing. */
export async function loadKubeconfig(file: string, options: KubeconfigOptions = {}): Promise<Kubeconfig> {
  const content = readFileSync(file, 'utf8')
  const { parse } = await import('yaml')
  const { exec, ...context } = readKubeconfig(parse(content), { file, ...options })
  return exec === undefined ? context : { ...context, credentials: execCredentials(exec) }
}
