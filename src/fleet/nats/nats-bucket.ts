/**
 * A key-value bucket and an object store with the same name. Both are opened or created on first use.
 *
 * Values are read only from a stream's leader. A direct get would not do, because any replica may answer it, even one
 * that is far behind.
 */
import { DiscardPolicy, type JetStreamClient, type JetStreamManager } from '@nats-io/jetstream'
import { type KV, Kvm } from '@nats-io/kv'
import { Objm, type ObjectStore } from '@nats-io/obj'
import { nanos } from 'nats'
import type { Clock } from '../../support/clock.js'
import { withDeadline } from '../../support/deadline.js'
import { BrokerError, type Bucket, type BucketLimits, type KvEntry } from '../broker.js'
import { asBrokerError, ifFound, isNoResponse } from './nats-error.js'
import { SNAPSHOT_BYTES } from '../limits.js'
import { bufferOf } from '../../support/buffer-of.js'

export interface NatsBucketOptions {
  readonly name: string
  readonly limits: BucketLimits
  readonly jetStream: JetStreamClient
  readonly manager: () => Promise<JetStreamManager>
  /** Returns the most bytes of data in one message. */
  readonly maxPayloadBytes: () => number
  /** Resolves when the server has received everything sent before. */
  readonly flushed: () => Promise<void>
  /** Called when a bucket did not answer. */
  readonly onNoResponse: () => void
  readonly clock: Clock
}

/** The longest wait for the next chunk of an object. */
const CHUNK_TIMEOUT_MS = 5_000
const CHUNK_BYTES = 128 * 1024
/**
 * How many bytes of an object may be in flight to the server. Without this limit, the library would hash and send
 * everything in one turn of the event loop, and messages published in the meantime would wait behind 50 MB of a
 * snapshot.
 */
const UNTAKEN_BYTES = 256 * 1024

export class NatsBucket implements Bucket {
  #kv: Promise<KV> | null = null
  #store: Promise<ObjectStore> | null = null

  constructor(private readonly options: NatsBucketOptions) {}

  // Values

  async kvGet(key: string): Promise<KvEntry | null> {
    return this.#attempt(async () => {
      const entry = await (await this.#openKv()).get(key)
      if (entry === null || entry.operation !== 'PUT') return null
      return { value: bufferOf(entry.value), revision: entry.revision }
    })
  }

  async kvUpdate(key: string, value: Buffer, expected: number): Promise<number> {
    return this.#attempt(async () => {
      const kv = await this.#openKv()
      return expected === 0 ? await kv.create(key, value) : await kv.update(key, value, expected)
    })
  }

  // Objects

  /** The library cuts the object into chunks and adds a SHA-256 digest of the whole. */
  async putObject(name: string, chunks: Iterable<Buffer>): Promise<void> {
    await this.#attempt(async () => {
      const store = await this.#openStore()
      await this.#raiseAge()
      const iterator = chunks[Symbol.iterator]()
      const { flushed } = this.options
      let untaken = 0
      const stream = new ReadableStream<Uint8Array>(
        {
          async pull(controller) {
            if (untaken >= UNTAKEN_BYTES) {
              await flushed()
              untaken = 0
            }
            const { done, value } = iterator.next()
            if (done === true) return controller.close()
            untaken += value.length
            controller.enqueue(value)
          },
        },
        // Chunks are produced on demand.
        { highWaterMark: 0 },
      )
      await store.put(
        { name, options: { max_chunk_size: Math.min(CHUNK_BYTES, this.options.maxPayloadBytes()) } },
        stream,
      )
    })
  }

  async getObject(name: string): Promise<Buffer | null> {
    return this.#attempt(async () => {
      const found = await (await this.#openStore()).get(name)
      if (found === null) return null
      const { info, data, error } = found
      const { size } = info
      void error.catch(() => {})
      const reader = data.getReader()
      let length = 0
      try {
        if (!(size <= SNAPSHOT_BYTES)) throw new BrokerError('corrupt', `object ${name} has ${size} bytes`)
        // The memory is taken as the chunks arrive.
        const whole = Buffer.allocUnsafeSlow(size)
        // If the chunks are missing, the library would wait for the first one forever.
        if (size > 0 && !(await this.#hasChunks(info.nuid)))
          throw new BrokerError('corrupt', `object ${name} has lost its chunks`)
        for (;;) {
          const { done, value } = await this.#inTime(reader.read(), `object ${name}: no chunk`)
          if (done) break
          if (length + value.length > size) throw new BrokerError('corrupt', `object ${name} is larger than it says`)
          whole.set(value, length)
          length += value.length
        }
        if (length !== size) throw new BrokerError('corrupt', `object ${name} has lost chunks`)
        return whole
      } finally {
        void reader.cancel().catch(() => {})
      }
    })
  }

  async deleteObject(name: string): Promise<void> {
    await this.#attempt(async () => {
      await (await this.#openStore()).delete(name)
    })
  }

  /** After a failure, the bucket may have been lost with its server, so the next call opens or creates it again. */
  async #attempt<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      const failure = asBrokerError(error)
      if (failure.code !== 'conflict') this.#kv = this.#store = null
      if (isNoResponse(failure)) this.options.onNoResponse()
      throw failure
    }
  }

  async #hasChunks(nuid: string): Promise<boolean> {
    const { manager, name } = this.options
    const { streams } = await manager()
    return (await ifFound(streams.getMessage(`OBJ_${name}`, { last_by_subj: `$O.${name}.C.${nuid}` }))) !== null
  }

  #inTime<T>(work: Promise<T>, what: string): Promise<T> {
    const late = (): Error => new BrokerError('unavailable', `${what} within ${CHUNK_TIMEOUT_MS} ms`)
    return withDeadline(this.options.clock, CHUNK_TIMEOUT_MS, undefined, late, () => work)
  }

  #openKv(): Promise<KV> {
    const { jetStream, name, limits } = this.options
    this.#kv ??= new Kvm(jetStream).create(name, { history: 1, replicas: limits.replicas, allow_direct: false })
    return this.#kv
  }

  #openStore(): Promise<ObjectStore> {
    const { jetStream, name } = this.options
    this.#store ??= this.#ensureStore().then(() => new Objm(jetStream).open(name))
    return this.#store
  }

  /**
   * Raises the age limit of a store that was created with a lower one, because streams created since then need their
   * snapshots for longer. It is never lowered, or replicas with different options would change it back and forth. This
   * precedes an upload, since only those who upload may change the store.
   */
  async #raiseAge(): Promise<void> {
    const { manager, name, limits } = this.options
    const { streams } = await manager()
    const stream = `OBJ_${name}`
    const maxAge = nanos(limits.blobAgeMs)
    const { config } = await streams.info(stream)
    if (config.max_age === 0 || config.max_age >= maxAge) return
    // The upload does not depend on it.
    await streams.update(stream, { max_age: maxAge }).catch(() => {})
  }

  /** Creates the store as the library does, but without a field that NATS 2.12 and newer reject. */
  async #ensureStore(): Promise<void> {
    const { manager, name, limits } = this.options
    const { streams } = await manager()
    const stream = `OBJ_${name}`
    if ((await ifFound(streams.info(stream))) !== null) return
    await streams.add({
      name: stream,
      subjects: [`$O.${name}.C.>`, `$O.${name}.M.>`],
      num_replicas: limits.replicas,
      max_age: nanos(limits.blobAgeMs),
      discard: DiscardPolicy.New,
      allow_rollup_hdrs: true,
      allow_direct: true,
    })
  }
}
