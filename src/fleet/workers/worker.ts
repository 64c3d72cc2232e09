/**
 * A worker's end of the socket: it feeds the worker's resources, and carries the requests that the worker's caches
 * cannot answer.
 *
 * A primary that sends nothing for three seconds (stopped, or starved) counts as unreachable: the age of the resources
 * counts from its last frame, and every request fails at once. It is back when it has answered a request that was sent
 * after its first new frame.
 *
 * A broken link is not repaired. The worker has lost its place, and its process ends; the primary starts another, which
 * begins with the primary's state and history.
 */
import type { Duplex } from 'node:stream'
import type { Key, KeyValue } from '../../engine/model/event.js'
import type { Revision } from '../../engine/model/revision.js'
import type { Clock } from '../../support/clock.js'
import { Semaphore } from '../../support/semaphore.js'
import { SingleFlight } from '../../support/single-flight.js'
import type { StateAtRevision } from '../../engine/model/freshness-source.js'
import type { OpenFeed } from '../../engine/feed/resource-feed.js'
import { UpstreamError } from '../../engine/upstream/upstream.js'
import { readFailure, readKeyValue, readKeyValues } from '../key-value-codec.js'
import { FrameReader, FrameSplitter, FrameWriter } from './frames.js'
import { Answer, Collection, Question, ToPrimary, ToWorker } from './messages.js'
import { PrimaryFeed } from './primary-feed.js'
import { Silence } from './silence.js'
import { WorkerLimits } from './worker-limits.js'

export interface WorkerChannelOptions {
  readonly socket: Duplex
  readonly clock: Clock
  /** The number of workers. */
  readonly workers: number
  /** Called with the primary's first message. */
  readonly onHello: (text: string) => void
  /** Called when the primary asks this worker to end its watches, and then itself. */
  readonly onDrain: () => void
  /** Called once, when nothing more will arrive. */
  readonly onClosed: (reason: string) => void
  /** Returns this worker's metrics as JSON. A rejection omits them from the scrape. */
  readonly collectMetrics: () => Promise<string>
  /** Returns this worker's status as JSON. A rejection omits it. */
  readonly collectStatus: () => Promise<string>
  /** Called when one of these two rejects. */
  readonly onCollectFailed: (error: unknown) => void
}

/** The most unanswered requests; further ones wait here to be sent. */
const QUESTIONS_AT_ONCE = 256
const TICK_MS = 500
const SILENT_TICKS = 6
const SILENT = 'the primary process does not answer'

interface Asked {
  /** Returns false while more parts of the answer are to come. */
  readonly heard: (kind: number, reader: FrameReader) => boolean
  readonly failed: (error: Error) => void
}

export class WorkerChannel {
  /** The client limits, shared by all workers. */
  readonly limits: WorkerLimits
  readonly #options: WorkerChannelOptions
  readonly #splitter = new FrameSplitter()
  readonly #feeds = new Map<Key, PrimaryFeed>()
  readonly #feedsById = new Map<number, PrimaryFeed>()
  readonly #questions = new Map<number, Asked>()
  readonly #slots = new Semaphore(QUESTIONS_AT_ONCE)
  #nextQuestion = 1
  readonly #silence: Silence
  /**
   * The ping awaiting its answer. It proves that the primary is back only if it was sent after the primary's first new
   * frame.
   */
  #ping: { readonly id: number; readonly isProof: boolean } | null = null
  #isPrimaryAway = false
  #closed: UpstreamError | null = null

