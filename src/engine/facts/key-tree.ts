/**
 * A tree of the keys that lead to the wanted fields of an object. It is compiled so that a walk over JSON text needs
 * only a few byte comparisons to tell whether a key is in the tree. Keys never become property names, so `__proto__` is
 * a key like any other.
 */
import { decodeString, stringEquals } from './json-strings.js'

/** With more children than this, a map lookup is faster than comparing bytes with each child. */
const MAX_COMPARED_CHILDREN = 8

export class KeyTree<Data> {
  readonly children: KeyTree<Data>[] = []
  /**
   * The number of the last walk that met this key. If the same walk meets the key again, the key is a duplicate. See
   * `nextWalk`.
   */
  seenInWalk = 0
  private readonly keyBytes: Buffer
  private readonly byKey = new Map<string, KeyTree<Data>>()

  constructor(
    readonly key: string,
    readonly data: Data,
  ) {
    this.keyBytes = Buffer.from(key)
  }

  child(key: string, newData: () => Data): KeyTree<Data> {
    const found = this.byKey.get(key)
    if (found !== undefined) return found
    const child = new KeyTree(key, newData())
    this.children.push(child)
    this.byKey.set(key, child)
    return child
  }

  /** @param start the index of the key's opening quote in `json`. @param end the index after its closing quote. */
  find(json: Buffer, start: number, end: number): KeyTree<Data> | null {
    const { children } = this
    if (children.length > MAX_COMPARED_CHILDREN) return this.byKey.get(decodeString(json, start, end)) ?? null
    for (const child of children) {
      if (stringEquals(json, start, end, child.key, child.keyBytes)) return child
    }
    return null
  }
}

let walk = 0

/** Returns a number that no earlier walk had. Walks are synchronous, so only one walk at a time marks a tree. */
export function nextWalk(): number {
  walk++
  return walk
}
