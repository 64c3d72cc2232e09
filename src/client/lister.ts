/** Reads an informer's store like a caller of the API: by name, by namespace, by labels. */
import type { KubeObject, ObjectLike } from '../reflector/tree-codec.js'
import { objectKey } from '../reflector/object-codec.js'
import type { Indexer } from './indexer.js'

export const NAMESPACE_INDEX = 'namespace'

export class Lister<T extends ObjectLike = KubeObject> {
  readonly #store: Indexer<T>

  /** @param store must have the index `NAMESPACE_INDEX`. */
  constructor(store: Indexer<T>) {
    this.#store = store
  }

  /** @param namespace leave it out for cluster-scoped resources. */
  get(name: string, namespace?: string): T | undefined {
    return this.#store.get(objectKey(namespace, name))
  }

  /** @param labels an object must have all of them with these values. */
  list(options: { readonly namespace?: string; readonly labels?: Readonly<Record<string, string>> } = {}): T[] {
    const { namespace, labels } = options
    const objects = namespace === undefined ? this.#store.list() : this.#store.byIndex(NAMESPACE_INDEX, namespace)
    if (labels === undefined) return objects
    const wanted = Object.entries(labels)
    return objects.filter(({ metadata }) => wanted.every(([name, value]) => metadata?.labels?.[name] === value))
  }
}
