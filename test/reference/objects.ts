/**
 * The objects of a run, as JSON text, because much of them (integers beyond 2^53, 1.0 next to 1, the order of members)
 * would not survive a JavaScript object. Most are posted to the API server; some are written directly into etcd, as an
 * older definition or another encoder would have left them.
 */
import type { Definition } from '../support/definition.js'
import type { DefinitionSet } from './definition-set.js'
import { metadata } from './object-parts.js'
import type { Random } from './random.js'

export interface Posted {
  readonly path: string
  readonly body: string
  /** A merge patch sent to /status after creation. */
  readonly status?: string
  /** Deleted after creation; its finalizer keeps it. */
  readonly isDeleted?: boolean
}

export const namespaces = ['default', 'team-a', 'team-ab', 'kube-system'] as const

export function collectionPath(definition: Definition, version: string, namespace: string | null): string {
  const root = `/apis/${definition.group}/${version}`
  return `${root}${namespace === null ? '' : `/namespaces/${namespace}`}/${definition.plural}`
}

export function makeObject(
  { definitions, makers }: DefinitionSet,
  random: Random,
  plural: string,
  index: number,
  name = `${plural.slice(0, 3)}-${String(index).padStart(3, '0')}`,
): Posted {
  const definition = definitions.find((one) => one.plural === plural)!
  const namespace = definition.scope === 'Cluster' ? null : random.pick(namespaces)
  const { version, metadata: more = {}, rest, status } = makers[plural]!(random, index)
  const head = `"apiVersion":"${definition.group}/${version}","kind":"${definition.kind}","metadata":${metadata(random, name, namespace, more)}`
  return {
    path: collectionPath(definition, version, namespace),
    body: `{${head},${rest}}`,
    ...(status === undefined ? {} : { status }),
    isDeleted: more['finalizers'] !== undefined && random.chance(0.2),
  }
}

/** @param scale 1 for a run, less for a recording. */
export function postedObjects(set: DefinitionSet, random: Random, scale: number): readonly Posted[] {
  const objects: Posted[] = []
  for (const [plural, count] of Object.entries(set.counts)) {
    for (let index = 0; index < Math.ceil(count * scale); index++) objects.push(makeObject(set, random, plural, index))
  }
  return objects
}
