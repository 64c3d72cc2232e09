/** The encryption configurations of the comparison, as a cluster goes through them, and the keys in them. */
import { createHash } from 'node:crypto'

/** Keys are made from their names, so that recorded values can be opened again. */
export function keyNamed(name: string, bytes = 32): string {
  return createHash('sha256').update(`a key for tests: ${name}`).digest().subarray(0, bytes).toString('base64')
}

type Provider = Readonly<Record<string, unknown>>

export const identity: Provider = { identity: {} }

export function provider(kind: 'aescbc' | 'aesgcm' | 'secretbox', ...names: string[]): Provider {
  return { [kind]: { keys: names.map((name) => ({ name, secret: keyNamed(`${kind} ${name}`) })) } }
}

export function kms(name: string, socket: string): Provider {
  return { kms: { apiVersion: 'v2', name, endpoint: `unix://${socket}`, timeout: '3s' } }
}

/** The text of a file, from the providers of each list of resources. */
export function configuration(entries: readonly (readonly [resources: readonly string[], ...Provider[]])[]): string {
  const resources = entries.map(([names, ...providers]) => ({ resources: names, providers }))
  return JSON.stringify({ apiVersion: 'apiserver.config.k8s.io/v1', kind: 'EncryptionConfiguration', resources })
}

/** A state of the configuration. */
export interface Phase {
  readonly name: string
  readonly text: string
}

/** @param socket of the plugin. */
export function phases(socket: string): readonly Phase[] {
  const plugin = kms('plugin', socket)
  return [
    {
      name: 'every provider',
      text: configuration([
        [['secrets'], provider('aescbc', 'one')],
        [['configmaps'], provider('aesgcm', 'one')],
        [['events', 'leases.coordination.k8s.io'], identity],
        [['*.apps'], provider('secretbox', 'one')],
        [['*.*'], plugin],
      ]),
    },
    {
      name: 'new keys first',
      text: configuration([
        [['secrets'], provider('aescbc', 'two', 'one')],
        [['configmaps'], provider('aesgcm', 'two', 'one')],
        [['events', 'leases.coordination.k8s.io'], identity],
        [['*.apps'], provider('secretbox', 'two', 'one')],
        [['*.*'], plugin, identity],
      ]),
    },
    {
      name: 'other providers first, some of the same kind twice',
      text: configuration([
        [['secrets'], kms('for-secrets', socket), provider('aescbc', 'two'), provider('aescbc', 'one'), identity],
        [['configmaps'], identity, provider('aesgcm', 'two', 'one')],
        [['events', 'leases.coordination.k8s.io'], provider('aesgcm', 'three'), identity],
        [['*.apps'], provider('aescbc', 'one'), provider('secretbox', 'two', 'one')],
        [['*.*'], provider('aesgcm', 'three'), plugin, identity],
      ]),
    },
  ]
}
