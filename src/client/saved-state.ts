/**
 * Saves an informer's last state, so that the program can start with it while the server is unreachable, and then
 * continue after that state instead of listing again.
 *
 *     start ─▶ load ─▶ show it ─▶ watch after its revision, naming its history ─┬─ same history ──▶ continue
 *                                                                               └─ any other response ─▶ list again
 *
 * A revision is meaningful only within one history, because an etcd restored from a backup reuses revisions for
 * different contents. So the watch continues only if the server names the same history (`X-Distributary-History`). If a
 * server names no history, its saved state is shown until a list replaces it. States are stored by server, user and
 * selection. A state is removed when the server refuses its reader, so that users never see data that they may no
 * longer read.
 */
import type { Clock, Timer } from '../support/clock.js'
import { selectionQuery, type Selection } from './reflector/requests.js'
import type { Transport, TransportRequest, TransportResponse } from './reflector/transport.js'
import type { KubeObject } from './reflector/tree-codec.js'
import { withDeadline } from '../support/deadline.js'
import { notifyUser } from './reflector/notify-user.js'
import { jsonIn } from '../support/json-text.js'

/** Stores texts by key: in files (`fileStore`), in a browser (`indexedDbStore`), or wherever you like. */
export interface StateStore {
  /** Returns null if there is no text for the key. */
  load(key: string): Promise<string | null>
  /**
   * Replaces the text of the key atomically, so that a crash leaves either the old or the new text.
   * @throws Error when the text is too large.
   */
  save(key: string, text: string): Promise<void>
  remove(key: string): Promise<void>
  /** Removes everything, for a user who logs out. */
  clear(): Promise<void>
}

/** Where an informer keeps its last state, and whose it is. */
export interface SavedStateOptions {
  readonly store: StateStore
  /** The URL of the server. Another server's state is never loaded. */
  readonly server: string
  /** The account that is logged in. Another user's state is never loaded. */
  readonly user: string
  /** Called when the store fails; the informer continues without it. Default: logs it. */
  onError?(error: unknown): void
}

/** The content of a saved state. */
export interface StateContents {
  readonly resourceVersion: string
  /** Objects as the server sent them. */
  readonly items: readonly unknown[]
}

interface SavedDocument extends StateContents {
  readonly format: typeof FORMAT
  /** The whole key, since a store may shorten it. */
  readonly key: string
  /** null if unknown; then no watch can continue after this state. */
  readonly history: string | null
}

const FORMAT = 1
const HISTORY = 'x-distributary-history'
/** Long enough to collect the changes of a burst, and short enough to lose little in a crash. */
const FIRST_DELAY_MS = 1_000
/** Far longer than a store takes, even for a large state. A store that hangs must not keep the informer. */
const PATIENCE_MS = 5_000
/** Writing takes at most this share of the time, however large the state is. */
const SHARE = 1 / 20

export class SavedState {
  readonly #options: SavedStateOptions
  readonly #key: string
  readonly #clock: Clock
  readonly #contents: () => StateContents | null
  /** The history of the informer's state; null while it is uncertain. */
  #history: string | null = null
  /** The history of the list that is arriving. */
  #arriving: string | null = null
  /** The history of the loaded state, until the server has confirmed or refuted it. */
  #unproven: string | null = null
  #timer: Timer | null = null
  #lastMs = 0
  #isClosed = false
  /** The chain of calls of the store, which run one after the other, and how many have not ended. */
  #work: Promise<void> = Promise.resolve()
  #pending = 0
  #isAbandoned = false

  /** @param contents returns the informer's current state, or null if it cannot be taken now. */
  constructor(options: SavedStateOptions, selection: Selection, clock: Clock, contents: () => StateContents | null) {
    this.#options = options
    this.#key = stateKey(options, selection)
    this.#clock = clock
    this.#contents = contents
  }

  /**
   * Loads the saved state; null if there is none, and if the store takes too long.
   * @returns the state; `continues` says whether a watch may begin after it.
   */
  async load(): Promise<(StateContents & { readonly continues: boolean }) | null> {
    let saved: SavedDocument | null = null
    const loading = this.#do(async (store) => {
      const text = await store.load(this.#key)
      saved = text === null ? null : parsed(text, this.#key)
    })
    await this.#inTime(loading)
    if (saved === null) return null
    const { resourceVersion, items, history } = saved as SavedDocument
    this.#history = history
    this.#unproven = history
    return { resourceVersion, items, continues: history !== null }
  }

