/**
 * The JSON of objects as the resources served here have them: one place knows which versions of a resource can be made of
 * what is stored, for answers and for all that reads objects within (definitions, rights, writes, selectors).
 */
import type { ObjectViews, ViewTarget } from '../codec/object-views.js'
import { readMetadata } from '../codec/protobuf/metadata.js'
import { ReadRules } from '../codec/read-rules.js'
import type { JsonView } from '../dialect/encoding/json-encoder.js'
import type { CustomDefinition, ResourceRegistry, ServedResource } from '../dialect/resource-registry.js'
import { apiVersion, type Resource, resourceId } from '../model/resource.js'
import { UnshowableError } from '../model/status.js'
import type { StoredObject } from '../model/stored-object.js'

export class ServedViews {
  readonly #views: ObjectViews
  readonly #registry: ResourceRegistry
  readonly #targets = new WeakMap<ServedResource, ViewTarget>()
  readonly #rules = new WeakMap<CustomDefinition, ReadRules>()

  constructor(views: ObjectViews, registry: ResourceRegistry) {
    this.#views = views
    this.#registry = registry
  }

  /**
   * For answers. An object of Kubernetes' that cannot be shown is an error that names it: a list without it would be taken
   * for all there is. Under a declared prefix such a value is left out.
   */
  viewOf(served: ServedResource): JsonView {
    const target = this.#targetOf(served)
    return (object) => {
      const json = this.#views.json(object, target)
      if (json === null && served.origin !== 'declared') throw notShown(served, object)
      return json
    }
  }

  /** null when it has no JSON as that version, which has been logged. */
  json(served: ServedResource, object: StoredObject): Buffer | null {
    return this.#views.json(object, this.#targetOf(served))?.bytes ?? null
  }

  /** Whether objects stored as this kind and version can be shown as the served version at all. */
  canShow(served: ServedResource, object: StoredObject): boolean {
    return this.#views.canShow(object, this.#targetOf(served))
  }

  /**
   * The JSON that selectors look at.
   *
   * @param resource one of those that the object may be shown as.
   * @param version the one that was asked for; '': what all have in common, as it is stored.
   */
  forSelectors(resource: Resource, object: StoredObject, onlyMetadata: boolean, version: string): Buffer | null {
    if (version !== '') {
      const [name = '', group = ''] = version.split('/').toReversed()
      const served = this.#registry.find(group, name, resource.plural)
      return served === undefined ? null : (this.viewOf(served)(object)?.bytes ?? null)
    }
    if (onlyMetadata) return object.encoding === 'protobuf' ? metadataJson(object) : object.bytes
    // Its fields are what its own version shows, where that is served.
    const [name = '', group = ''] = object.apiVersion.split('/').toReversed()
    const own = group === resource.group ? this.#registry.find(group, name, resource.plural) : undefined
    if (own?.origin === 'custom') return this.json(own, object)
    return (
      this.#views.json(object, { apiVersion: object.apiVersion, convertsByName: false, rules: null })?.bytes ?? null
    )
  }

  /** Custom resources convert by name: `None` is the only conversion that can be made here. */
  #targetOf(served: ServedResource): ViewTarget {
    let target = this.#targets.get(served)
    if (target === undefined) {
      const { resource, origin, convertsByWebhook, definition } = served
      const convertsByName = origin !== 'well-known' && !convertsByWebhook
      const rules = definition === null ? null : this.#rulesOf(definition, resource)
      target = { apiVersion: apiVersion(resource), convertsByName, rules }
      this.#targets.set(served, target)
    }
    return target
  }

  /** The versions of one definition share them. */
  #rulesOf(definition: CustomDefinition, { group, kind }: Resource): ReadRules {
    let rules = this.#rules.get(definition)
    if (rules === undefined) this.#rules.set(definition, (rules = new ReadRules({ ...definition, group, kind })))
    return rules
  }
}

function notShown({ resource, convertsByWebhook }: ServedResource, object: StoredObject): UnshowableError {
  const place = object.namespace === '' ? object.name : `${object.namespace}/${object.name}`
  const why = convertsByWebhook ? ', which a webhook converts that is not asked from here' : ''
  return new UnshowableError(
    `${resourceId(resource)} ${JSON.stringify(place)} is stored as ${object.kind} of ${object.apiVersion} ` +
      `(${object.encoding}) and cannot be shown as ${apiVersion(resource)}${why}`,
    { details: { name: object.name, group: resource.group, kind: resource.plural } },
  )
}

/** Label selectors need no more than this, at a fraction of the cost of the whole object. */
function metadataJson(object: StoredObject): Buffer {
  return Buffer.from(JSON.stringify({ metadata: { labels: Object.fromEntries(readMetadata(object.bytes).labels) } }))
}
