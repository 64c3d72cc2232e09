/** Snapshots of a `LiveList`: a framework compares one with the next to see whether anything changed. */
import type { InvalidObject } from './values.js'

/** How current the shown state is. */
export interface Shown {
  /** Whether there is a state to show, either the server's or a saved one. */
  readonly isLoaded: boolean
  /** Whether this is the server's current state, kept up to date. Otherwise it is the last known state. */
  readonly isLive: boolean
  /** Whether the server denied access (401, 403). If so, nothing is shown. */
  readonly isRefused: boolean
  /** Why there is no connection; null while there is a connection, and before the first attempt has failed. */
  readonly reason: string | null
}

/** All objects, ordered by namespace and name. */
export interface ListSnapshot<T> extends Shown {
  readonly items: readonly T[]
  /** Objects that `validate` rejected, which are not among the items. */
  readonly invalid: readonly InvalidObject[]
}

/** One object. */
export interface ObjectSnapshot<T> extends Shown {
  /** undefined if there is no such object. */
  readonly object: T | undefined
  /** Set when `validate` rejected it. */
  readonly invalid: InvalidObject | undefined
}

/** The snapshot before any data has arrived, and during server-side rendering. */
export const NOTHING: ListSnapshot<never> = Object.freeze({
  items: [],
  invalid: [],
  isLoaded: false,
  isLive: false,
  isRefused: false,
  reason: null,
})

export const NO_OBJECT: ObjectSnapshot<never> = Object.freeze({
  object: undefined,
  invalid: undefined,
  isLoaded: false,
  isLive: false,
  isRefused: false,
  reason: null,
})
