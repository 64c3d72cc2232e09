/**
 * The port through which the engine reads facts from objects for selectors. The dialect says what its fields mean; the
 * engine itself knows none of them.
 */
import type { StoredObject } from './stored-object.js'

/** Paths with a meaning, in the notation of `engine/facts/field-path.ts`. */
export interface FactPaths {
  /** The fields of an object's name and scope. Its key contains both. */
  readonly name: string
  readonly scope: string
  /** Fields that selectors of every deployment read. They count towards no caller's share of the columns. */
  readonly common: ReadonlySet<string>
}

export interface FactSource {
  readonly paths: FactPaths
  /**
   * Returns the object as JSON, or null when the object cannot be read. With `onlyAttributes`, the result for an object
   * not stored as JSON may have nothing but attributes.
   *
   * @param schemaVersion the version in which to read the object; '' for the stored version.
   */
  json(object: StoredObject, onlyAttributes: boolean, schemaVersion: string): Buffer | null
  /** Distinguishes an object from earlier ones with its name; '' for an object without an identity. */
  identity(object: StoredObject): string
}
