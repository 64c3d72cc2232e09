/**
 * Writes to a real etcd as another program would, through its JSON gateway and without any of our code, and records
 * etcd's responses for the validators. A write without a response may or may not have happened: etcd's own history
 * tells.
 */
import { type Revision, toRevision } from '../../src/engine/model/revision.js'
import type { EtcdProcess } from './etcd-process.js'
import type { WriteRecord } from './history.js'

/** Objects become JSON, text and bytes are stored unchanged, null deletes. */
export type Written = object | string | Buffer | null

/** A commit as etcd reported it: the keys of one revision; null for a deleted key. */
export interface Commit {
  readonly revision: Revision
  readonly values: ReadonlyMap<string, Buffer | null>
}

export class EtcdWriter {
  readonly writes: WriteRecord[] = []
  /** Writes that changed something. */
  readonly commits: Commit[] = []
  /** The number of writes without a response. */
  unanswered = 0
  readonly #members: readonly Pick<EtcdProcess, 'url'>[]
  #at = 0

  constructor(members: readonly Pick<EtcdProcess, 'url'>[]) {
    this.#members = members
  }

  /** Writes one revision of at most 128 keys. @throws Error when no member answers in time. */
  async commit(values: Readonly<Record<string, Written>>, timeoutMs = 10_000): Promise<Revision> {
    const success = Object.entries(values).map(([key, value]) =>
      value === null
        ? { request_delete_range: { key: base64(key) } }
        : { request_put: { key: base64(key), value: base64(asBytes(value)) } },
    )
    const { header, responses = [] } = await this.#call('kv/txn', { success }, timeoutMs)
    const revision = toRevision(header.revision)
    this.writes.push({ revision, returnedAtMs: performance.now() })
    this.#keep(revision, values, responses)
    return revision
  }

  async put(key: string, value: Exclude<Written, null>): Promise<Revision> {
    return await this.commit({ [key]: value })
  }

  /** Like `commit`, but returns null when etcd is unavailable. */
  async tryCommit(values: Readonly<Record<string, Written>>, timeoutMs = 1_000): Promise<Revision | null> {
    try {
      return await this.commit(values, timeoutMs)
    } catch {
      this.unanswered++
      return null
    }
  }

  /** Writes many keys, a hundred per transaction, four transactions at a time. */
  async fill(values: ReadonlyMap<string, Written>): Promise<void> {
    const entries = [...values]
    const batches: Record<string, Written>[] = []
    for (let at = 0; at < entries.length; at += 100) batches.push(Object.fromEntries(entries.slice(at, at + 100)))
    const lane = async (): Promise<void> => {
      for (let batch = batches.shift(); batch !== undefined; batch = batches.shift()) await this.commit(batch, 20_000)
    }
    await Promise.all([lane(), lane(), lane(), lane()])
  }

  /** Deleting a missing key changes nothing, and on its own creates no revision. */
  #keep(revision: Revision, values: Readonly<Record<string, Written>>, responses: readonly WireResponse[]): void {
    const done = Object.entries(values).flatMap(([key, value], i): [string, Buffer | null][] => {
      if (value !== null) return [[key, asBytes(value)]]
      return Number(responses[i]?.response_delete_range?.deleted ?? 0) > 0 ? [[key, null]] : []
    })
    if (done.length > 0) this.commits.push({ revision, values: new Map(done) })
  }

  /** Starts with the member that answered last. */
  async #call(path: string, body: object, timeoutMs: number): Promise<WireAnswer> {
    let failure: unknown
    const first = this.#at
    for (let attempt = 0; attempt < this.#members.length; attempt++) {
      const at = (first + attempt) % this.#members.length
      const { url } = this.#members[at]!
      try {
        const response = await fetch(`${url}/v3/${path}`, {
          method: 'POST',
          body: JSON.stringify(body),
          signal: AbortSignal.timeout(timeoutMs),
        })
        const text = await response.text()
        if (!response.ok) throw new Error(`etcd ${path}: ${response.status} ${text}`)
        this.#at = at
        return JSON.parse(text) as WireAnswer
      } catch (error) {
        failure = error
      }
    }
    throw failure
  }
}

interface WireResponse {
  readonly response_delete_range?: { readonly deleted?: string }
}

interface WireAnswer {
  readonly header: { readonly revision: string }
  readonly responses?: readonly WireResponse[]
}

function asBytes(value: Exclude<Written, null>): Buffer {
  if (Buffer.isBuffer(value)) return value
  return Buffer.from(typeof value === 'string' ? value : JSON.stringify(value))
}

function base64(text: string | Buffer): string {
  return Buffer.from(text).toString('base64')
}
