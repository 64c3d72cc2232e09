/**
 * The part of a served resource that the engine knows. The server knows more (columns, schemas, versions); the engine passes
 * that through and never reads it.
 */
import type { Resource } from './resource.js'

export interface Served {
  readonly resource: Resource
  /** Whatever gives its objects their form; null when nothing does, so that a replaced entry shows them as before. */
  readonly definition: object | null
}

export interface ServedChange<S extends Served> {
  readonly added: readonly S[]
  readonly removed: readonly S[]
}

/** The resources that are served now. */
export interface ServedList<S extends Served> {
  list(): readonly S[]
  /** The listener is called synchronously, after the change. @returns a function that removes it. */
  onChange(listener: (change: ServedChange<S>) => void): () => void
}