  constructor(options: WorkerChannelOptions) {
    this.#options = options
    const { socket, clock, workers } = options
    this.limits = new WorkerLimits({ processes: workers, clock, send: (writer) => this.#send(writer) })
    socket.on('data', (chunk: Buffer) =>
      this.#splitter.push(chunk, (frame) => {
        if (this.#closed === null) this.#heard(new FrameReader(frame))
      }),
    )
    socket.on('error', (error) => this.#close(error.message))
    socket.on('close', () => this.#close('the primary is gone'))
    socket.on('end', () => this.#close('the primary is gone'))
    this.#silence = new Silence({
      clock: options.clock,
      tickMs: TICK_MS,
      ticks: SILENT_TICKS,
      onTick: () => this.#sendPing(false),
      onSilent: (silentMs) => this.#lose(silentMs),
    })
  }

  /** Opens a resource that the primary feeds. */
  readonly openFeed: OpenFeed = (request) => {
    // All callers in this process that ask while an answer is awaited share the next one.
    const revisions = new SingleFlight(() => this.#currentRevision(feed.prefix))
    const states = new SingleFlight(() => this.#readState(feed.prefix, null))
    const feed: PrimaryFeed = new PrimaryFeed(request, {
      clock: this.#options.clock,
      start: () => {
        this.#feeds.set(feed.prefix, feed)
        this.#send(new FrameWriter(ToPrimary.subscribe).text(JSON.stringify(request.resource)))
      },
      stop: () => {
        if (this.#feeds.get(feed.prefix) !== feed) return
        this.#feeds.delete(feed.prefix)
        if (feed.id !== null) this.#feedsById.delete(feed.id)
        this.#send(new FrameWriter(ToPrimary.unsubscribe).key(feed.prefix))
      },
      freshness: {
        trustsProgress: false,
        requestProgress: () => {
          if (!this.#isPrimaryAway) this.#send(new FrameWriter(ToPrimary.requestProgress).key(feed.prefix))
        },
        currentRevision: (signal) => revisions.join(signal),
        readState: (revision, signal) =>
          revision === null ? states.join(signal) : this.#readState(feed.prefix, revision, signal),
        readKey: (key, signal) => this.#readKey(feed.prefix, key, signal),
      },
    })
    return feed
  }

  /** Calls the primary's upstream. @throws UpstreamError */
  readonly callUpstream = (request: string, signal?: AbortSignal): Promise<string> =>
    this.#ask((writer) => writer.byte(Question.upstream).text(request), onlyText, signal)

  /** Returns the metrics of the primary and of all its workers. @throws UpstreamError */
  exposeMetrics(): Promise<string> {
    return this.#ask((writer) => writer.byte(Question.metrics), onlyText)
  }

  /** Returns the statuses of all processes as a JSON array, the primary's first. @throws UpstreamError */
  exposeStatus(): Promise<string> {
    return this.#ask((writer) => writer.byte(Question.status), onlyText)
  }

  /** Has the primary compare what it watches with etcd, and returns the report as JSON. @throws UpstreamError */
  checkConsistency(): Promise<string> {
    return this.#ask((writer) => writer.byte(Question.checkConsistency), onlyText)
  }

  /** Reports to the primary that clients can connect. */
  started(): void {
    this.#send(new FrameWriter(ToPrimary.started))
  }

  close(): void {
    this.#close('closed here')
  }

  #currentRevision(prefix: Key, signal?: AbortSignal): Promise<Revision> {
    return this.#ask(
      (writer) => writer.byte(Question.currentRevision).key(prefix),
      (kind, reader) => (kind === Answer.revision ? { value: reader.number() as Revision } : null),
      signal,
    )
  }

  #readState(prefix: Key, revision: Revision | null, signal?: AbortSignal): Promise<StateAtRevision> {
    const keyValues: KeyValue[] = []
    return this.#ask(
      (writer) =>
        writer
          .byte(Question.readState)
          .key(prefix)
          .number(revision ?? -1),
      (kind, reader) => {
        const at = reader.number() as Revision
        for (const keyValue of readKeyValues(reader)) keyValues.push(keyValue)
        return kind === Answer.lastPage ? { value: { revision: at, keyValues } } : null
      },
      signal,
    )
  }

  #readKey(prefix: Key, key: Key, signal?: AbortSignal): Promise<KeyValue | null> {
    return this.#ask(
      (writer) => writer.byte(Question.readKey).key(prefix).key(key),
      (kind, reader) => ({ value: kind === Answer.nothing ? null : readKeyValue(reader) }),
      signal,
    )
  }

