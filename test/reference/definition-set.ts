/** A set of definitions with their objects, and how both change during a run. */
import type { Definition } from '../support/definition.js'
import type { Random } from './random.js'

export interface DefinitionSet {
  readonly definitions: readonly Definition[]
  /** Changes that are made one after another while watches run. */
  readonly changes: readonly Change[]
  /** The number of objects to create before the first question, by plural. */
  readonly counts: Readonly<Record<string, number>>
  /** Functions that make objects, by plural, for every resource that the API server can write. */
  readonly makers: Readonly<Record<string, Make>>
  /** Values written directly into etcd. */
  readonly stored: readonly Stored[]
  /** Values worth selecting by, by field label. */
  readonly values: Readonly<Record<string, readonly string[]>>
}

export interface Change {
  readonly what: string
  /** The new definition. */
  readonly definition: Definition
  /** Whether the definition is deleted, together with all its objects. */
  readonly isDeleted?: boolean
}

/**
 * The members other than apiVersion, kind and metadata, as JSON text: much of it would not survive a JavaScript object.
 */
export type Make = (random: Random, index: number) => Made

export interface Made {
  readonly version: string
  /** Further members of the metadata. */
  readonly metadata?: Record<string, string>
  readonly rest: string
  /** A merge patch for /status. */
  readonly status?: string
}

export interface Stored {
  /** Relative to the prefix of all keys. */
  readonly key: string
  readonly value: string
}
