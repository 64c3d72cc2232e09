/**
 * Describes how the objects of one definition are read. The schema of the stored version prunes them and fills in
 * defaults; then the schema of the shown version prunes them again. Defaults come only from the stored version, as in
 * the API server.
 */
import type { StoredObject } from '../../engine/model/stored-object.js'
import type { DefinedSchema } from './defined-schema.js'
import { type Spliceable, scanObject } from './json-scan.js'
import { encodeJsonTree, hasUsualNumbers, isRecord, type Json, type JsonRecord, parseJsonTree } from './json-tree.js'
import { orderlyMetadata } from './object-metadata.js'
import { coerceEmbedded, fillDefaults, pruneNulls, pruneUnknown, type Structural } from './structural-change.js'

export interface ReadRulesOptions {
  readonly group: string
  readonly kind: string
  /**
   * Schemas by version, including versions that are not served. A version without a schema has undefined, and its
   * objects keep only type and metadata.
   */
  readonly schemas: Readonly<Record<string, DefinedSchema | undefined>>
  /** Only old definitions can set this. */
  readonly preservesUnknownFields: boolean
}

export class ReadRules {
  readonly #options: ReadRulesOptions

  constructor(options: ReadRulesOptions) {
    this.#options = options
  }

  /** Whether these rules apply to objects of that type at all. */
  appliesTo({ schemaVersion, typeName }: Pick<StoredObject, 'schemaVersion' | 'typeName'>): boolean {
    return typeName === this.#options.kind && schemaVersion.startsWith(`${this.#options.group}/`)
  }

  /**
   * Reads a whole object that has no resourceVersion. Plain `JSON.parse` is enough to find out whether anything
   * changes, at a fraction of the cost of a lossless tree. The tree is built only if something changes and the object
   * has numbers that JavaScript may print differently.
   *
   * @param stored its current apiVersion.
   * @param shown the requested apiVersion.
   * @returns the changed object; null when nothing changes except perhaps `apiVersion`, so that the bytes can stay.
   */
  readJson(json: Buffer, stored: string, shown: string): Spliceable | null {
    const text = json.toString()
    const mayHoldNulls = text.includes('null')
    const plain = JSON.parse(text) as JsonRecord
    if (!this.#read(plain, stored, shown, mayHoldNulls)) return null
    plain['apiVersion'] = shown
    const hasLongDefaults = this.#schemaOf(stored)?.hasLongNumbers === true
    if (!hasLongDefaults && hasUsualNumbers(text)) return scanObject(Buffer.from(JSON.stringify(plain)))
    const tree = parseJsonTree(json).value as JsonRecord
    this.#read(tree, stored, shown, mayHoldNulls)
    tree['apiVersion'] = shown
    return scanObject(encodeJsonTree(tree))
  }

  /** Changes the object in place. @returns whether anything was changed. */
  #read(object: JsonRecord, stored: string, shown: string, mayHoldNulls: boolean): boolean {
    let isChanged = this.#prune(object, stored, mayHoldNulls)
    isChanged = this.#tidy(object) || isChanged
    const schema = this.#schemaOf(stored)
    if (schema !== null) isChanged = fillDefaults(object, schema) || isChanged
    // Defaults may contain nulls.
    return shown === stored ? isChanged : this.#prune(object, shown, true) || isChanged
  }

  #prune(object: JsonRecord, apiVersion: string, mayHoldNulls: boolean): boolean {
    const schema = this.#schemaOf(apiVersion)
    // Definitions of v1 have a schema for every version. Without a schema, no field counts as unknown.
    if (schema === null) return false
    let isChanged = false
    if (!this.#options.preservesUnknownFields) {
      isChanged = pruneUnknown(object, schema, true)
      if (mayHoldNulls) isChanged = pruneNulls(object, schema) || isChanged
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
    // Very old objects have no generation.
    if (!hasGeneration) orderly['generation'] = 1
    return true
  }

  #schemaOf(apiVersion: string): Structural | null {
    const version = apiVersion.slice(this.#options.group.length + 1)
    const { schemas } = this.#options
    return (Object.hasOwn(schemas, version) ? schemas[version]?.structural : null) ?? null
  }
}
