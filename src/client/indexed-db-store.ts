/**
 * Saved states in a browser's IndexedDB. All tabs of one origin share them. Each write is one transaction, so if
 * several tabs write, the last state wins as a whole.
 */
import type { StateStore } from './saved-state.js'

/** How much `indexedDbStore` keeps, and where. */
export interface IndexedDbStoreOptions {
  /** The name of the database. Default: distributary. */
  readonly name?: string
  /** The limit for all states together. Beyond it, the states saved longest ago are removed. Default: 64 MiB. */
  readonly maxBytes?: number
}

/** Sizes are stored separately from the states, so that finding the oldest state does not read all of them. */
interface Size {
  readonly key: string
  readonly bytes: number
  readonly savedMs: number
}

// The part of IndexedDB that is used here, because Node's types do not include it.
interface DatabaseRequest<R> {
  readonly result: R
  readonly error: unknown
  onsuccess: (() => void) | null
  onerror: (() => void) | null
}
interface Opening extends DatabaseRequest<Database> {
  onupgradeneeded: (() => void) | null
}
interface Database {
  createObjectStore(name: string): void
  transaction(names: readonly string[], mode: 'readonly' | 'readwrite'): Transaction
  close(): void
  onversionchange: (() => void) | null
  onclose: (() => void) | null
}
interface Transaction {
  objectStore(name: string): ObjectStore
  readonly error: unknown
  oncomplete: (() => void) | null
  onabort: (() => void) | null
}
interface ObjectStore {
  get(key: string): DatabaseRequest<unknown>
  getAll(): DatabaseRequest<unknown>
  put(value: unknown, key: string): void
  delete(key: string): void
  clear(): void
}
interface Factory {
  open(name: string, version: number): Opening
}

const STATES = 'states'
const SIZES = 'sizes'

/** Keeps states in the browser. */
export function indexedDbStore({
  name = 'distributary',
  maxBytes = 64 * 2 ** 20,
}: IndexedDbStoreOptions = {}): StateStore {
  let opened: Promise<Database> | null = null
  const database = (): Promise<Database> => {
    opened ??= openDatabase(name, () => (opened = null))
    opened.catch(() => (opened = null))
    return opened
  }
  const write = async (work: (states: ObjectStore, sizes: ObjectStore) => void): Promise<void> => {
    const transaction = (await database()).transaction([STATES, SIZES], 'readwrite')
    await new Promise<void>((resolve, reject) => {
      transaction.oncomplete = () => resolve()
      transaction.onabort = () => reject(transaction.error)
      work(transaction.objectStore(STATES), transaction.objectStore(SIZES))
    })
  }
  const remove = (key: string): Promise<void> =>
    write((states, sizes) => {
      states.delete(key)
      sizes.delete(key)
    })
  return {
    remove,
    async load(key) {
      const request = (await database()).transaction([STATES], 'readonly').objectStore(STATES).get(key)
      const bytes = await resultOf(request)
      return bytes instanceof Uint8Array ? new TextDecoder().decode(bytes) : null
    },
    async save(key, text) {
      const bytes = new TextEncoder().encode(text)
      if (bytes.length > maxBytes) {
        // An older state must not stay either, because it would become more and more outdated.
        await remove(key)
        throw new Error(`a state of ${bytes.length} bytes is larger than the limit of ${maxBytes}`)
      }
      await write((states, sizes) => {
        states.put(bytes, key)
        const request = sizes.getAll()
        request.onsuccess = () => {
          const others = (request.result as Size[]).filter((size) => size.key !== key)
          let total = others.reduce((sum, size) => sum + size.bytes, bytes.length)
          for (const old of others.toSorted((a, b) => a.savedMs - b.savedMs)) {
            if (total <= maxBytes) break
            states.delete(old.key)
            sizes.delete(old.key)
            total -= old.bytes
          }
        }
        sizes.put({ key, bytes: bytes.length, savedMs: Date.now() } satisfies Size, key)
      })
    },
    clear: () =>
      write((states, sizes) => {
        states.clear()
        sizes.clear()
      }),
  }
}

/**
 * @param onGone called when the connection ends because the browser deleted the data, or because a later release of the
 * page opened the database.
 */
async function openDatabase(name: string, onGone: () => void): Promise<Database> {
  const { indexedDB } = globalThis as { readonly indexedDB?: Factory }
  if (indexedDB === undefined) throw new Error('IndexedDB is not available here')
  const opening = indexedDB.open(name, 1)
  opening.onupgradeneeded = () => {
    opening.result.createObjectStore(STATES)
    opening.result.createObjectStore(SIZES)
  }
  const database = await resultOf(opening)
  database.onclose = onGone
  database.onversionchange = () => {
    database.close()
    onGone()
  }
  return database
}

function resultOf<R>(request: DatabaseRequest<R>): Promise<R> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result)
    request.onerror = () => reject(request.error)
  })
}
