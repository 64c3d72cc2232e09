/** The paths and parameters of a reflector's requests. */
import type { ReflectorEffect } from './reflector-state.js'

/** Which objects are listed and watched. */
export interface Selection {
  /** The path of the resource: `/api/v1/pods`, `/apis/apps/v1/namespaces/shop/deployments`. */
  readonly path: string
  readonly labelSelector?: string
  readonly fieldSelector?: string
  /** For a resource with a declared prefix: selects only objects whose keys continue with this text, such as `eu/`. */
  readonly prefix?: string
  /** Parameters sent unchanged with every request, such as distributary's `fields`. */
  readonly parameters?: Readonly<Record<string, string>>
}

type Query = Readonly<Record<string, string>>

export function listQuery(selection: Selection, resourceVersion: string, limit: number, continueToken: string): Query {
  return {
    ...selectionQuery(selection),
    ...(limit === 0 ? {} : { limit: String(limit) }),
    // The token contains the resourceVersion; a request with both is rejected.
    ...(continueToken !== '' ? { continue: continueToken } : resourceVersion === '' ? {} : { resourceVersion }),
  }
}

export function watchQuery(
  selection: Selection,
  { kind, resourceVersion }: Extract<ReflectorEffect, { kind: 'stream' | 'watch' }>,
  timeoutSeconds: number,
): Query {
  return {
    ...selectionQuery(selection),
    watch: '1',
    allowWatchBookmarks: 'true',
    timeoutSeconds: String(timeoutSeconds),
    ...(resourceVersion === '' ? {} : { resourceVersion }),
    ...(kind === 'stream' ? { sendInitialEvents: 'true', resourceVersionMatch: 'NotOlderThan' } : {}),
  }
}

/** Returns the parameters that select objects, which are the same for lists and watches. */
export function selectionQuery({ labelSelector, fieldSelector, prefix, parameters }: Selection): Query {
  return {
    ...parameters,
    ...(labelSelector === undefined || labelSelector === '' ? {} : { labelSelector }),
    ...(fieldSelector === undefined || fieldSelector === '' ? {} : { fieldSelector }),
    ...(prefix === undefined || prefix === '' ? {} : { prefix }),
  }
}
