/**
 * The part of a served resource that the engine knows. The server knows more (columns, schemas, versions), which the
 * engine passes through without reading it.
 */
import type { Resource } from './resource.js'

export interface Served {
  readonly resource: Resource
  /**
   * The definition by which the objects are interpreted. null if there is none; when such an entry is replaced, its
   * objects look the same as before.
   */
  readonly definition: object | null
  /**
   * Whether every request reads the source, because the objects cached under the prefix cannot be shown as this
   * resource.
   */
  readonly isUncached?: boolean
}

export interface ServedChange<S extends Served> {
  readonly added: readonly S[]
  readonly removed: readonly S[]
}

/** The resources served now. */
export interface ServedList<S extends Served> {
  list(): readonly S[]
  /** Calls the listener synchronously, after each change. @returns a function that removes it. */
  onChange(listener: (change: ServedChange<S>) => void): () => void
}
