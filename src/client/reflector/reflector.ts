/**
 * Keeps a store equal to a resource of an API server by list and watch. It carries out what `reflector-state.ts`
 * decides, and decides nothing itself.
 *
 * The store gets whole states (`replace`) and then each later change once and in order. The codec decides how an object
 * is represented (a tree, bytes), so a client's informer and a server that is fed from another server use the same
 * reflector. At most one request runs at a time, and it is abandoned when the state that began it ends. Queues, indexes
 * and handlers are in `client/`.
 */
import type { BackoffOptions } from '../../support/backoff.js'
import { type Clock, type Timer } from '../../support/clock.js'
import { type Logger, silentLogger } from '../../support/log.js'
import { type Random, systemRandom } from '../../support/random.js'
import { activeClock } from './active-clock.js'
import { jsonWire, type EventWire } from './event-stream.js'
import { notifyUser } from './notify-user.js'
import { WatchFailure } from './watch-failure.js'
import { listPages } from './list-pages.js'
import type { Change, ObjectCodec } from './object-codec.js'
import { idle, next, type ReflectorEffect, type ReflectorInput, type ReflectorState } from './reflector-state.js'
import { type Selection, watchQuery } from './requests.js'
import type { Transport } from './transport.js'
import { positionAt, type WatchPosition, runWatch, type WatchJobOptions, type WatchOutcome } from './watch-job.js'
import { failurePauseMs } from './failure-pause.js'

/** The store that a reflector writes to. */
export interface ReflectorStore<T> {
  /** Called with the whole state at `resourceVersion`. An object that is not among `items` no longer exists. */
  replace(items: T[], resourceVersion: string): Promise<void> | void
  /**
   * Called for each change after `replace`, in the server's order. A DELETED change carries the object's last state.
   */
  change(change: Change<T>): void
  /** Called when everything at or before `resourceVersion` has been delivered. */
  bookmark?(resourceVersion: string): void
  /** Called between two arrivals of bytes; nothing more is read from the server while the promise is pending. */
  settled?(): Promise<void> | undefined
}

/** The progress of a reflector. */
export interface ReflectorStatus {
  readonly state: ReflectorState['kind']
  /** null before the first state was delivered. */
  readonly resourceVersion: string | null
  /** Why the reflector is backing off; null when it is not. */
  readonly reason: string | null
  /** Whether the server has accepted the watch, so that changes arrive. */
  readonly isOpen: boolean
}

/** The resource that a reflector follows, and how. */
export interface ReflectorOptions<T> extends Selection {
  readonly transport: Transport
  readonly codec: ObjectCodec<T>
  readonly store: ReflectorStore<T>
  /** Default: JSON lines, which every API server supports. */
  readonly wire?: EventWire
  /** The number of objects in a page of a list. Default: 500, as in client-go; 0 requests all at once. */
  readonly pageSize?: number
  /** Whether to stream list and watch in one request if the server can. Default: true. */
  readonly watchList?: boolean
  /**
   * Start with the changes after this resourceVersion, without an initial state, for a store that already has one. If
   * the server no longer has them, a complete state arrives, as after any 410.
   */
  readonly afterResourceVersion?: string
  /**
   * How long the server should keep one watch open. Each watch uses a random time between this and twice this, so that
   * a thousand clients that started together do not reconnect together. Default: 5 minutes, as in client-go.
   */
  readonly minWatchTimeoutMs?: number
  /**
   * A watch that delivered nothing for this long, not even a bookmark, is replaced. Default: 150 s, since the server
   * sends bookmarks about every 60 s. With a value below that interval, quiet watches are replaced again and again.
   */
  readonly silenceMs?: number
  /** The same limit during the initial events. When it is exceeded, a plain list is used. Default: 15 s. */
  readonly initialSilenceMs?: number
  /** The time limit for the beginning of a response. Default: 30 s. */
  readonly openTimeoutMs?: number
  /** The time limit for a whole page of a list. Default: 120 s. */
  readonly listTimeoutMs?: number
  /** Default: client-go's, 0.8 s doubled up to 30 s, with the upper half of each wait random. */
  readonly backoff?: BackoffOptions
  readonly clock?: Clock
  readonly random?: Random
  readonly logger?: Logger
  onStatus?(status: ReflectorStatus): void
}

