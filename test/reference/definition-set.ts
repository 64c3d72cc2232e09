/** A set of definitions with the objects that are made of them, and how both change in the course of a run. */
import type { Definition } from './definition.js'
import type { Random } from './random.js'

export interface DefinitionSet {
  readonly definitions: readonly Definition[]
  /** While watches run, one after another. */
  readonly changes: readonly Change[]
  /** By plural: how many are posted before anything is asked. */
  readonly counts: Readonly<Record<string, number>>
  /** By plural: of every resource that the API server can write. */
  readonly makers: Readonly<Record<string, Make>>
  /** What is written into etcd by hand. */
  readonly stored: readonly Stored[]
  /** By field label: what it is worth selecting by. */
  readonly values: Readonly<Record<string, readonly string[]>>
}

export interface Change {
  readonly what: string
  /** As it is from then on. */
  readonly definition: Definition
  /** It is deleted, and with it everything that was made of it. */
  readonly isDeleted?: boolean
}

/** The members beside apiVersion, kind and metadata, as JSON text: much of it would not survive a JavaScript object. */
export type Make = (random: Random, index: number) => Made

export interface Made {
  readonly version: string
  /** More members of the metadata. */
  readonly metadata?: Record<string, string>
  readonly rest: string
  /** A merge patch for /status. */
  readonly status?: string
}

export interface Stored {
  /** Below the prefix of all keys. */
  readonly key: string
  readonly value: string
}
