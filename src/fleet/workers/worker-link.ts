/**
 * The primary's end of one worker's socket: it sends frames in order, answers requests, and drops a worker that does
 * not keep up.
 *
 * Frames leave in two ways. Live frames go to the socket at once. A whole state is produced frame by frame while the
 * socket has room, and live frames of the same feed wait behind it. Everything that waits, here or in the socket,
 * counts against one limit. A worker beyond the limit is dropped, and its replacement gets everything again, so there
 * is never a hole; skipping what a slow worker has no room for would make one.
 */
import type { Duplex } from 'node:stream'
import type { Key } from '../../engine/model/event.js'
import type { Resource } from '../../engine/model/resource.js'
import type { Revision } from '../../engine/model/revision.js'
import type { FreshnessSource } from '../../engine/model/freshness-source.js'
import type { Clock } from '../../support/clock.js'
import { UpstreamError } from '../../engine/upstream/upstream.js'
import { writeKeyValue, writeKeyValues } from '../key-value-codec.js'
import { FrameReader, FrameSplitter, FrameWriter } from './frames.js'
import { Answer, type CollectionKind, failureFrame, pagesOf, Question, ToPrimary, ToWorker } from './messages.js'
import { type CountedLimits, PrimaryLimits } from './primary-limits.js'
import type { Relay, RelaySubscriber } from './relay.js'
import { Silence } from './silence.js'
import { errorMessage } from '../../support/error-message.js'

export interface WorkerLinkOptions {
  readonly socket: Duplex
  readonly clock: Clock
  /** Returns the relay of the resource's prefix, opened for the first worker that subscribes. */
  readonly open: (resource: Resource) => Relay
  /** Returns the relay of a prefix; undefined if no worker has subscribed to it. */
  readonly find: (prefix: Key) => Relay | undefined
  /** Performs a worker's call of the upstream; request and answer are JSON. @throws UpstreamError */
  readonly callUpstream: (request: string, signal: AbortSignal) => Promise<string>
  /** Returns the metrics of all processes as one scrape. */
  readonly exposeMetrics: () => Promise<string>
  /** Returns the status of every process, as a JSON array. */
  readonly exposeStatus: () => Promise<string>
  /** Compares what the primary watches with etcd, and returns the report as JSON. */
  readonly checkConsistency: () => Promise<string>
  /** The limits shared by all workers. */
  readonly limits: CountedLimits
  /** Called when clients can connect to the worker. */
  readonly onStarted: () => void
  /** The most bytes that may wait for the worker; beyond it the worker is dropped. */
  readonly maxQueuedBytes: number
  /** Called when the worker no longer needs a relay. */
  readonly onRelayLeft: (relay: Relay) => void
  /** Called once, when either side has cut the link. */
  readonly onClosed: (reason: string) => void
}

/** States and answers wait while the socket holds more bytes than this. */
const ROOM_BYTES = 1024 * 1024
/** Beyond this many concurrent requests further ones fail; a worker sends fewer (`QUESTIONS_AT_ONCE`). */
const MAX_QUESTIONS = 1_024
const COLLECT_TIMEOUT_MS = 2_000
/**
 * A worker pings twice a second; one that is silent for this many seconds is stopped or stuck, and its clients get no
 * answer.
 */
const TICK_MS = 1_000
const SILENT_TICKS = 30

interface Whole {
  readonly feed: number
  readonly frames: Iterator<Buffer>
  /** Live frames that arrived while the state was being sent. */
  readonly behind: Buffer[]
}

export class WorkerLink implements RelaySubscriber {
  readonly #options: WorkerLinkOptions
  readonly #splitter = new FrameSplitter()
  readonly #wholes = new Map<number, Whole>()
  readonly #relays = new Set<Relay>()
  readonly #questions = new Map<number, AbortController>()
  readonly #collections = new Map<number, (text: string | null) => void>()
  readonly #waitingForRoom: (() => void)[] = []
  readonly #limits: PrimaryLimits
  #nextCollection = 1
  #behindBytes = 0
  #isClosed = false
  #isServing = false
  /** null before the first ping: a worker that is still loading is silent for a long time. */
  #silence: Silence | null = null

