/**
 * Follows CustomResourceDefinitions: each version that one of them serves becomes a resource as soon as the definition
 * is in the cache, and is removed with it.
 */
import { parseExactJson } from '../codec/exact-json.js'
import { ownerOfDefinition, readDefinition } from '../dialect/crd.js'
import type { ResourceRegistry } from '../dialect/resource-registry.js'
import { qualifiedName } from '../dialect/well-known-resources.js'
import type { StoredObject } from '../model/stored-object.js'
import type { Logger } from '../support/log.js'
import type { ObjectFollower } from './followed-objects.js'

export interface DefinitionsOptions {
  readonly registry: ResourceRegistry
  readonly etcdPrefix: string
  /** The definition as apiextensions.k8s.io/v1 JSON; null when it cannot be read. */
  readonly jsonOf: (object: StoredObject) => Buffer | null
  readonly logger: Logger
}

export function followDefinitions(options: DefinitionsOptions): ObjectFollower {
  return {
    onPresent: (object) => define(options, object),
    onAbsent: (name) => options.registry.remove(ownerOfDefinition(name)),
  }
}

function define({ registry, etcdPrefix, jsonOf, logger }: DefinitionsOptions, object: StoredObject): void {
  const { name } = object
  const json = jsonOf(object)
  const reading = json === null ? null : readDefinition(parseExactJson(json), etcdPrefix)
  if (reading === null || reading.kind === 'not-served') {
    const reason = reading === null ? 'it cannot be read' : reading.reason
    logger.warn({ definition: name, reason }, 'custom resource is not served')
    return registry.remove(ownerOfDefinition(name))
  }
  for (const { resource } of registry.set(ownerOfDefinition(name), reading.resources)) {
    logger.warn(
      { definition: name, resource: qualifiedName(resource) },
      'custom resource is served by another definition already',
    )
  }
}
