/**
 * etcd's own history, read with a separate client: the log against which watchers of a real etcd are checked.
 *
 * It uses etcd's JSON gateway with Node's `http`, so no client of ours can hide its own mistakes. It starts before the
 * test writes, because compacted revisions cannot be read at the end; after a broken connection it resumes after the
 * last revision. It watches every key, so that a key written at the end shows that everything has arrived.
 *
 * An etcd restored from a backup has another history, which needs its own recorder.
 */
import http from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import type { Test } from 'tap'
import {
  type Batch,
  type Key,
  keyFromBytes,
  keyFromText,
  type KeyEvent,
  keyToText,
  type KeyValue,
} from '../../src/engine/model/event.js'
import { nextRevision, type Revision, toRevision } from '../../src/engine/model/revision.js'
import type { EtcdProcess } from './etcd-process.js'
import type { Commit } from './etcd-writer.js'
import { type Describe, describeJson, type ObjectItem, ReferenceHistory, type WatchRecord } from './history.js'
import { LineSplitter } from './json-lines.js'

type Etcd = Pick<EtcdProcess, 'url' | 'call'>

interface WireKeyValue {
  readonly key: string
  readonly value?: string
  readonly create_revision?: string
  readonly mod_revision?: string
  readonly version?: string
  readonly lease?: string
}

interface WireWatchResponse {
  readonly created?: boolean
  readonly canceled?: boolean
  readonly compact_revision?: string
  readonly cancel_reason?: string
  readonly events?: readonly {
    readonly type?: 'PUT' | 'DELETE'
    readonly kv: WireKeyValue
    readonly prev_kv?: WireKeyValue
  }[]
}

/** Outside every prefix that a test serves. */
const endKey = '/distributary-test/end-of-history'

/** base64 of a single zero byte: from the first key to the last. */
const everyKey = { key: 'AA==', range_end: 'AA==' }

/**
 * Starts at `firstRevision`, by default with everything that etcd has not compacted. Returns when etcd has confirmed
 * the watch.
 *
 * @param t ends it.
 */
export async function recordEtcdHistory(
  t: Pick<Test, 'teardown'>,
  etcd: Etcd,
  firstRevision?: Revision,
): Promise<EtcdHistoryRecorder> {
  const recorder = new EtcdHistoryRecorder(etcd, firstRevision ?? toRevision(1))
  // Otherwise the recorder would look for its etcd forever.
  t.teardown(() => recorder.close())
  await recorder.start(firstRevision === undefined)
  return recorder
}

export class EtcdHistoryRecorder {
  readonly #etcd: Etcd
  readonly #batches: Batch[] = []
  /** The items of etcd's own watch in order of arrival; the ids are whole keys. */
  readonly #items: ObjectItem[] = []
  #initial: ReadonlyMap<Key, { value: Buffer; revision: Revision }> = new Map()
  #firstRevision: Revision
  #request: http.ClientRequest | null = null
  #isClosed = false
  #failure: Error | null = null
  #onProgress = (): void => {}

  constructor(etcd: Etcd, firstRevision: Revision) {
    this.#etcd = etcd
    this.#firstRevision = firstRevision
  }

