/**
 * Flags for a server that serves only these Kubernetes resources, and those that permissions and resources are derived
 * from: a test that starts several servers would otherwise spend most of its processor time on fifty resources it does
 * not use.
 */
import { wellKnownResources } from '../../src/kubernetes/dialect/well-known-resources.js'

const ALWAYS = /\.(apiregistration|rbac\.authorization|apiextensions)\.k8s\.io$/

/** @param names as for `--resource`: `pods`, `deployments.apps`. */
export function only(...names: readonly string[]): string[] {
  const served = new Set(wellKnownResources().flatMap((entry) => (entry.served === 'default' ? [nameOf(entry)] : [])))
  for (const name of names) if (!served.has(name)) throw new Error(`${name} is not served by default`)
  return [...served].filter((name) => !names.includes(name) && !ALWAYS.test(name)).map((name) => `--resource=-${name}`)
}

function nameOf({ resource: { group, plural } }: ReturnType<typeof wellKnownResources>[number]): string {
  return group === '' ? plural : `${plural}.${group}`
}
