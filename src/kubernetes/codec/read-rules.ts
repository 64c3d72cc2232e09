/**
 * How the objects of one definition are read: pruned and filled in as the version says in which they are stored, and
 * pruned once more as the one says in which they are shown. Defaults are those of the stored version alone, as in the
 * API server.
 */
import type { DefinedSchema } from './defined-schema.js'
import { type Spliceable, scanObject } from './json-scan.js'
import { encodeJsonTree, isRecord, type Json, type JsonRecord, parseJsonTree } from './json-tree.js'
import { orderlyMetadata } from './object-metadata.js'
import { coerceEmbedded, fillDefaults, pruneNulls, pruneUnknown, type Structural } from './structural-change.js'

/** Finds numbers that may print otherwise than they are written: a fraction, an exponent, many digits, a negative zero. */
const SUSPECT_NUMBER = /(?:"\s*:|[,[])\s*((?:-0|-?\d{16}|-?\d+[.eE])[\d.eE+-]*)/g

/** Whether `JSON.stringify` prints each number of the JSON as it is written there. */
function hasUsualNumbers(json: string): boolean {
  for (const [, number] of json.matchAll(SUSPECT_NUMBER)) if (String(Number(number)) !== number) return false
  return true
}

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
   * Reads a whole object without a resourceVersion. Whether anything changes is found out without a lossless tree, at a
   * fraction of its cost, and with usual numbers alone none is needed to change it either.
   *
   * @param stored the apiVersion that it has. @param shown the one that it is to have.
   * @returns the object as it is changed; null when nothing is but perhaps `apiVersion`: then the bytes stay what they
   * are.
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
    // What was filled in may hold nulls.
    return shown === stored ? isChanged : this.#prune(object, shown, true) || isChanged
  }

  #prune(object: JsonRecord, apiVersion: string, mayHoldNulls: boolean): boolean {
    const schema = this.#schemaOf(apiVersion)
    // Definitions of v1 have a schema for every version; where there is none, nothing says what is unknown.
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
