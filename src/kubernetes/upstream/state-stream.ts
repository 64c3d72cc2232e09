/**
 * Reads the state of a resource at another server as initial events (WatchList), and the watch after them in the same
 * response. Both share one history and cost one request. The response is not read between the initial events and the
 * watch, so later events wait in the connection until the watch begins.
 */
import type { BytesObject } from '../../client/reflector/bytes-codec.js'
import type { EventWire } from '../../client/reflector/event-stream.js'
import { WatchFailure } from '../../client/reflector/watch-failure.js'
import type { Change, ObjectCodec } from '../../client/reflector/object-codec.js'
import type { Transport } from '../../client/reflector/transport.js'
import { runWatch, type WatchOutcome, type WatchPosition } from '../../client/reflector/watch-job.js'
import type { Clock } from '../../support/clock.js'

export interface StateStreamOptions {
  readonly transport: Transport
  readonly wire: EventWire
  readonly codec: ObjectCodec<BytesObject>
  readonly clock: Clock
  readonly path: string
  /** Further parameters. */
  readonly query: Readonly<Record<string, string>>
  /** The time after which the server ends the response. */
  readonly timeoutSeconds: number
  /** The longest silence after the initial events, bookmarks included. */
  readonly silenceMs: number
}

export interface StreamedState {
  readonly items: readonly BytesObject[]
  readonly resourceVersion: string
}

/** As in `WatchJobOptions`. */
export interface StreamFollower {
  onChange(change: Change<BytesObject>): void
  onBookmark(resourceVersion: string): void
  onProgress(place: WatchPosition): void
}

/** Long, because an API server builds a large state before it responds. */
const OPEN_TIMEOUT_MS = 120_000
const INITIAL_SILENCE_MS = 10_000

export class StateStream {
  readonly #abort = new AbortController()
  readonly #outcome: Promise<WatchOutcome>
  /** Rejects when no state can be read. */
  readonly #state: Promise<StreamedState>
  #follower: StreamFollower | null = null
  #goOn: () => void = () => {}

  constructor({ timeoutSeconds, query, ...options }: StateStreamOptions) {
    const goingOn = new Promise<void>((resolve) => (this.#goOn = resolve))
    let arrived: (state: StreamedState) => void = () => {}
    const arriving = new Promise<StreamedState>((resolve) => (arrived = resolve))
    this.#outcome = runWatch<BytesObject>({
      ...options,
      query: {
        watch: '1',
        sendInitialEvents: 'true',
        allowWatchBookmarks: 'true',
        resourceVersionMatch: 'NotOlderThan',
        timeoutSeconds: String(timeoutSeconds),
        ...query,
      },
      signal: this.#abort.signal,
      openTimeoutMs: OPEN_TIMEOUT_MS,
      initialSilenceMs: INITIAL_SILENCE_MS,
      place: null,
      onInitial: (items, resourceVersion) => {
        arrived({ items, resourceVersion })
        return goingOn
      },
      onChange: (change) => this.#follower?.onChange(change),
      onBookmark: (resourceVersion) => this.#follower?.onBookmark(resourceVersion),
      onProgress: (place) => this.#follower?.onProgress(place),
    })
    this.#state = Promise.race([arriving, this.#outcome.then(cannotStream)])
    this.#state.catch(noop)
    this.#outcome.catch(noop)
  }

  /** Resolves at the end of the initial events. @throws WatchFailure 'unsupported' when the server has none to send. */
  async state(signal?: AbortSignal): Promise<StreamedState> {
    const onAbort = (): void => this.close()
    if (signal?.aborted === true) onAbort()
    signal?.addEventListener('abort', onAbort, { once: true })
    try {
      return await this.#state
    } finally {
      signal?.removeEventListener('abort', onAbort)
    }
  }

  /**
   * Continues reading after the state; call it at most once. Resolves when the response has ended.
   * @throws WatchFailure
   */
  follow(follower: StreamFollower): Promise<WatchOutcome> {
    this.#follower = follower
    this.#goOn()
    return this.#outcome
  }

  close(): void {
    this.#follower = null
    this.#abort.abort(new Error('closed'))
    this.#goOn()
  }
}

function cannotStream(outcome: WatchOutcome): never {
  const why = outcome.kind === 'cannot-stream' ? outcome.why : 'the response ended'
  throw new WatchFailure('unsupported', `no initial events: ${why}`)
}

function noop(): void {}