  /** @param part returns the value once the answer is complete, null before. */
  async #ask<T>(
    question: (writer: FrameWriter) => FrameWriter,
    part: (kind: number, reader: FrameReader) => { readonly value: T } | null,
    signal?: AbortSignal,
  ): Promise<T> {
    const release = await this.#slots.acquire(signal)
    const id = this.#nextQuestion++
    let onAbort: (() => void) | null = null
    try {
      return await new Promise<T>((resolve, reject) => {
        if (this.#closed !== null) throw this.#closed
        if (this.#isPrimaryAway) throw new UpstreamError('unavailable', SILENT)
        onAbort = () => {
          this.#send(new FrameWriter(ToPrimary.cancel).count(id))
          reject(signal?.reason as Error)
        }
        signal?.addEventListener('abort', onAbort, { once: true })
        const heard = (kind: number, reader: FrameReader): boolean => {
          const whole = part(kind, reader)
          if (whole !== null) resolve(whole.value)
          return whole !== null
        }
        this.#questions.set(id, { heard, failed: reject })
        this.#send(question(new FrameWriter(ToPrimary.ask).count(id)))
      })
    } finally {
      this.#questions.delete(id)
      if (onAbort !== null) signal?.removeEventListener('abort', onAbort)
      release()
    }
  }

  #sendPing(isProof: boolean): void {
    if (this.#ping !== null) return
    this.#ping = { id: this.#nextQuestion++, isProof }
    this.#send(new FrameWriter(ToPrimary.ask).count(this.#ping.id).byte(Question.ping))
  }

  #ponged(isProof: boolean): void {
    this.#ping = null
    if (!this.#isPrimaryAway) return
    if (!isProof) return this.#sendPing(true)
    this.#isPrimaryAway = false
    this.limits.back()
    for (const feed of this.#feeds.values()) feed.back()
  }

  #lose(silentMs: number): void {
    this.#isPrimaryAway = true
    this.limits.lose()
    for (const feed of this.#feeds.values()) feed.lose(SILENT, silentMs)
    for (const [id, question] of this.#questions) {
      question.failed(new UpstreamError('unavailable', SILENT))
      this.#send(new FrameWriter(ToPrimary.cancel).count(id))
    }
  }

  #heard(reader: FrameReader): void {
    this.#silence.heard()
    switch (reader.type) {
      case ToWorker.hello:
        return this.#options.onHello(reader.text())
      case ToWorker.drain:
        return this.#options.onDrain()
      case ToWorker.subscribed: {
        const id = reader.count()
        const feed = this.#feeds.get(reader.key())
        if (feed === undefined) return
        feed.id = id
        this.#feedsById.set(id, feed)
        return
      }
      case ToWorker.answer: {
        const id = reader.count()
        if (this.#ping?.id === id) return this.#ponged(this.#ping.isProof)
        const question = this.#questions.get(id)
        const kind = reader.byte()
        if (kind === Answer.failed) question?.failed(readFailure(reader))
        else question?.heard(kind, reader)
        return
      }
      case ToWorker.collect: {
        const id = reader.count()
        const { collectMetrics, collectStatus } = this.#options
        void (reader.byte() === Collection.status ? collectStatus() : collectMetrics()).then(
          (text) => this.#send(new FrameWriter(ToPrimary.collected, text.length + 8).count(id).text(text)),
          (error: unknown) => {
            this.#send(new FrameWriter(ToPrimary.collected).count(id).text(''))
            this.#options.onCollectFailed(error)
          },
        )
        return
      }
      case ToWorker.entered:
      case ToWorker.drawn:
      case ToWorker.spent:
      case ToWorker.suspectNetwork:
        return this.limits.heard(reader)
      default:
        // The feed may have been stopped meanwhile.
        return this.#feedsById.get(reader.count())?.heard(reader)
    }
  }

  #send(writer: FrameWriter): void {
    if (this.#closed === null) this.#options.socket.write(writer.done())
  }

  #close(reason: string): void {
    if (this.#closed !== null) return
    this.#closed = new UpstreamError('unavailable', reason)
    this.#silence.stop()
    this.limits.lose()
    for (const question of this.#questions.values()) question.failed(this.#closed)
    this.#options.socket.destroy()
    this.#options.onClosed(reason)
  }
}

function onlyText(kind: number, reader: FrameReader): { readonly value: string } | null {
  return kind === Answer.text ? { value: reader.text() } : null
}
