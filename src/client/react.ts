/**
 * `distributary/react`: hooks that use a `LiveList` in components. The resource is followed while a component that
 * shows it is mounted. Server-side rendering makes no request. It shows the state before anything is loaded, as does
 * the browser's first render.
 */
import { useMemo, useSyncExternalStore } from 'react'
import type { LiveList } from './live-list.js'
import { type ListSnapshot, NO_OBJECT, NOTHING, type ObjectSnapshot } from './live-snapshot.js'
import type { ObjectLike } from './reflector/tree-codec.js'

export type { ListSnapshot, ObjectSnapshot, Shown } from './live-snapshot.js'

/**
 * Returns all objects; the component re-renders when any of them changes.
 * @param list must be the same object in every render.
 */
export function useList<T extends ObjectLike>(list: LiveList<T>): ListSnapshot<T> {
  return useSyncExternalStore(list.subscribe, list.read, nothing)
}

/**
 * Returns one object; the component re-renders only when that object changes.
 *
 * @param list must be the same object in every render.
 * @param name the object's name; for a key of a declared prefix, `keyName('eu/checkout')`.
 * @param namespace omit for a resource without namespaces.
 */
export function useObject<T extends ObjectLike>(
  list: LiveList<T>,
  name: string,
  namespace?: string,
): ObjectSnapshot<T> {
  const read = useMemo(() => list.reader(name, namespace), [list, name, namespace])
  return useSyncExternalStore(list.subscribe, read, noObject)
}

const nothing = (): ListSnapshot<never> => NOTHING
const noObject = (): ObjectSnapshot<never> => NO_OBJECT
