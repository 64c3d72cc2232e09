/**
 * Objects by `namespace/name`, grouped by namespace. The name strings inside the objects serve as keys, so 100,000
 * objects need no separate key strings. A namespace with a single object needs no map.
 */

interface Single<T> {
  readonly name: string
  object: T
}

type Namespace<T> = Single<T> | Map<string, T>

/** A map from keys to objects that assembles each key on demand. */
export class NamedObjects<T> {
  /** Keyed by the part of a key before its last slash; null for a key without a slash. */
  readonly #namespaces = new Map<string | null, Namespace<T>>()
  #size = 0

  get size(): number {
    return this.#size
  }

  get(key: string): T | undefined {
    const slash = key.lastIndexOf('/')
    const held = this.#namespaces.get(namespaceIn(key, slash))
    if (held === undefined) return undefined
    const name = key.slice(slash + 1)
    if (held instanceof Map) return held.get(name)
    return held.name === name ? held.object : undefined
  }

  has(key: string): boolean {
    return this.get(key) !== undefined
  }

  /** @returns the previous object. */
  set(key: string, object: T): T | undefined {
    const slash = key.lastIndexOf('/')
    const namespace = namespaceIn(key, slash)
    const name = ownName(object, key, slash)
    const held = this.#namespaces.get(namespace)
    if (held === undefined) {
      this.#namespaces.set(namespace, { name, object })
      this.#size++
    } else if (held instanceof Map) {
      const previous = held.get(name)
      held.set(name, object)
      if (previous === undefined) this.#size++
      return previous
    } else if (held.name === name) {
      this.#namespaces.set(namespace, { name, object })
      return held.object
    } else {
      this.#namespaces.set(
        namespace,
        new Map([
          [held.name, held.object],
          [name, object],
        ]),
      )
      this.#size++
    }
    return undefined
  }

  /** @returns whether it was there. */
  delete(key: string): boolean {
    const slash = key.lastIndexOf('/')
    const namespace = namespaceIn(key, slash)
    const held = this.#namespaces.get(namespace)
    const name = key.slice(slash + 1)
    if (held instanceof Map) {
      if (!held.delete(name)) return false
      if (held.size === 0) this.#namespaces.delete(namespace)
    } else {
      if (held?.name !== name) return false
      this.#namespaces.delete(namespace)
    }
    this.#size--
    return true
  }

  *entries(): Generator<[key: string, object: T], undefined> {
    for (const [namespace, held] of this.#namespaces) {
      const prefix = namespace === null ? '' : `${namespace}/`
      if (!(held instanceof Map)) yield [prefix + held.name, held.object]
      else for (const [name, object] of held) yield [prefix + name, object]
    }
  }

  *keys(): Generator<string, undefined> {
    for (const [key] of this.entries()) yield key
  }

  *values(): Generator<T, undefined> {
    for (const held of this.#namespaces.values()) {
      if (held instanceof Map) yield* held.values()
      else yield held.object
    }
  }

  toArray(): T[] {
    const objects: T[] = []
    for (const held of this.#namespaces.values()) {
      if (!(held instanceof Map)) objects.push(held.object)
      else for (const object of held.values()) objects.push(object)
    }
    return objects
  }
}

function namespaceIn(key: string, slash: number): string | null {
  return slash === -1 ? null : key.slice(0, slash)
}

/** Prefers the string inside the object, because a slice of the key would keep the whole key in memory. */
function ownName(object: unknown, key: string, slash: number): string {
  const name = (object as { metadata?: { name?: unknown } } | null)?.metadata?.name
  return typeof name === 'string' && name.length === key.length - slash - 1 && key.endsWith(name)
    ? name
    : key.slice(slash + 1)
}