  /** Wraps a transport to read the histories in responses, and to send the loaded state's history to the server. */
  transport(transport: Transport): Transport {
    return {
      send: async (request) => {
        const { watch, sendInitialEvents } = request.query
        if ((request.method ?? 'GET') !== 'GET') return await transport.send(request)
        if (watch !== undefined && sendInitialEvents === undefined) return await this.#resume(transport, request)
        const response = await transport.send(request)
        const history = response.status === 200 ? response.header(HISTORY) : null
        const isFirst = request.query['continue'] === undefined
        this.#arriving = isFirst || history === this.#arriving ? history : null
        return response
      },
    }
  }

  async #resume(transport: Transport, request: TransportRequest): Promise<TransportResponse> {
    const history = this.#unproven
    if (history === null) {
      const response = await transport.send(request)
      if (response.status === 200 && response.header(HISTORY) !== this.#history) this.#history = null
      return response
    }
    const response = await transport.send({ ...request, query: { ...request.query, history } })
    if (response.status === 200) {
      if (response.header(HISTORY) !== history) return unknownHistory(history)
      this.#unproven = null
    }
    return response
  }

  /** Called when a whole state from the server has replaced the informer's state. */
  replaced(): void {
    this.#history = this.#arriving
    this.#unproven = null
    this.touch()
  }

  /** Called when something has changed. Saves it soon. */
  touch(): void {
    if (this.#timer !== null || this.#isClosed) return
    this.#timer = this.#clock.setTimer(Math.max(FIRST_DELAY_MS, this.#lastMs / SHARE), () => {
      this.#timer = null
      // A store that is slower than the changes must not collect states to write.
      if (this.#pending > 0 || !this.#save()) this.touch()
    })
  }

  /** Removes the saved state, because its reader may no longer read it. */
  forget(): void {
    this.#timer?.cancel()
    this.#timer = null
    void this.#do((store) => store.remove(this.#key))
  }

  /**
   * Saves what has not been saved yet, unless the store takes too long. Call this while the reflector still knows its
   * position.
   */
  async close(): Promise<void> {
    this.#isClosed = true
    if (this.#timer !== null) {
      this.#timer.cancel()
      this.#timer = null
      this.#save()
    }
    await this.#inTime(this.#work)
    // A state that would be written later might belong to a user who has logged out since.
    this.#isAbandoned = true
  }

  /** @returns false if it cannot be saved now. */
  #save(): boolean {
    const contents = this.#contents()
    if (contents === null) return false
    const startedMs = this.#clock.monotonic()
    const document: SavedDocument = { format: FORMAT, key: this.#key, history: this.#history, ...contents }
    const text = JSON.stringify(document)
    void this.#do(async (store) => {
      try {
        await store.save(this.#key, text)
      } finally {
        this.#lastMs = this.#clock.monotonic() - startedMs
      }
    })
    return true
  }

  #do(work: (store: StateStore) => Promise<void>): Promise<void> {
    this.#pending++
    this.#work = this.#work.then(async () => {
      try {
        if (!this.#isAbandoned) await work(this.#options.store)
      } catch (error) {
        this.#failed(error)
      } finally {
        this.#pending--
      }
    })
    return this.#work
  }

  /** Waits for the store, but not forever. */
  async #inTime(work: Promise<void>): Promise<void> {
    const late = (): Error => new Error(`the store of saved states did not answer within ${PATIENCE_MS} ms`)
    await withDeadline(this.#clock, PATIENCE_MS, undefined, late, () => work).catch((error) => this.#failed(error))
  }

  #failed(error: unknown): void {
    notifyUser('onError', undefined, () => this.#options.onError?.(error))
  }
}

function stateKey({ server, user }: SavedStateOptions, selection: Selection): string {
  const query = Object.entries(selectionQuery(selection)).toSorted(([a], [b]) => (a < b ? -1 : 1))
  return JSON.stringify([server.replace(/\/+$/, ''), user, selection.path, query])
}

/** @returns null for a text that cannot be used, because a later release wrote it or it is damaged. */
function parsed(text: string, key: string): SavedDocument | null {
  const saved = jsonIn(text) as Partial<SavedDocument> | null | undefined
  if (saved?.format !== FORMAT || saved.key !== key || typeof saved.resourceVersion !== 'string') return null
  const { items, history } = saved
  const isWhole =
    Array.isArray(items) && items.every((item: KubeObject | null) => typeof item?.metadata?.name === 'string')
  return isWhole && (history === null || typeof history === 'string') ? (saved as SavedDocument) : null
}

/** Returns a response that makes the reflector list again. */
function unknownHistory(history: string): TransportResponse {
  const message = `the server does not confirm the history ${JSON.stringify(history)} of the saved state`
  const body = new TextEncoder().encode(JSON.stringify({ kind: 'Status', code: 410, reason: 'Expired', message }))
  return {
    status: 410,
    header: () => null,
    body: (async function* () {
      yield body
    })(),
  }
}
