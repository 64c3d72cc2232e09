/** Values that are created when they are first needed, and then kept. */

interface Kept<K, V> {
  get(key: K): V | undefined
  set(key: K, value: V): unknown
}

/** Returns the value of a key, and creates it if there is none. */
export function getOrMake<K, V>(kept: Kept<K, V>, key: K, make: (key: K) => V): V {
  const known = kept.get(key)
  if (known !== undefined) return known
  const made = make(key)
  kept.set(key, made)
  return made
}

/** Returns a function that computes its value once for each object, and keeps it for as long as the object lives. */
export function oncePer<K extends object, V>(make: (key: K) => V): (key: K) => V {
  const kept = new WeakMap<K, V>()
  return (key) => getOrMake(kept, key, make)
}