  /** @param mayStartLater when history is compacted: start at the oldest available revision, with the state there. */
  async start(mayStartLater: boolean): Promise<void> {
    const compacted = await this.#open()
    if (compacted === null) return
    if (!mayStartLater) throw new Error(`the history before ${compacted} is compacted`)
    this.#firstRevision = compacted
    this.#initial = await this.#stateAt(compacted)
    if ((await this.#open()) !== null) throw new Error('the history was compacted while it was read')
  }

  /**
   * Returns everything until now. Writes one key of its own, outside the prefixes that tests serve.
   *
   * @param commits those that etcd acknowledged to the writers: any that its own watch lost are added.
   * @throws Error when history was lost to a compaction.
   */
  async finish(commits: readonly Commit[] = [], describe: Describe = describeJson): Promise<ReferenceHistory> {
    const key = Buffer.from(endKey).toString('base64')
    const value = Buffer.from(String(process.hrtime.bigint())).toString('base64')
    const { header } = (await this.#etcd.call('kv/put', { key, value })) as { header: { revision: string } }
    const end = toRevision(header.revision)
    const deadline = performance.now() + 30_000
    while (this.#newest < end) {
      if (this.#failure === null && performance.now() > deadline) {
        this.#failure = new Error(`etcd's own watch is at ${this.#newest}, not at ${end}`)
      }
      if (this.#failure !== null) {
        this.close()
        throw this.#failure
      }
      await Promise.race([new Promise<void>((resolve) => (this.#onProgress = resolve)), delay(100)])
    }
    this.close()
    return new ReferenceHistory(
      this.#whole(commits, end),
      { revision: this.#firstRevision, state: this.#initial },
      describe,
    )
  }

  /**
   * Returns what etcd's own watch sent for a prefix, in order of arrival, as a record to validate like any other.
   * Compared with a reference made of the same events, it shows what etcd sent twice or out of order; lost events show
   * only if the reference includes the commits.
   */
  control(prefix: Key): WatchRecord {
    const items = this.#items
      .filter(({ id }) => id.startsWith(prefix))
      .map((item): ObjectItem => ({ ...item, id: keyToText(item.id.slice(prefix.length) as Key) }))
    const start = { kind: 'after', revision: this.#firstRevision } as const
    return { name: 'etcd itself', scope: { prefix }, start, items, end: 'cut', requestedAtMs: 0 }
  }

  /**
   * Why the recorder cannot continue: the history was compacted while it was disconnected, or did not arrive in time.
   */
  get failure(): Error | null {
    return this.#failure
  }

  close(): void {
    this.#isClosed = true
    this.#request?.destroy()
  }

  /** Everything up to this revision has been received. */
  get revision(): Revision {
    return this.#newest
  }

  #whole(commits: readonly Commit[], end: Revision): readonly Batch[] {
    const known = new Map(this.#batches.map((batch) => [batch.revision, batch]))
    for (const { revision, values } of commits) {
      if (revision <= this.#firstRevision || revision > end) continue
      const events = known.get(revision)?.events ?? []
      const told = new Set(events.map(eventKey))
      const lost = [...values].map(([key, value]) => eventOf(keyFromText(key), value, revision))
      const missing = lost.filter((event) => !told.has(eventKey(event)))
      if (missing.length > 0) known.set(revision, { revision, events: [...events, ...missing] })
    }
    return [...known.values()].sort((a, b) => a.revision - b.revision)
  }

  get #newest(): Revision {
    return this.#batches.at(-1)?.revision ?? this.#firstRevision
  }

  /**
   * Resolves with null when etcd has confirmed the watch, or with the compact revision when it cannot. Rejects when
   * nobody answers.
   */
  async #open(): Promise<Revision | null> {
    const start = nextRevision(this.#newest)
    // etcd always confirms the creation, and reports only some 100 ms later that the revision is compacted.
    const isCompacted = await this.#isCompacted(start)
    return new Promise((resolve, reject) => {
      let isTaken = false
      const create = { ...everyKey, start_revision: String(start), prev_kv: true }
      const request = http.request(
        new URL('/v3/watch', this.#etcd.url),
        { method: 'POST', agent: false },
        (response) => {
          const lines = new LineSplitter((line) => {
            const { result } = JSON.parse(line) as { result?: WireWatchResponse }
            if (result?.canceled) {
              if (result.compact_revision === undefined) reject(new Error(`etcd: ${result.cancel_reason ?? line}`))
              else resolve(toRevision(result.compact_revision))
              request.destroy()
            } else if (result !== undefined) {
              this.#receive(result)
              if (!result.created || isCompacted) return
              isTaken = true
              resolve(null)
            }
          })
          response.on('data', (chunk: Buffer) => lines.push(chunk))
          response.on('error', () => {})
          response.on('close', () => {
            if (isTaken) void this.#reopen()
            else reject(new Error('the watch was closed before it began'))
          })
        },
      )
      request.on('error', reject)
      this.#request = request
      request.end(JSON.stringify({ create_request: create }))
    })
  }

  /** Reconnects after a lost connection, until etcd is back. */
  async #reopen(): Promise<void> {
    while (!this.#isClosed && this.#failure === null) {
      await delay(100)
      try {
        const compacted = await this.#open()
        if (compacted !== null) this.#failure = new Error(`etcd compacted to ${compacted} while its history was away`)
        return
      } catch {
        // etcd is not back yet.
      }
    }
  }

  async #isCompacted(revision: Revision): Promise<boolean> {
    try {
      await this.#etcd.call('kv/range', { ...everyKey, limit: '1', keys_only: true, revision: String(revision) })
      return false
    } catch (error) {
      return String(error).includes('compacted')
    }
  }

  #receive({ events = [] }: WireWatchResponse): void {
    for (const { type, kv, prev_kv: previous } of events) {
      const revision = toRevision(kv.mod_revision ?? 'none')
      const key = keyOf(kv)
      const event: KeyEvent = type === 'DELETE' ? { type: 'delete', key } : { type: 'put', keyValue: keyValueOf(kv) }
      const isNew = kv.create_revision === kv.mod_revision
      this.#items.push({
        type: type === 'DELETE' ? 'DELETED' : isNew ? 'ADDED' : 'MODIFIED',
        revision,
        id: key,
        fingerprint: describeJson(key, valueOf(type === 'DELETE' ? previous : kv))?.fingerprint ?? null,
      })
      if (revision <= this.#newest && this.#batches.at(-1)?.revision !== revision) continue
      const last = this.#batches.at(-1)
      if (last?.revision === revision) {
        const events = last.events.filter((other) => eventKey(other) !== key)
        this.#batches[this.#batches.length - 1] = { revision, events: [...events, event] }
      } else {
        this.#batches.push({ revision, events: [event] })
      }
    }
    if (events.length > 0) this.#onProgress()
  }

  async #stateAt(revision: Revision): Promise<Map<Key, { value: Buffer; revision: Revision }>> {
    const state = new Map<Key, { value: Buffer; revision: Revision }>()
    let key = everyKey.key
    for (let more = true; more;) {
      const page = (await this.#etcd.call('kv/range', {
        ...everyKey,
        key,
        revision: String(revision),
        limit: '500',
      })) as {
        kvs?: WireKeyValue[]
        more?: boolean
      }
      for (const kv of page.kvs ?? []) {
        state.set(keyOf(kv), { value: valueOf(kv), revision: toRevision(kv.mod_revision ?? 'none') })
      }
      const last = page.kvs?.at(-1)
      more = page.more === true && last !== undefined
      if (last !== undefined) key = Buffer.concat([Buffer.from(last.key, 'base64'), Buffer.alloc(1)]).toString('base64')
    }
    return state
  }
}

function keyOf({ key }: WireKeyValue): Key {
  return keyFromBytes(Buffer.from(key, 'base64'))
}

function valueOf(kv: WireKeyValue | undefined): Buffer {
  return Buffer.from(kv?.value ?? '', 'base64')
}

function keyValueOf(kv: WireKeyValue): KeyValue {
  return {
    key: keyOf(kv),
    value: valueOf(kv),
    createRevision: toRevision(kv.create_revision ?? 'none'),
    modRevision: toRevision(kv.mod_revision ?? 'none'),
    version: Number(kv.version ?? 1),
    leaseId: kv.lease ?? '0',
  }
}

function eventOf(key: Key, value: Buffer | null, revision: Revision): KeyEvent {
  if (value === null) return { type: 'delete', key }
  const keyValue = { key, value, createRevision: revision, modRevision: revision, version: 1, leaseId: '0' }
  return { type: 'put', keyValue }
}

function eventKey(event: KeyEvent): Key {
  return event.type === 'put' ? event.keyValue.key : event.key
}
