/**
 * Reads members of an object parsed from JSON that may have any shape. A reader never throws, but returns the empty
 * value of its type. Only own members are read, so that no key of a user's object reaches a prototype.
 */

export type Fields = Readonly<Record<string, unknown>>

/** Whether the value is an object, and not an array. */
export function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Returns the member at a path. Without a path, this and the other readers use the value itself. */
export function field(value: unknown, ...path: readonly string[]): unknown {
  let at = value
  for (const name of path) at = member(at, name)
  return at
}

/**
 * Returns one member, as one step of `field` does. A selector may have 20,000 terms, and creating a path array for each
 * would take several times as long.
 */
export function member(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
  return (value as Record<string, unknown>)[name]
}

/** Returns '' for anything but a string. */
export function textAt(value: unknown, ...path: readonly string[]): string {
  const found = field(value, ...path)
  return typeof found === 'string' ? found : ''
}

/** Returns undefined for anything but a number. */
export function numberAt(value: unknown, ...path: readonly string[]): number | undefined {
  const found = field(value, ...path)
  return typeof found === 'number' ? found : undefined
}

/** Returns 0 for anything but a number, which is what an omitted count means. */
export function countAt(value: unknown, ...path: readonly string[]): number {
  return numberAt(value, ...path) ?? 0
}

export function isTrue(value: unknown, ...path: readonly string[]): boolean {
  return field(value, ...path) === true
}

export function has(value: unknown, ...path: readonly string[]): boolean {
  const found = field(value, ...path)
  return found !== undefined && found !== null
}

export function listAt(value: unknown, ...path: readonly string[]): readonly unknown[] {
  const found = field(value, ...path)
  return Array.isArray(found) ? found : []
}

/** Returns the strings in a list. */
export function textsAt(value: unknown, ...path: readonly string[]): readonly string[] {
  return listAt(value, ...path).filter((item) => typeof item === 'string')
}

export function entriesAt(value: unknown, ...path: readonly string[]): readonly (readonly [string, unknown])[] {
  const found = field(value, ...path)
  return isObject(found) ? Object.entries(found) : []
}

/** Returns a number or a string as text, as Quantity and IntOrString are written, and `otherwise` for other values. */
export function scalarAt(otherwise: string, value: unknown, ...path: readonly string[]): string {
  const found = field(value, ...path)
  return typeof found === 'string' || typeof found === 'number' ? String(found) : otherwise
}
