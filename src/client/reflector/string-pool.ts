/**
 * Lets equal strings of many objects share one copy, such as images, node names, owners, timestamps and field managers.
 * `JSON.parse` creates a separate string for each of them, which takes a large part of the memory of a store with
 * 100,000 objects. (V8 shares only strings of up to ten characters.)
 *
 * The pool forgets everything when it is full, so it finds only strings that recur soon. Strings that are unique to an
 * object therefore cost a little time but no memory.
 */
export class StringPool {
  #strings = new Map<string, string>()

  /** Replaces strings inside the tree, which must not be in use anywhere else yet. */
  share(tree: object): void {
    if (Array.isArray(tree)) this.#shareItems(tree as unknown[])
    else this.#shareMembers(tree as Record<string, unknown>)
  }

  #shareItems(items: unknown[]): void {
    for (let i = 0; i < items.length; i++) {
      const item = items[i]
      if (typeof item === 'string') items[i] = this.#shared(item)
      else if (typeof item === 'object' && item !== null) this.share(item)
    }
  }

  #shareMembers(members: Record<string, unknown>): void {
    for (const name in members) {
      const value = members[name]
      if (typeof value === 'string') {
        if (value.length > SHARED_BY_V8 && value.length <= MAX_LENGTH && name !== 'uid' && name !== 'name') {
          members[name] = this.#shared(value)
        }
      } else if (typeof value === 'object' && value !== null) this.share(value)
    }
  }

  #shared(text: string): string {
    if (text.length <= SHARED_BY_V8 || text.length > MAX_LENGTH) return text
    const known = this.#strings.get(text)
    if (known !== undefined) return known
    if (this.#strings.size >= MAX_STRINGS) this.#strings = new Map()
    this.#strings.set(text, text)
    return text
  }
}

const SHARED_BY_V8 = 10
/** Longer strings cost more to compare, and rarely recur. */
const MAX_LENGTH = 128
const MAX_STRINGS = 4_096
