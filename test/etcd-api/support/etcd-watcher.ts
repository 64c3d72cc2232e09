/**
 * A client of etcd's API as strict ones are, for the validators: it reads a range, watches it, and after every fault
 * resumes behind the last event; after a compaction it reads again. It shares no code with the product but the
 * encoding of its requests, and has a connection of its own.
 */
import http2 from 'node:http2'
import { setTimeout as delay } from 'node:timers/promises'
import type { Key } from '../../../src/engine/model/event.js'
import { type Revision, toRevision } from '../../../src/engine/model/revision.js'
import type { ListRecord, WatchEndKind, WatchItem, WatchRecord } from '../../support/history.js'
import { encode, type Fields, type Message, messageOf } from './harness.js'

export interface WatchedRange {
  readonly name: string
  /** The prefix of all keys in the range. */
  readonly prefix: Key
  readonly key: string
  readonly end: string
  readonly prevKv: boolean
}

/** What a message says of the value before an event. */
export interface PreviousValue {
  readonly where: string
  readonly revision: Revision
  readonly key: string
  /** null: the message has none. */
  readonly previous: { readonly value: Buffer; readonly revision: number } | null
}

interface RunningRecord extends WatchRecord {
  readonly items: WatchItem[]
  end: WatchEndKind
}

const RETRY_MS = 50
const ANSWER_MS = 5_000
const PROGRESS = Buffer.from([0x1a, 0])

/** @param fingerprint of a value. */
export class EtcdWatcher {
  readonly watches: RunningRecord[] = []
  readonly lists: ListRecord[] = []
  readonly previous: PreviousValue[] = []
  /** Messages that break a rule of the protocol. */
  readonly faults: string[] = []
  compactions = 0
  readonly #url: string
  readonly #range: WatchedRange
  readonly #fingerprint: (value: Buffer) => string
  #position = 0
  #session: http2.ClientHttp2Session | null = null
  #stream: http2.ClientHttp2Stream | null = null
  #isStopped = false
  readonly #done: Promise<void>

  constructor(url: string, range: WatchedRange, fingerprint: (value: Buffer) => string) {
    this.#url = url
    this.#range = range
    this.#fingerprint = fingerprint
    this.#done = this.#run()
  }

  /** The revision up to which it has everything. */
  get position(): number {
    return this.#position
  }

  /** Whether a watch is open now. */
  get isWatching(): boolean {
    return this.watches.at(-1)?.end === 'open'
  }

  askForProgress(): void {
    if (this.isWatching) this.#stream?.write(framed(PROGRESS))
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    this.#session?.destroy()
    await this.#done
  }

