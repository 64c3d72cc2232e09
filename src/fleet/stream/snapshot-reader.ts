/** Reads snapshots for a subscriber, remembers unreadable ones, and does not retry them. */
import type { Batch, Key, KeyValue } from '../../engine/model/event.js'
import type { Revision } from '../../engine/model/revision.js'
import { BrokerError } from '../broker.js'
import type { SnapshotEntry, SnapshotStore } from './snapshot-store.js'

/** The most unreadable snapshots remembered. */
const MOST_UNUSABLE = 64

export class SnapshotReader {
  readonly #store: SnapshotStore
  readonly #onUnusable: (name: string, reason: string) => void
  readonly #unusable = new Set<string>()

  constructor(store: SnapshotStore, onUnusable: (name: string, reason: string) => void) {
    this.#store = store
    this.#onUnusable = onUnusable
  }

  isUsable(name: string): boolean {
    return !this.#unusable.has(name)
  }

  /** Returns the snapshots that may be readable, in ascending order of sequence. @throws BrokerError */
  async index(): Promise<readonly SnapshotEntry[]> {
    return (await this.#store.index()).filter(({ name }) => this.isUsable(name))
  }

  /** @throws BrokerError */
  async *pages(entry: Pick<SnapshotEntry, 'name' | 'keys'>): AsyncGenerator<readonly KeyValue[]> {
    try {
      yield* this.#store.read(entry)
    } catch (error) {
      if (!(error instanceof BrokerError) || (error.code !== 'corrupt' && error.code !== 'not-found')) throw error
      if (this.#unusable.size >= MOST_UNUSABLE) this.#unusable.clear()
      this.#unusable.add(entry.name)
      this.#onUnusable(entry.name, error.message)
      throw error
    }
  }

  /**
   * Whether the snapshot can be a later state of the history that the batch belongs to: it holds none of the batch's keys at
   * an older revision, and no key that the batch deleted from before the batch. @throws BrokerError
   */
  async canFollow(entry: SnapshotEntry, batch: Batch): Promise<boolean> {
    const expected = new Map<Key, Revision | null>()
    for (const event of batch.events) {
      if (event.type === 'put') expected.set(event.keyValue.key, event.keyValue.modRevision)
      else expected.set(event.key, null)
    }
    for await (const page of this.pages(entry)) {
      for (const { key, modRevision } of page) {
        const ours = expected.get(key)
        if (ours === undefined) continue
        if (ours === null ? modRevision < batch.revision : modRevision < ours) return false
      }
    }
    return true
  }
}
