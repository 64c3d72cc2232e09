/**
 * One watch of a resource at another server, delivered in whole revisions.
 *
 * Over SSE, an id marks the last event of a revision. Events of a revision whose end has not arrived wait for the
 * rest. A connection that breaks inside a revision loses nothing, because the feed resumes after the last whole
 * revision.
 *
 * JSON lines and protobuf have no such mark. They are used for kube-apiservers, which write one object per revision,
 * so each event is a whole revision. Only objects that expire, such as Events, are deleted several at a time, so
 * their deletions wait briefly for others of the same revision. If two events of one revision still arrive
 * separately, the watch ends and is not resumed. This leads to a list and never to a gap.
 *
 * The server ends every watch after some minutes. Nothing is lost, because the next watch begins where the last one
 * ended, at the same cluster.
 */
import type { BytesObject } from '../../client/reflector/bytes-codec.js'
import type { EventWire } from '../../client/reflector/event-stream.js'
import { WatchFailure } from '../../client/reflector/watch-failure.js'
import type { Change, ObjectCodec } from '../../client/reflector/object-codec.js'
import type { Transport } from '../../client/reflector/transport.js'
import { positionAt, type WatchPosition, runWatch, type WatchOutcome } from '../../client/reflector/watch-job.js'
import type { Batch, KeyEvent } from '../../engine/model/event.js'
import { formatResourceVersion } from '../model/resource-version.js'
import type { Revision } from '../../engine/model/revision.js'
import type { Clock, Timer } from '../../support/clock.js'
import { type Random, randomInteger } from '../../support/random.js'
import { UpstreamError, type UpstreamWatch, type WatchHandlers } from '../../engine/upstream/upstream.js'
import { asUpstreamError } from './http-failure.js'
import { type HttpKeyValues, revisionOf } from './http-key-value.js'
import { type ProgressProof, proveProgress } from './progress-proof.js'
import type { StateStream } from './state-stream.js'

export interface RemoteWatchOptions {
  readonly transport: Transport
  readonly wire: EventWire
  readonly codec: ObjectCodec<BytesObject>
  /** Whether an id or a new revision marks a revision as whole. Otherwise every event is a whole revision. */
  readonly marksRevisions: boolean
  /** Whether several objects may expire at one revision. Relevant only where revisions are not marked. */
  readonly expires?: boolean
  readonly path: string
  readonly keyValues: HttpKeyValues
  readonly clock: Clock
  readonly random: Random
  readonly afterRevision: Revision
  readonly handlers: WatchHandlers
  /** The longest silence, bookmarks included. */
  readonly silenceMs: number
  /** The timeout of a watch that asks for progress (`progress-proof.ts`); null if the server cannot be asked. */
  readonly proofSeconds: number | null
  /** Called when the server sent no bookmark on such a watch. */
  readonly onNoProof?: () => void
  /** Whether the address still leads to the cluster at which the watch began, as far as it says. */
  readonly isSameCluster: (signal: AbortSignal) => Promise<boolean>
  /**
   * The response from which the watch continues, after the state at `afterRevision` was read from it. Default: a new
   * response.
   */
  readonly stream?: StateStream | null
}

const OPEN_TIMEOUT_MS = 15_000
/** Asks a distributary for 410 where it has missed changes itself, so that this server decides what its watchers get. */
export const EVERY_VERSION = { onGap: 'expire' }
/** A server that ends a watch sooner than this, without an event, does not support watching. */
const SHORT_MS = 1_000
/** How long a deletion waits for others of its revision, because a busy server sends them one by one. */
const EXPIRY_MS = 500

export class RemoteWatch implements UpstreamWatch {
  readonly #options: RemoteWatchOptions
  readonly #abort = new AbortController()
  #place: WatchPosition
  #pending: { readonly revision: Revision; readonly events: KeyEvent[] }[] = []
  /** Everything up to this revision has been delivered. */
  #delivered: Revision
  #isOpen = false
  #isEnded = false
  #hasSpoken = false
  /**
   * Whether the server sends bookmarks. An API server sends none for resources that it does not cache, such as
   * events.
   */
  #sendsBookmarks = false
  #proving: Promise<void> | null = null
  #proof: ProgressProof | null = null
  #stream: StateStream | null
  #rest: Timer | null = null

