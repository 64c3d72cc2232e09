/**
 * How the objects of one definition are read: pruned and filled in as the version says in which they are stored, and
 * pruned once more as the one says in which they are shown. Defaults are those of the stored version alone, as in the
 * API server.
 */
import type { DefinedSchema } from './defined-schema.js'
import { isRecord, type Json, type JsonRecord } from './json-tree.js'
import { orderlyMetadata } from './object-metadata.js'
import { coerceEmbedded, fillDefaults, pruneNulls, pruneUnknown, type Structural } from './structural-change.js'

export interface ReadRulesOptions {
  readonly group: string
  readonly kind: string
  /**
   * By version, those that are not served included. undefined: the version has none, and keeps type and metadata alone.
   */
  readonly schemas: Readonly<Record<string, DefinedSchema | undefined>>
  /** Definitions of old may say so. */
  readonly preservesUnknownFields: boolean
}

export class ReadRules {
  readonly #options: ReadRulesOptions

  constructor(options: ReadRulesOptions) {
    this.#options = options
  }

  /** Whether objects of that type are read by them at all. */
  appliesTo({ apiVersion, kind }: { readonly apiVersion: string; readonly kind: string }): boolean {
    return kind === this.#options.kind && apiVersion.startsWith(`${this.#options.group}/`)
  }

  /**
   * Changes the object in place.
   *
   * @param object whole, without a resourceVersion; a lossless tree, or what `JSON.parse` gives when it is only looked
   * at.
   * @param stored the apiVersion that it has. @param shown the one that it is to have; its `apiVersion` is left to
   * others.
   * @returns whether anything was changed.
   */
  read(object: JsonRecord, stored: string, shown: string): boolean {
    let isChanged = this.#prune(object, stored)
    isChanged = this.#tidy(object) || isChanged
    const schema = this.#schemaOf(stored)
    if (schema !== null) isChanged = fillDefaults(object, schema) || isChanged
    return shown === stored ? isChanged : this.#prune(object, shown) || isChanged
  }

  /** Whether it may fill in numbers that only a lossless tree can hold. @param stored the apiVersion of the object. */
  fillsLongNumbers(stored: string): boolean {
    return this.#schemaOf(stored)?.hasLongNumbers === true
  }

  #prune(object: JsonRecord, apiVersion: string): boolean {
    const schema = this.#schemaOf(apiVersion)
    // Definitions of v1 have a schema for every version; where there is none, nothing says what is unknown.
    if (schema === null) return false
    let isChanged = false
    if (!this.#options.preservesUnknownFields) {
      isChanged = pruneUnknown(object, schema, true)
      isChanged = pruneNulls(object, schema) || isChanged
    }
    return coerceEmbedded(object, schema) || isChanged
  }

  #tidy(object: JsonRecord): boolean {
    const metadata: Json | undefined = object['metadata']
    if (!isRecord(metadata)) return false
    const orderly = orderlyMetadata(metadata)
    const hasGeneration = Object.hasOwn(orderly, 'generation')
    if (hasGeneration && orderly === metadata) return false
    object['metadata'] = orderly
    // Very old objects have none.
    if (!hasGeneration) orderly['generation'] = 1
    return true
  }

  #schemaOf(apiVersion: string): Structural | null {
    const version = apiVersion.slice(this.#options.group.length + 1)
    const { schemas } = this.#options
    return (Object.hasOwn(schemas, version) ? schemas[version]?.structural : null) ?? null
  }
}
