/**
 * Encryption at rest. Values are opened (decrypted) where they enter a cache and sealed (encrypted) where they leave
 * for etcd. Everything in between (other processes, NATS) has them in their stored form.
 *
 * If none of the encryption keys can decrypt a value, the value is not left out and the read does not fail. The value
 * is marked as `sealed`, and the cache decides which requests cannot be answered because of it.
 */
import type { Batch, Key, KeyEvent, KeyValue } from './event.js'

export interface ValueTransform {
  /** Returns a promise only if a key must be fetched. Never rejects. */
  open(keyValue: KeyValue): KeyValue | Promise<KeyValue>
  /** @throws StatusError when values cannot be sealed now. */
  seal(key: Key, value: Buffer): Buffer | Promise<Buffer>
}

type Opener = Pick<ValueTransform, 'open'>

/** Opens values in order. Returns a promise only if a key must be fetched. */
export function openAll(
  transform: Opener,
  keyValues: readonly KeyValue[],
): readonly KeyValue[] | Promise<readonly KeyValue[]> {
  return mapped(keyValues, (keyValue) => transform.open(keyValue))
}

/** Opens the values of events in order. Returns a promise only if a key must be fetched. */
export function openBatches(
  transform: Opener,
  batches: readonly Batch[],
): readonly Batch[] | Promise<readonly Batch[]> {
  return mapped(batches, (batch) => {
    const events = mapped(batch.events, (event) => openEvent(transform, event))
    return then(events, (opened) => (opened === batch.events ? batch : { ...batch, events: opened }))
  })
}

function openEvent(transform: Opener, event: KeyEvent): KeyEvent | Promise<KeyEvent> {
  if (event.type === 'delete') return event
  return then(transform.open(event.keyValue), (keyValue) =>
    keyValue === event.keyValue ? event : { type: 'put', keyValue },
  )
}

function then<T, R>(value: T | Promise<T>, map: (value: T) => R): R | Promise<R> {
  return value instanceof Promise ? value.then(map) : map(value)
}

/** Transforms the items one after another. Returns the array itself if nothing changes. */
function mapped<T>(items: readonly T[], map: (item: T) => T | Promise<T>): readonly T[] | Promise<readonly T[]> {
  let results: T[] | null = null
  for (let i = 0; i < items.length; i++) {
    const item = items[i]!
    const result = map(item)
    if (result instanceof Promise) return rest(items, i, result, results ?? items.slice(0, i), map)
    if (result !== item) results ??= items.slice(0, i)
    results?.push(result)
  }
  return results ?? items
}

async function rest<T>(
  items: readonly T[],
  from: number,
  first: Promise<T>,
  results: T[],
  map: (item: T) => T | Promise<T>,
): Promise<readonly T[]> {
  results.push(await first)
  for (const item of items.slice(from + 1)) {
    const result = map(item)
    results.push(result instanceof Promise ? await result : result)
  }
  return results
}
