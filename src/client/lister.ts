/** Reads an informer's store the way one reads the API: by name, by namespace, by labels. */
import {
  holds,
  type LabelSelectorObject,
  parseRequirements,
  type Requirement,
  requirementsOf,
} from '../kubernetes/model/label-requirements.js'
import type { KubeObject, ObjectLike } from './reflector/tree-codec.js'
import { objectKey } from './reflector/object-codec.js'
import type { Indexer } from './indexer.js'

/** The name of the namespace index, which every informer's store has. */
export const NAMESPACE_INDEX = 'namespace'

/** Selects objects in a store. */
export interface ListerQuery {
  readonly namespace?: string
  /** An object must have all of these labels with these values. */
  readonly labels?: Readonly<Record<string, string>>
  /** In Kubernetes selector syntax (`app=web,tier in (a,b),!canary`), or as the API's LabelSelector. */
  readonly selector?: string | LabelSelectorObject
}

/** Reads a store by name, namespace and labels. */
export class Lister<T extends ObjectLike = KubeObject> {
  readonly #store: Indexer<T>

  /** @param store must have the index `NAMESPACE_INDEX`. */
  constructor(store: Indexer<T>) {
    this.#store = store
  }

  /** @param namespace omit for cluster-scoped resources. */
  get(name: string, namespace?: string): T | undefined {
    return this.#store.get(objectKey(namespace, name))
  }

  /** @throws BadRequestError for an invalid selector. */
  list({ namespace, labels, selector }: ListerQuery = {}): T[] {
    const objects = namespace === undefined ? this.#store.list() : this.#store.byIndex(NAMESPACE_INDEX, namespace)
    if (labels === undefined && selector === undefined) return objects
    const matches = labelMatcher(selector ?? '')
    const wanted = Object.entries(labels ?? {})
    return objects.filter(
      ({ metadata }) =>
        wanted.every(([name, value]) => metadata?.labels?.[name] === value) && matches(metadata?.labels ?? {}),
    )
  }
}

/**
 * Returns a function that tests whether a selector matches an object's labels. A selector without requirements matches
 * everything. The selector is parsed only once, which helps callers that match many objects.
 *
 * @throws BadRequestError for an invalid selector.
 */
export function labelMatcher(
  selector: string | LabelSelectorObject,
): (labels: Readonly<Record<string, string>>) => boolean {
  const requirements: readonly Requirement[] =
    typeof selector === 'string' ? parseRequirements(selector) : requirementsOf(selector)
  return (labels) =>
    requirements.every((requirement) => {
      const { key } = requirement
      return holds(requirement, Object.hasOwn(labels, key) ? labels[key] : undefined)
    })
}
