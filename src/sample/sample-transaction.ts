/** Reads the sample cluster's objects, and writes all changes to them at one revision. */
import { type Batch, type Key, type KeyValue, keyFromText } from '../engine/model/event.js'
import type { WriteOperation } from '../engine/upstream/upstream.js'

/** The part of the embedded upstream that the sample cluster needs. */
export interface SampleStore {
  /** Returns the current keys and values under the prefix, sorted by key. */
  peek(prefix: Key): readonly KeyValue[]
  commit(operations: readonly WriteOperation[]): Batch | null
}

export interface Stored {
  metadata: { name: string; namespace: string; labels?: Record<string, string> }
}

export class SampleTransaction {
  /** null means deleted. */
  readonly #changes = new Map<Key, Stored | null>()

  constructor(private readonly store: SampleStore) {}

  /** Returns the objects under a path, including pending changes. Skips values that are not objects. */
  list<T extends Stored>(path: string): T[] {
    const prefix = keyFromText(`/registry/${path}/`)
    const stored = this.store.peek(prefix).map(({ key, value }) => [key, parse(value)] as const)
    const changed = [...this.#changes].filter(([key]) => key.startsWith(prefix))
    return [...new Map([...stored, ...changed]).values()].filter((object) => object !== null) as T[]
  }

  put(path: string, object: Stored): void {
    this.#changes.set(keyOf(path, object), object)
  }

  remove(path: string, object: Stored): void {
    this.#changes.set(keyOf(path, object), null)
  }

  commit(): void {
    const operations = [...this.#changes].map(([key, object]): WriteOperation =>
      object === null ? { type: 'delete', key } : { type: 'put', key, value: Buffer.from(JSON.stringify(object)) },
    )
    if (operations.length > 0) this.store.commit(operations)
  }
}

function keyOf(path: string, { metadata: { namespace, name } }: Stored): Key {
  return keyFromText(`/registry/${path}/${namespace}/${name}`)
}

/** Returns null if the value is not an object with a name. */
function parse(value: Buffer): Stored | null {
  try {
    const object = JSON.parse(value.toString('utf8')) as Partial<Stored> | null
    return typeof object?.metadata?.name === 'string' ? (object as Stored) : null
  } catch {
    return null
  }
}