const BACKOFF: BackoffOptions = { firstMs: 800, capMs: 30_000 }
/**
 * The wait between short but useful watches. A server that ends each watch after one event gets about 30 requests a
 * minute.
 */
const PACE: BackoffOptions = { firstMs: 200, capMs: 2_000 }

/** Keeps a store equal to a resource of an API server, by list and watch. */
export class Reflector<T> {
  readonly #options: ReflectorOptions<T>
  readonly #clock: Clock
  readonly #random: Random
  readonly #logger: Logger
  #state: ReflectorState
  readonly #inputs: ReflectorInput[] = []
  #isPerforming = false
  #timer: Timer | null = null
  #job: AbortController | null = null
  readonly #jobs = new Set<Promise<void>>()
  #place: WatchPosition | null = null

  constructor(options: ReflectorOptions<T>) {
    this.#options = options
    this.#clock = options.clock ?? activeClock
    this.#random = options.random ?? systemRandom
    this.#logger = options.logger ?? silentLogger
    const { afterResourceVersion: after } = options
    this.#state = idle({ canStream: options.watchList !== false, ...(after === undefined ? {} : { after }) })
    if (after !== undefined) this.#place = positionAt(after)
  }

  start(): void {
    this.#send({ kind: 'start' })
  }

  /** Resolves when nothing is running any longer. From this call on, the store is not called. */
  async stop(): Promise<void> {
    this.#send({ kind: 'stop' })
    while (this.#jobs.size > 0) await Promise.allSettled(this.#jobs)
  }

  /** Runs until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return
    this.start()
    await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
    await this.stop()
  }

  get status(): ReflectorStatus {
    const state = this.#state
    return {
      state: state.kind,
      resourceVersion: state.known.position,
      reason: state.kind === 'backing-off' ? state.why : null,
      isOpen: isOpen(state),
    }
  }

  /**
   * A resourceVersion after which a reflector can continue, because everything at or before it has been delivered; null
   * if there is none.
   */
  get resumePosition(): string | null {
    return this.#state.known.safePosition
  }

  #send(input: ReflectorInput): void {
    this.#inputs.push(input)
    if (this.#isPerforming) return
    this.#isPerforming = true
    try {
      for (let queued = this.#inputs.shift(); queued !== undefined; queued = this.#inputs.shift()) this.#step(queued)
    } finally {
      this.#isPerforming = false
    }
  }

  #step(input: ReflectorInput): void {
    const before = this.#state
    const { state, effects } = next(before, input)
    this.#state = state
    for (const effect of effects) this.#perform(effect)
    if (state.kind === before.kind) {
      if (isOpen(state) && !isOpen(before)) this.#report()
      return
    }
    const { path } = this.#options
    const { reason, resourceVersion } = this.status
    if (reason !== null) this.#logger.warn({ path, resourceVersion, reason }, 'list and watch interrupted; retrying')
    else this.#logger.debug({ path, resourceVersion, state: state.kind }, 'list and watch continues')
    this.#report()
  }

  #report(): void {
    notifyUser('onStatus', this.#options.logger, () => this.#options.onStatus?.(this.status))
  }

  #perform(effect: ReflectorEffect): void {
    switch (effect.kind) {
      case 'cancel':
        this.#timer?.cancel()
        this.#timer = null
        this.#job?.abort()
        this.#job = null
        return
      case 'wait':
        this.#timer = this.#clock.setTimer(this.#waitMs(effect), () => {
          this.#timer = null
          this.#send({ kind: 'timer' })
        })
        return
      case 'list':
        return this.#run((signal) => this.#list(effect.resourceVersion, signal))
      case 'stream':
      case 'watch':
        return this.#run((signal) => this.#watch(effect, signal))
      default:
        effect satisfies never
    }
  }

  #waitMs({ attempt, pace, retryAfterMs }: Extract<ReflectorEffect, { kind: 'wait' }>): number {
    const options = pace === 'pace' ? PACE : (this.#options.backoff ?? BACKOFF)
    return failurePauseMs(options, attempt, retryAfterMs, this.#random)
  }

  /** Runs one job and abandons the previous one, whose result is ignored. */
  #run(work: (signal: AbortSignal) => Promise<ReflectorInput>): void {
    this.#job?.abort()
    const controller = new AbortController()
    this.#job = controller
    const job = work(controller.signal).then((input) => {
      if (!controller.signal.aborted) this.#send(input)
    })
    this.#jobs.add(job)
    void job.finally(() => this.#jobs.delete(job))
  }

  async #list(resourceVersion: string, signal: AbortSignal): Promise<ReflectorInput> {
    const { transport, codec, store, pageSize = 500, listTimeoutMs = 120_000 } = this.#options
    const pages = new AbortController()
    const giveUp = (): void =>
      pages.abort(new WatchFailure('network', `the list did not complete within ${listTimeoutMs} ms`))
    const onAbort = (): void => pages.abort(signal.reason)
    let timer = this.#clock.setTimer(listTimeoutMs, giveUp)
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      const list = await listPages({
        transport,
        codec,
        selection: this.#options,
        resourceVersion,
        pageSize,
        signal: pages.signal,
        onPage: () => {
          timer.cancel()
          timer = this.#clock.setTimer(listTimeoutMs, giveUp)
        },
      })
      signal.throwIfAborted()
      await store.replace(list.items, list.resourceVersion)
      this.#place = positionAt(list.resourceVersion)
      return { kind: 'committed', resourceVersion: list.resourceVersion, at: this.#clock.monotonic() }
    } catch (error) {
      const reason: unknown = pages.signal.aborted ? pages.signal.reason : error
      return { kind: 'failed', failure: WatchFailure.from(reason) }
    } finally {
      timer.cancel()
      signal.removeEventListener('abort', onAbort)
    }
  }

  async #watch(
    effect: Extract<ReflectorEffect, { kind: 'stream' | 'watch' }>,
    signal: AbortSignal,
  ): Promise<ReflectorInput> {
    const at = (): number => this.#clock.monotonic()
    const isCommitted = (): boolean => this.#state.kind === 'watching'
    let outcome: WatchOutcome
    try {
      outcome = await runWatch(this.#watchOptions(effect, signal))
    } catch (error) {
      const failure = WatchFailure.from(error)
      return isCommitted() ? { kind: 'watch-ended', at: at(), failure } : { kind: 'failed', failure }
    }
    if (outcome.kind === 'cannot-stream') return outcome
    if (outcome.kind === 'silent') return { kind: 'silent', at: at() }
    return { kind: 'watch-ended', at: at(), failure: null }
  }

  #watchOptions(
    effect: Extract<ReflectorEffect, { kind: 'stream' | 'watch' }>,
    signal: AbortSignal,
  ): WatchJobOptions<T> {
    const { transport, codec, store, minWatchTimeoutMs = 300_000 } = this.#options
    const timeoutMs = minWatchTimeoutMs * (1 + this.#random.next())
    return {
      transport,
      codec,
      wire: this.#options.wire ?? jsonWire,
      clock: this.#clock,
      path: this.#options.path,
      query: watchQuery(this.#options, effect, Math.max(1, Math.ceil(timeoutMs / 1_000))),
      signal,
      openTimeoutMs: this.#options.openTimeoutMs ?? 30_000,
      initialSilenceMs: this.#options.initialSilenceMs ?? 15_000,
      silenceMs: this.#options.silenceMs ?? 150_000,
      place: effect.kind === 'stream' ? null : this.#place,
      onOpen: () => this.#send({ kind: 'opened', at: this.#clock.monotonic() }),
      onInitial: async (items, resourceVersion) => {
        signal.throwIfAborted()
        await store.replace(items, resourceVersion)
        signal.throwIfAborted()
        this.#place = positionAt(resourceVersion)
        this.#send({ kind: 'committed', resourceVersion, at: this.#clock.monotonic() })
      },
      onChange: (change) => {
        if (!signal.aborted) store.change(change)
      },
      onBookmark: (resourceVersion) => {
        if (!signal.aborted) store.bookmark?.(resourceVersion)
      },
      onProgress: (place, isBookmark) => {
        if (signal.aborted) return
        this.#place = place
        const { position, safePosition } = place
        this.#send({ kind: 'progress', position, safePosition, isBookmark })
      },
      settled: () => (signal.aborted ? undefined : store.settled?.()),
    }
  }
}

function isOpen(state: ReflectorState): boolean {
  return state.kind === 'watching' && state.openedAt !== null
}