  async #run(): Promise<void> {
    let next: number | null = null
    while (!this.#isStopped) {
      try {
        next ??= (await this.#read()) + 1
        next = await this.#watch(next)
      } catch {
        // Nobody answers, or not in time.
      }
      if (!this.#isStopped) await delay(RETRY_MS)
    }
  }

  #connected(): http2.ClientHttp2Session {
    if (this.#session === null || this.#session.closed || this.#session.destroyed) {
      const session = http2.connect(this.#url)
      session.on('error', () => {})
      session.once('close', () => session.destroy())
      this.#session = session
    }
    return this.#session
  }

  #open(method: string): http2.ClientHttp2Stream {
    const stream = this.#connected().request({
      ':method': 'POST',
      ':path': `/etcdserverpb.${method}`,
      'content-type': 'application/grpc',
      te: 'trailers',
    })
    stream.on('error', () => {})
    return stream
  }

  /** Reads the range. @returns its revision. @throws Error unless it is answered in time. */
  async #read(): Promise<Revision> {
    const requestedAtMs = performance.now()
    const stream = this.#open('KV/Range')
    stream.setTimeout(ANSWER_MS, () => this.#session?.destroy())
    stream.end(framed(encode({ 1: this.#range.key, 2: this.#range.end })))
    const messages: Message[] = []
    const { status } = await received(stream, (message) => messages.push(message))
    const [answer] = messages
    if (status !== '0' || answer === undefined) throw new Error(`range: ${String(status)}`)
    const revision = toRevision(answer.revision)
    this.lists.push({
      name: `${this.#range.name} read ${this.lists.length + 1}`,
      scope: { prefix: this.#range.prefix },
      asked: { kind: 'consistent' },
      revision,
      items: answer.messages(2).map((kv) => ({
        id: this.#idOf(kv),
        revision: toRevision(kv.number(3)),
        fingerprint: this.#fingerprint(bytesOf(kv)),
      })),
      requestedAtMs,
      statedAgeMs: 0,
    })
    return revision
  }

  /** @returns the revision to resume at; null after a compaction. */
  async #watch(startRevision: number): Promise<number | null> {
    const name = `${this.#range.name} watch ${this.watches.length + 1}`
    const record: RunningRecord = {
      name,
      scope: { prefix: this.#range.prefix },
      start: { kind: 'after', revision: toRevision(startRevision - 1) },
      items: [],
      end: 'open',
      requestedAtMs: performance.now(),
    }
    const stream = this.#open('Watch/Watch')
    const { key, end, prevKv } = this.#range
    const fields: Fields = { 1: key, 2: end, 3: startRevision, 4: true, 6: prevKv }
    stream.write(framed(encode({ 1: fields })))
    this.#stream = stream
    let next = startRevision
    let isCompacted = false
    const { status } = await received(stream, (message) => {
      if (message.number(3) === 1) {
        this.watches.push(record)
        this.#position = Math.max(this.#position, next - 1)
      }
      if (message.number(4) === 1) {
        isCompacted = message.number(5) > 0
        if (!isCompacted) this.faults.push(`${name} was cancelled: ${message.text(6)}`)
        else if (message.number(5) < startRevision)
          this.faults.push(`${name}: from ${startRevision}, cancelled for a compaction at ${message.number(5)}`)
        stream.close()
        return
      }
      const events = message.messages(11)
      for (const event of events) {
        record.items.push(this.#itemOf(event, name))
        next = event.message(2).number(3) + 1
      }
      if (events.length > 0 && message.revision < next - 1)
        this.faults.push(`${name}: a header at ${message.revision} carries an event of ${next - 1}`)
      if (events.length === 0 && message.number(3) === 0) {
        record.items.push({ type: 'BOOKMARK', revision: toRevision(message.revision), isInitialEventsEnd: false })
        next = Math.max(next, message.revision + 1)
      }
      this.#position = Math.max(this.#position, next - 1)
    })
    // A status is the server's own end, after whole revisions.
    if (!this.#isStopped || status !== null) record.end = status === null ? 'cut' : 'eof'
    if (isCompacted) this.compactions++
    return isCompacted ? null : next
  }

  #itemOf(event: Message, where: string): WatchItem {
    const kv = event.message(2)
    const isDelete = event.number(1) === 1
    const revision = toRevision(kv.number(3))
    const before = event.fields.has(3) ? event.message(3) : null
    if (this.#range.prevKv) {
      const previous = before === null ? null : { value: bytesOf(before), revision: before.number(3) }
      this.previous.push({ where, revision, key: kv.text(1), previous })
    } else if (before !== null) this.faults.push(`${where}: a previous value at ${revision} that was not asked for`)
    const type = isDelete ? 'DELETED' : kv.number(2) === revision ? 'ADDED' : 'MODIFIED'
    // A delete has no value, and its previous one is compared with those of all events.
    return { type, revision, id: this.#idOf(kv), fingerprint: isDelete ? null : this.#fingerprint(bytesOf(kv)) }
  }

  #idOf(kv: Message): string {
    return kv.text(1).slice(this.#range.prefix.length)
  }
}

function bytesOf(kv: Message): Buffer {
  return Buffer.from((kv.fields.get(5)?.[0] as Buffer | undefined) ?? [])
}

function framed(message: Uint8Array): Buffer {
  const head = Buffer.alloc(5)
  head.writeUInt32BE(message.length, 1)
  return Buffer.concat([head, message])
}

/** Resolves when the stream is over. @returns the gRPC status; null if the connection broke. */
function received(
  stream: http2.ClientHttp2Stream,
  onMessage: (message: Message) => void,
): Promise<{ readonly status: string | null }> {
  return new Promise((resolve) => {
    let pending = Buffer.alloc(0)
    let status: string | null = null
    const take = (headers: http2.IncomingHttpHeaders): void => {
      const found = headers['grpc-status']
      if (typeof found === 'string') status = found
    }
    stream.on('response', take)
    stream.on('trailers', take)
    stream.on('data', (bytes: Buffer) => {
      pending = Buffer.concat([pending, bytes])
      while (pending.length >= 5 && pending.length >= 5 + pending.readUInt32BE(1)) {
        const length = 5 + pending.readUInt32BE(1)
        onMessage(messageOf(pending.subarray(5, length)))
        pending = pending.subarray(length)
      }
    })
    stream.once('end', () => stream.close())
    stream.once('close', () => resolve({ status }))
  })
}
