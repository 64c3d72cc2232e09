/**
 * Keeps whole states in the object store, and an index that lists them with the place of each in the stream.
 *
 * The index is one value next to the leases, so that a new edge reads it with one request. It is sorted in stream
 * order. The oldest snapshot whose following messages are still in the stream is kept, because an edge that starts
 * there replays as much history as there is.
 */
import { isSamePut, type KnownHistory } from '../../engine/feed/history-fingerprint.js'
import type { KeyValue } from '../../engine/model/event.js'
import { type Revision, toRevision } from '../../engine/model/revision.js'
import { recentEntries } from '../../support/recent-entries.js'
import { ByteReader, ByteWriter } from '../byte-codec.js'
import { readKeyValue, writeKeyValue } from '../key-value-codec.js'
import { BrokerError, type Bucket } from '../broker.js'
import type { StreamPlace } from './message.js'
import type { Names } from './names.js'
import type { Envelope } from './signed-envelope.js'

/** The snapshot holds everything up to its place in the stream. */
export interface SnapshotEntry extends StreamPlace {
  readonly name: string
  readonly settled: Revision
  /** null if the number is unknown. */
  readonly keys: number | null
  readonly trustsProgress: boolean
  /**
   * When etcd had the content, as far as the publisher knows and by its clock. Absent for a state read from the stream,
   * which is not in the index.
   */
  readonly takenAt?: number
}

/**
 * Returns the time at which etcd had the content of a snapshot, by its publisher's clock. The time comes from the
 * index, or else from the snapshot's name; null if neither contains it.
 */
export function takenAtOf({ name, takenAt }: Pick<SnapshotEntry, 'name' | 'takenAt'>): number | null {
  if (takenAt !== undefined) return takenAt
  const madeAt = Number.parseInt(name.match(/\/\d+-\d+-([0-9a-z]+)$/)?.[1] ?? '', 36)
  return Number.isSafeInteger(madeAt) ? madeAt : null
}

/** The number of snapshots to keep: the oldest useful one and the newest ones. */
const KEPT = 4
const PAGE_KEYS = 1_000
const CHUNK_BYTES = 128 * 1024
const INDEX_ATTEMPTS = 5
/** The most unreadable snapshots remembered. */
const MOST_UNUSABLE = 64

/** Encodes a state page by page, so that only the encoded bytes are held. */
export class SnapshotWriter {
  readonly chunks: Buffer[] = []
  #writer = new ByteWriter()
  keys = 0
  bytes = 0