  constructor(options: RemoteWatchOptions) {
    this.#options = options
    this.#stream = options.stream ?? null
    this.#place = positionAt(formatResourceVersion(options.afterRevision))
    this.#delivered = options.afterRevision
    void this.#run()
  }

  requestProgress(): void {
    const { proofSeconds: timeoutSeconds, transport, wire, codec, path, clock, onNoProof } = this.#options
    const query = this.#versions
    if (timeoutSeconds === null || this.#isEnded || !this.#isOpen || this.#proving !== null) return
    const after = this.#delivered
    const { signal } = this.#abort
    this.#proving = proveProgress({ transport, wire, codec, timeoutSeconds, path, query, clock, after, signal })
      .then((proof) => {
        if (proof === null && !this.#isEnded) onNoProof?.()
        this.#proof = proof
        this.#reportProven()
      })
      .catch(() => undefined)
      .finally(() => (this.#proving = null))
  }

  close(): void {
    this.#isEnded = true
    this.#rest?.cancel()
    this.#abort.abort()
    this.#stream?.close()
  }

  async #run(): Promise<void> {
    const { clock, isSameCluster } = this.#options
    try {
      for (;;) {
        const beganMs = clock.monotonic()
        this.#hasSpoken = false
        const outcome = await this.#watch()
        if (this.#isEnded) return
        // Without bookmarks a quiet resource is silent as well. The next request shows whether the server still
        // responds.
        const isLost = outcome.kind === 'silent' && this.#sendsBookmarks
        if (isLost || outcome.kind === 'cannot-stream') {
          throw new WatchFailure('network', 'the server has gone silent')
        }
        if (!this.#hasSpoken && clock.monotonic() - beganMs < SHORT_MS) {
          throw new WatchFailure('server-error', 'the server ended the watch at once')
        }
        if (this.#pending.length > 0 && this.#options.marksRevisions) {
          throw new WatchFailure('network', 'the response ended inside a revision')
        }
        // The next watch delivers the deletions that were still waiting.
        this.#rest?.cancel()
        this.#pending = []
        this.#place = positionAt(formatResourceVersion(this.#delivered))
        if (!(await isSameCluster(this.#abort.signal))) throw new OtherCluster()
      }
    } catch (error) {
      this.#end(error)
    }
  }

  async #watch(): Promise<WatchOutcome> {
    const { transport, wire, codec, path, clock, random, silenceMs } = this.#options
    const follower = {
      onChange: (change: Change<BytesObject>) => this.#changed(change),
      onBookmark: (resourceVersion: string) => this.#bookmark(revisionOf(resourceVersion)),
      onProgress: (place: WatchPosition) => this.#arrived(place),
    }
    if (this.#stream !== null) {
      this.#opened()
      const outcome = await this.#stream.follow(follower)
      this.#stream = null
      return outcome
    }
    return await runWatch<BytesObject>({
      ...follower,
      transport,
      wire,
      codec,
      clock,
      path,
      query: {
        watch: '1',
        allowWatchBookmarks: 'true',
        timeoutSeconds: String(watchSeconds(random)),
        resourceVersion: this.#place.safePosition,
        ...this.#versions,
      },
      signal: this.#abort.signal,
      openTimeoutMs: OPEN_TIMEOUT_MS,
      initialSilenceMs: silenceMs,
      silenceMs,
      place: this.#place,
      onOpen: () => this.#opened(),
    })
  }

  /** Parameters that only a distributary understands. */
  get #versions(): Readonly<Record<string, string>> {
    return this.#options.marksRevisions ? EVERY_VERSION : {}
  }

  #opened(): void {
    if (this.#isOpen || this.#isEnded) return
    this.#isOpen = true
    this.#options.handlers.onOpen()
  }

  #changed({ type, object, resourceVersion }: Change<BytesObject>): void {
    if (this.#isEnded) return
    const { keyValues } = this.#options
    const revision = revisionOf(resourceVersion)
    const event: KeyEvent =
      type === 'DELETED'
        ? { type: 'delete', key: keyValues.key(object) }
        : { type: 'put', keyValue: keyValues.keyValue(object, false) }
    this.#hasSpoken = true
    if (revision <= this.#delivered) throw new RevisionInParts(revision)
    const last = this.#pending.at(-1)
    if (last !== undefined && revision < last.revision) {
      throw new WatchFailure('malformed', `revision ${revision} came after ${last.revision}`)
    }
    if (last?.revision === revision) last.events.push(event)
    else this.#pending.push({ revision, events: [event] })
  }

  #bookmark(revision: Revision): void {
    if (this.#isEnded) return
    this.#sendsBookmarks = true
    this.#hasSpoken = true
    this.#deliver(this.#pending.length)
    if (this.#isEnded || revision < this.#delivered) return
    this.#delivered = revision
    this.#options.handlers.onProgress(revision)
  }

  /** A new revision shows that earlier ones are whole. The last revision is whole when its id has arrived. */
  #arrived(place: WatchPosition): void {
    this.#place = place
    if (this.#isEnded) return
    const { marksRevisions, expires = false, clock } = this.#options
    const isExpiry = expires && this.#pending.at(-1)?.events.at(-1)?.type === 'delete'
    const isWhole = marksRevisions ? place.safePosition === place.position : !isExpiry
    this.#deliver(isWhole ? this.#pending.length : this.#pending.length - 1)
    this.#reportProven()
    this.#rest?.cancel()
    if (marksRevisions || this.#pending.length === 0) return
    this.#rest = clock.setTimer(EXPIRY_MS, () => {
      this.#deliver(this.#pending.length)
      this.#reportProven()
    })
  }

  #deliver(count: number): void {
    if (count <= 0) return
    const batches: readonly Batch[] = this.#pending.splice(0, count)
    this.#delivered = batches.at(-1)!.revision
    this.#options.handlers.onBatches(batches)
  }

  #reportProven(): void {
    const proof = this.#proof
    if (proof === null || this.#isEnded || this.#delivered < proof.lastEvent) return
    this.#proof = null
    if (this.#pending.length > 0 || proof.revision <= this.#delivered) return
    this.#delivered = proof.revision
    this.#options.handlers.onProgress(proof.revision)
  }

  #end(error: unknown): void {
    if (this.#isEnded) return
    this.close()
    const { path, handlers, afterRevision } = this.#options
    if (error instanceof RevisionInParts) return handlers.onEnd({ kind: 'contradicted', revision: error.revision })
    if (error instanceof OtherCluster) {
      return handlers.onEnd({ kind: 'left', error: new UpstreamError('unavailable', error.message) })
    }
    const failure = asUpstreamError(error, path)
    if (failure.code !== 'compacted') return handlers.onEnd({ kind: 'failed', error: failure })
    handlers.onEnd({ kind: 'compacted', compactRevision: oldestIn(failure.message) ?? afterRevision })
  }
}

/** How long the server is asked to keep a watch open, as in client-go. */
export function watchSeconds(random: Random): number {
  return randomInteger(random, 300, 600)
}

class RevisionInParts extends Error {
  constructor(readonly revision: Revision) {
    super(`more events of revision ${revision} arrived after it was taken to be complete`)
  }
}

/** Another cluster's revisions mean other states, although it may accept a watch from ours. */
class OtherCluster extends Error {
  override readonly message = 'another cluster answers at this address'
}

/** Reads OLDEST from `too old resource version: N (OLDEST-1)`. */
function oldestIn(message: string): Revision | null {
  const found = /too old resource version: \d+ \((\d+)\)/.exec(message)?.[1]
  return found === undefined ? null : (Math.max(1, Number(found)) as Revision)
}