  constructor(options: WorkerLinkOptions) {
    this.#options = options
    const { socket } = options
    this.#limits = new PrimaryLimits(options.limits, (frame) => this.#write(frame))
    socket.on('data', (chunk: Buffer) => this.#received(chunk))
    socket.on('drain', () => this.#drained())
    socket.on('error', (error) => this.close(error.message))
    socket.on('close', () => this.close('its end of the socket closed'))
    socket.on('end', () => this.close('its end of the socket closed'))
  }

  /** Whether clients can connect to the worker. */
  get isServing(): boolean {
    return this.#isServing && !this.#isClosed
  }

  get queuedBytes(): number {
    return this.#isClosed ? 0 : this.#behindBytes + this.#options.socket.writableLength
  }

  /** Sends the worker what it needs to know before it begins. */
  hello(text: string): void {
    this.#write(new FrameWriter(ToWorker.hello).text(text).done())
  }

  /** Asks the worker to end its watches, and then itself. */
  drain(): void {
    this.#write(new FrameWriter(ToWorker.drain).done())
  }

  /** Notifies the worker that a client is suspect for a while. */
  suspect(client: string): void {
    this.#write(new FrameWriter(ToWorker.suspectNetwork).text(client).done())
  }

  /** Resolves to the worker's metrics or status as JSON; to null if the worker has none, or does not answer in time. */
  collect(kind: CollectionKind): Promise<string | null> {
    if (this.#isClosed) return Promise.resolve(null)
    const id = this.#nextCollection++
    return new Promise((resolve) => {
      const timer = this.#options.clock.setTimer(COLLECT_TIMEOUT_MS, () => finish(null))
      const finish = (text: string | null): void => {
        timer.cancel()
        this.#collections.delete(id)
        resolve(text)
      }
      this.#collections.set(id, finish)
      this.#write(new FrameWriter(ToWorker.collect).count(id).byte(kind).done())
    })
  }

  close(reason: string): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#silence?.stop()
    for (const relay of this.#relays) this.#leave(relay)
    for (const question of this.#questions.values()) question.abort(new UpstreamError('unavailable', reason))
    for (const finish of this.#collections.values()) finish(null)
    for (const goOn of this.#waitingForRoom.splice(0)) goOn()
    this.#limits.close()
    this.#wholes.clear()
    this.#options.socket.destroy()
    this.#options.onClosed(reason)
  }

  send(feed: number, frame: Buffer): void {
    const whole = this.#wholes.get(feed)
    if (whole === undefined) return this.#write(frame)
    whole.behind.push(frame)
    this.#behindBytes += frame.length
    this.#checkBound()
  }

  sendAll(feed: number, frames: Iterator<Buffer>): void {
    const before = this.#wholes.get(feed)
    // A newer state replaces one that is still being sent, and everything that waits behind it.
    if (before !== undefined) for (const frame of before.behind) this.#behindBytes -= frame.length
    this.#wholes.delete(feed)
    this.#wholes.set(feed, { feed, frames, behind: [] })
    this.#drained()
  }

  get #hasRoom(): boolean {
    return this.#options.socket.writableLength < ROOM_BYTES
  }

  #drained(): void {
    while (this.#hasRoom && !this.#isClosed) {
      const goOn = this.#waitingForRoom.shift()
      if (goOn === undefined) break
      goOn()
    }
    for (const whole of this.#wholes.values()) {
      while (this.#hasRoom && !this.#isClosed) {
        const next = whole.frames.next()
        if (next.done === true) {
          this.#wholes.delete(whole.feed)
          for (const frame of whole.behind) {
            this.#behindBytes -= frame.length
            this.#write(frame)
          }
          break
        }
        this.#write(next.value)
      }
      if (!this.#hasRoom || this.#isClosed) return
    }
  }

  #write(frame: Buffer): void {
    if (this.#isClosed) return
    this.#options.socket.write(frame)
    this.#checkBound()
  }

  #checkBound(): void {
    const { maxQueuedBytes } = this.#options
    if (this.queuedBytes > maxQueuedBytes) this.close(`it is more than ${maxQueuedBytes} bytes behind`)
  }

  async #room(): Promise<void> {
    while (!this.#hasRoom && !this.#isClosed) await new Promise<void>((resolve) => this.#waitingForRoom.push(resolve))
  }

  #received(chunk: Buffer): void {
    try {
      this.#splitter.push(chunk, (frame) => this.#heard(new FrameReader(frame)))
    } catch (error) {
      this.close(`it sent what cannot be read: ${errorMessage(error)}`)
    }
  }

  #heard(reader: FrameReader): void {
    if (this.#isClosed) return
    this.#silence?.heard()
    switch (reader.type) {
      case ToPrimary.subscribe: {
        const resource = JSON.parse(reader.text()) as Resource
        const relay = this.#options.open(resource)
        this.#relays.add(relay)
        this.#write(new FrameWriter(ToWorker.subscribed).count(relay.id).key(relay.prefix).done())
        return relay.subscribe(this)
      }
      case ToPrimary.unsubscribe: {
        const relay = this.#options.find(reader.key())
        if (relay === undefined || !this.#relays.has(relay)) return
        const whole = this.#wholes.get(relay.id)
        if (whole !== undefined) for (const frame of whole.behind) this.#behindBytes -= frame.length
        this.#wholes.delete(relay.id)
        return this.#leave(relay)
      }
      case ToPrimary.requestProgress:
        return this.#options.find(reader.key())?.feed.freshness.requestProgress()
      case ToPrimary.ask:
        return this.#asked(reader)
      case ToPrimary.cancel:
        return this.#questions.get(reader.count())?.abort(new UpstreamError('unavailable', 'given up'))
      case ToPrimary.collected:
        return this.#collections.get(reader.count())?.(reader.text() || null)
      case ToPrimary.started:
        this.#isServing = true
        return this.#options.onStarted()
      default:
        return this.#limits.heard(reader)
    }
  }

  #leave(relay: Relay): void {
    this.#relays.delete(relay)
    relay.unsubscribe(this)
    this.#options.onRelayLeft(relay)
  }

  #asked(reader: FrameReader): void {
    const id = reader.count()
    if (reader.peekByte() === Question.ping) return this.#pinged(id)
    if (this.#questions.size >= MAX_QUESTIONS) {
      return this.#write(failureFrame(id, new UpstreamError('unavailable', 'too many questions at once')))
    }
    const controller = new AbortController()
    this.#questions.set(id, controller)
    void this.#answer(id, reader, controller.signal)
      .catch((error: unknown) => this.#write(failureFrame(id, error)))
      .finally(() => this.#questions.delete(id))
  }

  /** Answers a ping at once, ahead of every waiting request. */
  #pinged(id: number): void {
    this.#silence ??= new Silence({
      clock: this.#options.clock,
      tickMs: TICK_MS,
      ticks: SILENT_TICKS,
      onSilent: (silentMs) => this.close(`it has said nothing for ${Math.round(silentMs / 1_000)} s`),
    })
    this.#write(new FrameWriter(ToWorker.answer).count(id).byte(Answer.nothing).done())
  }

  async #answer(id: number, reader: FrameReader, signal: AbortSignal): Promise<void> {
    const begin = (kind: number): FrameWriter => new FrameWriter(ToWorker.answer).count(id).byte(kind)
    const question = reader.byte()
    switch (question) {
      case Question.currentRevision: {
        const revision = await this.#freshness(reader.key()).currentRevision(signal)
        return this.#write(begin(Answer.revision).number(revision).done())
      }
      case Question.readState: {
        const freshness = this.#freshness(reader.key())
        const asked = reader.number()
        const state = await freshness.readState(asked < 0 ? null : (asked as Revision), signal)
        for (const page of pagesOf(state.keyValues)) {
          await this.#room()
          signal.throwIfAborted()
          this.#write(writeKeyValues(begin(Answer.page).number(state.revision), page).done())
        }
        return this.#write(writeKeyValues(begin(Answer.lastPage).number(state.revision), []).done())
      }
      case Question.readKey: {
        const freshness = this.#freshness(reader.key())
        const keyValue = await freshness.readKey(reader.key(), signal)
        if (keyValue === null) return this.#write(begin(Answer.nothing).done())
        const writer = begin(Answer.keyValue)
        writeKeyValue(writer, keyValue)
        await this.#room()
        return this.#write(writer.done())
      }
      case Question.upstream:
        return await this.#answerText(id, this.#options.callUpstream(reader.text(), signal))
      case Question.metrics:
        return await this.#answerText(id, this.#options.exposeMetrics())
      case Question.status:
        return await this.#answerText(id, this.#options.exposeStatus())
      case Question.checkConsistency:
        return await this.#answerText(id, this.#options.checkConsistency())
      default:
        throw new RangeError(`no question has the number ${question}`)
    }
  }

  async #answerText(id: number, answer: Promise<string>): Promise<void> {
    const text = await answer
    await this.#room()
    this.#write(new FrameWriter(ToWorker.answer, text.length + 8).count(id).byte(Answer.text).text(text).done())
  }

  #freshness(prefix: Key): FreshnessSource {
    const relay = this.#options.find(prefix)
    if (relay === undefined) throw new UpstreamError('unavailable', 'the prefix is not fed')
    return relay.feed.freshness
  }
}