  add(keyValues: readonly KeyValue[]): void {
    for (const keyValue of keyValues) {
      writeKeyValue(this.#writer, keyValue)
      this.keys++
      if (this.#writer.length >= CHUNK_BYTES) this.#cut()
    }
  }

  finish(): readonly Buffer[] {
    if (this.#writer.length > 0) this.#cut()
    return this.chunks
  }

  #cut(): void {
    const chunk = this.#writer.done()
    this.chunks.push(chunk)
    this.bytes += chunk.length
    this.#writer = new ByteWriter()
  }
}

export class SnapshotStore {
  /** Snapshots that were unreadable. They are not read again. */
  readonly #unusable = recentEntries<string, true>(MOST_UNUSABLE)

  /** @param onUnusable called with the name of each unreadable snapshot. */
  constructor(
    private readonly bucket: Bucket,
    private readonly names: Names,
    private readonly envelope: Envelope,
    private readonly onUnusable: (name: string, reason: string) => void = () => {},
  ) {}

  isUsable(name: string): boolean {
    return !this.#unusable.has(name)
  }

  /** @throws BrokerError */
  async put(name: string, snapshot: SnapshotWriter): Promise<void> {
    const chunks = this.envelope.sealChunks('snapshot', name, snapshot.finish())
    await this.bucket.putObject(name, chunks)
  }

  /**
   * Yields the pages of a snapshot after verifying its checksum.
   * @throws BrokerError, also `corrupt` or `not-found`.
   */
  async *read(entry: Pick<SnapshotEntry, 'name' | 'keys'>): AsyncGenerator<readonly KeyValue[]> {
    try {
      yield* this.#pages(entry)
    } catch (error) {
      if (!(error instanceof BrokerError) || (error.code !== 'corrupt' && error.code !== 'not-found')) throw error
      this.#unusable.set(entry.name, true)
      this.onUnusable(entry.name, error.message)
      throw error
    }
  }

  /**
   * Whether the snapshot can be a state of the history that the fingerprint describes, which is complete up to
   * `position`. It must have each known put that it is late enough for, unless the key was written after `position`, and
   * no key that was deleted last.
   * @throws BrokerError
   */
  async isOfHistory(entry: SnapshotEntry, { puts, lastDelete }: KnownHistory, position: Revision): Promise<boolean> {
    const known = new Map(puts.filter((put) => put.modRevision <= entry.revision).map((put) => [put.key, put]))
    for await (const page of this.read(entry)) {
      for (const keyValue of page) {
        const { key, modRevision } = keyValue
        const put = known.get(key)
        known.delete(key)
        if (modRevision > position) continue
        if (put !== undefined && !isSamePut(put, keyValue)) return false
        if (key === lastDelete?.key && lastDelete.revision <= entry.revision) return false
      }
    }
    // After `position` a key may have been deleted.
    return known.size === 0 || entry.revision > position
  }

  async *#pages(entry: Pick<SnapshotEntry, 'name' | 'keys'>): AsyncGenerator<readonly KeyValue[]> {
    const object = await this.bucket.getObject(entry.name)
    if (object === null) throw new BrokerError('not-found', `there is no snapshot ${entry.name}`)
    const blob = this.envelope.open('snapshot', entry.name, object)
    if (blob === null) throw new BrokerError('corrupt', `snapshot ${entry.name} was not signed by this fleet`)
    const reader = new ByteReader(blob, 'copied')
    let page: KeyValue[] = []
    let keys = 0
    try {
      while (!reader.isAtEnd) {
        page.push(readKeyValue(reader))
        keys++
        if (page.length < PAGE_KEYS) continue
        yield page
        page = []
      }
    } catch (error) {
      throw error instanceof RangeError ? new BrokerError('corrupt', `snapshot ${entry.name} ends too early`) : error
    }
    if (entry.keys !== null && keys !== entry.keys) {
      throw new BrokerError('corrupt', `snapshot ${entry.name} holds ${keys} keys instead of ${entry.keys}`)
    }
    yield page
  }

  /** Returns the snapshots that may be readable, in ascending order of sequence. @throws BrokerError */
  async index(): Promise<readonly SnapshotEntry[]> {
    return (await this.#readIndex()).entries.filter(({ name }) => this.isUsable(name))
  }

  /**
   * Adds a snapshot to the index, and deletes obsolete ones.
   *
   * @param first the first sequence of the stream.
   * @param replacesAll whether the snapshot is a whole state, which makes all earlier ones useless. Those of a publisher
   * that has taken over meanwhile are kept. An earlier stream may have had later sequences and epochs, but not later
   * times.
   * @throws BrokerError
   */
  async add(entry: SnapshotEntry, first: number, replacesAll: boolean): Promise<void> {
    const isSuccessors = (other: SnapshotEntry): boolean =>
      other.sequence > entry.sequence && other.epoch > entry.epoch && (takenAtOf(other) ?? 0) >= (takenAtOf(entry) ?? 0)
    for (let attempt = 1; ; attempt++) {
      const { entries, revision } = await this.#readIndex()
      const others = entries.filter(({ name }) => name !== entry.name)
      const useful = others.filter((other) => (replacesAll ? isSuccessors(other) : other.sequence + 1 >= first))
      const sorted = [...useful, entry].sort((a, b) => a.sequence - b.sequence)
      const kept = sorted.length <= KEPT ? sorted : [...sorted.slice(0, 1), ...sorted.slice(1 - KEPT)]
      try {
        const { indexKey } = this.names
        const value = this.envelope.seal('index', indexKey, Buffer.from(JSON.stringify(kept)))
        await this.bucket.kvUpdate(indexKey, value, revision)
        for (const { name } of others) {
          if (kept.some((other) => other.name === name)) continue
          await this.bucket.deleteObject(name).catch(() => {})
        }
        return
      } catch (error) {
        if (!(error instanceof BrokerError) || error.code !== 'conflict' || attempt === INDEX_ATTEMPTS) throw error
      }
    }
  }

  async #readIndex(): Promise<{ readonly entries: readonly SnapshotEntry[]; readonly revision: number }> {
    const { indexKey } = this.names
    const found = await this.bucket.kvGet(indexKey)
    if (found === null) return { entries: [], revision: 0 }
    const index = this.envelope.open('index', indexKey, found.value)
    return { entries: index === null ? [] : readEntries(index), revision: found.revision }
  }
}

/** Returns no entries for an unreadable index, because the next snapshot writes a new one. */
function readEntries(index: Buffer): readonly SnapshotEntry[] {
  try {
    const entries = JSON.parse(index.toString('utf8')) as SnapshotEntry[]
    for (const { revision, settled } of entries) {
      toRevision(revision)
      toRevision(settled)
    }
    return entries
  } catch {
    return []
  }
}
