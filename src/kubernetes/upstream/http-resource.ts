/**
 * One resource of another server, read and watched like a prefix of etcd. The server is another distributary (over
 * SSE) or a kube-apiserver (in protobuf for built-in kinds and in JSON lines for others). The feed that lists,
 * watches, verifies and checks etcd therefore works here unchanged.
 *
 * Reads are lists. Consistent lists ask the server for data as fresh as its own quorum read; exact lists name their
 * revision. If the server supports it, the whole resource is streamed instead (WatchList). This takes a fraction of
 * the memory of a list on that server, and the watch continues in the same response (`state-stream.ts`).
 */
import { bytesCodec, type BytesObject } from '../../client/reflector/bytes-codec.js'
import { WatchFailure } from '../../client/reflector/watch-failure.js'
import type { EventWire } from '../../client/reflector/event-stream.js'
import type { ObjectCodec } from '../../client/reflector/object-codec.js'
import { resourcePath } from '../../client/resource-path.js'
import { type Key, type KeyValue, keyToText } from '../../engine/model/event.js'
import { type ApiResource, apiVersion, nameOfKey, resourceId } from '../model/api-resource.js'
import { formatResourceVersion } from '../model/resource-version.js'
import { nextRevision, type Revision } from '../../engine/model/revision.js'
import type { Timer } from '../../support/clock.js'
import type { Random } from '../../support/random.js'
import { recentEntries } from '../../support/recent-entries.js'
import {
  type Page,
  type ReadOptions,
  type SourceAge,
  UpstreamError,
  type UpstreamReader,
  type UpstreamStatus,
  type UpstreamWatch,
  type UpstreamWatcher,
  type WatchEnd,
  type WatchHandlers,
  type UpstreamWatchOptions,
} from '../../engine/upstream/upstream.js'
import { asUpstreamError } from './http-failure.js'
import { HttpKeyValues, revisionOf } from './http-key-value.js'
import { kubernetesSchema } from '../codec/protobuf/schema.js'
import { PROTOBUF_CONTENT_TYPE } from '../codec/protobuf/envelope.js'
import { protobufCodec, protobufWire } from './protobuf-wire.js'
import type { Product, RemoteApiServer } from './remote-api-server.js'
import { EVERY_VERSION, RemoteWatch, watchSeconds } from './remote-watch.js'
import { StateStream } from './state-stream.js'

/** The most objects in a page, which is parsed in one step. */
const PAGE_ITEMS = 1_000

export interface HttpResourceOptions {
  readonly server: RemoteApiServer
  readonly resource: ApiResource
  readonly random: Random
  /** Default: 150 s, because bookmarks come about every minute. */
  readonly silenceMs?: number
}

const METADATA_ONLY = 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json'
/** Asks a distributary whether its progress responses can be trusted. */
const TRUST_REQUEST_HEADER = 'x-distributary-ask'
const TRUST_HEADER = 'x-distributary-trusts-progress'
const SILENCE_MS = 150_000
/** Enough for the pages of a few concurrent lists, because each token is needed only until the next page. */
const MAX_TOKENS = 64
/**
 * How long a kube-apiserver keeps a watch that asks for its progress. It sends the bookmark two seconds before the
 * end. A distributary sends one immediately.
 */
const API_SERVER_PROOF_SECONDS = 3
const PROOF_SECONDS = 1
/**
 * Up to this many objects, listing them all is faster than waiting for a kube-apiserver's bookmark, which takes a
 * second or two.
 */
const FEW_OBJECTS = 500
/** How soon the watch must follow its state. The state must be stored first. */
const FOLLOW_MS = 60_000

/** How long states are not streamed after a failure. The server may have been overloaded, or replaced since. */
const PAGES_MS = 10 * 60_000

/**
 * The groups of definitions. This server reads definitions itself, as JSON, which is also how API servers store them.
 */
const READ_HERE: ReadonlySet<string> = new Set(['apiextensions.k8s.io', 'apiregistration.k8s.io'])

/** Events are the only objects to which an API server gives a lease, and those that it does not cache. */
const EVENTS_GROUPS: ReadonlySet<string> = new Set(['', 'events.k8s.io'])

/** How objects are requested and read. */
interface Form {
  readonly wire: EventWire
  readonly codec: ObjectCodec<BytesObject>
  readonly accept: string
  /** Further parameters of a watch. */
  readonly query: Readonly<Record<string, string>>
}

/** The response that delivered a state, kept until a watch continues it. */
interface Continued {
  readonly startRevision: Revision
  readonly stream: StateStream
  readonly timer: Timer
}

export class HttpResource implements UpstreamReader, UpstreamWatcher {
  readonly #options: HttpResourceOptions
  readonly #keyValues: HttpKeyValues
  readonly #path: string
  /** The server's own continue tokens, by revision and first key of the next page. */
  readonly #tokens = recentEntries<string, string>(MAX_TOKENS)
  /** Until then states are read in pages, by the monotonic clock. */
  #pagesUntilMs = 0
  /** Set from the responses of another distributary. */
  #trustsProgress = false
  /** False after a kube-apiserver has failed to send a bookmark that was due, until it sends one. */
  #sendsBookmarks = true
  #objects = 0
  /** null for kinds that are read as JSON. */
  #protobuf: ObjectCodec<BytesObject> | null
  #continued: Continued | null = null

  constructor(options: HttpResourceOptions) {
    this.#options = options
    this.#keyValues = new HttpKeyValues(options.resource)
    this.#path = collectionPath(options.resource)
    const { resource } = options
    const hasMessage =
      resource.holds === 'kubernetes' &&
      kubernetesSchema().messageOfKind(apiVersion(resource), resource.kind) !== undefined
    this.#protobuf = hasMessage && !READ_HERE.has(resource.group) ? protobufCodec(resource) : null
  }

  /** A kube-apiserver can always be asked for its progress, but for a few objects a read is faster. */
  get trustsProgress(): boolean {
    if (this.#options.server.knownProduct?.isDistributary !== false) return this.#trustsProgress
    return this.#objects > FEW_OBJECTS && this.#sendsBookmarks
  }

  get #areEvents(): boolean {
    const { plural, group } = this.#options.resource
    return plural === 'events' && EVENTS_GROUPS.has(group)
  }

  async read(options: ReadOptions): Promise<Page> {
    const { startKey, revision, limit, keysOnly = false, willWatch = false, signal } = options
    const isWhole = startKey === undefined && revision === undefined && !keysOnly && limit !== 1
    if (isWhole) {
      const streamed = await this.#stream(willWatch, signal)
      if (streamed !== null) return streamed
    }
    const page = await this.#list(options)
    const { resourceVersion, items, continueToken, remainingItemCount } = page
    const at = revisionOf(resourceVersion)
    const keyValues = this.#inOrder(items, keysOnly)
    const last = keyValues.at(-1)
    const more = continueToken !== ''
    if (more && last !== undefined) this.#keepToken(at, (last.key + '\0') as Key, continueToken)
    const left = more ? (remainingItemCount ?? (await this.#countAfter(options, at, items.length))) : 0
    if (startKey === undefined) this.#objects = items.length + left
    return { revision: at, currentRevision: at, keyValues, more, count: items.length + left }
  }

  async readKey(key: Key, options: { revision?: Revision; signal?: AbortSignal } = {}): Promise<KeyValue | null> {
    const { resource } = this.#options
    const { revision, signal } = options
    const named = nameOfKey(resource, key)
    if (named === null) return null
    const collection = collectionPath(resource, named.namespace)
    const exact: Readonly<Record<string, string>> =
      revision === undefined ? {} : { resourceVersion: formatResourceVersion(revision), resourceVersionMatch: 'Exact' }
    if (revision === undefined && !this.#options.server.wasJustRefused(this.#permission('get'))) {
      try {
        return await this.#readNow(collection, named.name, signal)
      } catch (error) {
        // A role that lets this server list and watch is enough: a list can return a single object.
        if (!(error instanceof UpstreamError) || error.code !== 'permission-denied') throw error
      }
    }
    const query = { fieldSelector: `metadata.name=${escaped(named.name)}`, ...exact }
    const { body, codec } = await this.#get(collection, query, 'list', signal)
    // An aggregated API may ignore the selector.
    const found = this.#decode(body, codec).items.find((item) => this.#keyValues.key(item) === key)
    return found === undefined ? null : this.#keyValues.keyValue(found, false)
  }

  async #readNow(collection: string, name: string, signal: AbortSignal | undefined): Promise<KeyValue | null> {
    const path = `${collection}/${encodeURIComponent(name)}`
    try {
      const { body, codec } = await this.#get(path, {}, 'get', signal)
      const decoded = codec.decodeObject('ADDED', body)
      if (!('object' in decoded)) throw new UpstreamError('protocol', `${path}: the response has no object`)
      return this.#keyValues.keyValue(decoded.object, false)
    } catch (error) {
      const upstreamError = asUpstreamError(error, path)
      const { cause } = upstreamError
      // A 404 names the object when the object is missing, but not when the resource is.
      if (cause instanceof WatchFailure && cause.code === 404 && isNamed(cause.status, name)) return null
      throw upstreamError
    }
  }

  async currentRevision(signal?: AbortSignal): Promise<Revision> {
    const page = await this.#list({
      prefix: this.#options.resource.etcdPrefix,
      limit: 1,
      keysOnly: true,
      signal,
    })
    return revisionOf(page.resourceVersion)
  }

  async status(signal?: AbortSignal): Promise<UpstreamStatus> {
    const { server } = this.#options
    const { gitVersion, isDistributary } = await server.product(signal)
    const clusterId = await server.clusterId(signal)
    if (isDistributary) {
      const { response } = await server.get({
        path: this.#path,
        query: { limit: '1' },
        accept: METADATA_ONLY,
        headers: { [TRUST_REQUEST_HEADER]: 'progress' },
        signal,
      })
      this.#trustsProgress = response.header(TRUST_HEADER) === 'true'
    }
    const { trustsProgress } = this
    // A distributary has its history in memory. A kube-apiserver would read it from etcd, and has only the latest events
    // in memory, of resources that it caches.
    const keepsEvents = !isDistributary && !this.#areEvents && this.#sendsBookmarks
    return { clusterId, serverVersions: [gitVersion], trustsProgress, isHistoryDear: !isDistributary, keepsEvents }
  }

  watch({ startRevision }: UpstreamWatchOptions, handlers: WatchHandlers): UpstreamWatch {
    const { server, resource, random, silenceMs = SILENCE_MS } = this.#options
    const permission = this.#permission('watch')
    // Another distributary may lack the permission itself, and then reports that in its own readiness.
    const isNoted = (): boolean => server.knownProduct?.isDistributary === false
    const onOpen = (): void => {
      if (isNoted()) server.noteAllowed(permission)
      handlers.onOpen()
    }
    const onProgress = (revision: Revision): void => {
      this.#sendsBookmarks = true
      handlers.onProgress(revision)
    }
    const onEnd = (end: WatchEnd): void => {
      if ('error' in end) {
        this.#givesUpProtobuf(end.error)
        if (end.error.code === 'permission-denied' && isNoted()) server.noteRefused(permission, end.error)
      }
      handlers.onEnd(end)
    }
    const opening = new Opening({ ...handlers, onOpen, onProgress, onEnd }, () => server.ageOf(resourceId(resource)))
    const stream = this.#takeContinued(startRevision)
    const cluster = server.knownClusterId
    // If the server does not say, the next end of a watch asks again.
    const isSameCluster = async (signal: AbortSignal): Promise<boolean> =>
      cluster === null || cluster === (await server.clusterId(signal).catch(() => cluster))
    const open = async (): Promise<void> => {
      const product = server.knownProduct ?? (await server.product())
      if (opening.isClosed) return stream?.close()
      const { isDistributary } = product
      const { wire, codec } = this.#formOf(product)
      // resourceVersion 0 would mean "the current state", which is not what the caller wants.
      if (startRevision <= 1) throw new UpstreamError('protocol', 'there is no resourceVersion before the first')
      const { transport, clock } = server
      opening.opened(
        new RemoteWatch({
          transport,
          wire,
          codec,
          marksRevisions: isDistributary,
          expires: this.#areEvents,
          path: this.#path,
          keyValues: this.#keyValues,
          clock,
          random,
          afterRevision: (startRevision - 1) as Revision,
          handlers: opening.handlers,
          silenceMs,
          isSameCluster,
          proofSeconds: !isDistributary ? API_SERVER_PROOF_SECONDS : this.#trustsProgress ? PROOF_SECONDS : null,
          onNoProof: () => (this.#sendsBookmarks = false),
          stream,
        }),
        server.follow((error) => opening.fail(error)),
      )
    }
    void open().catch((error: unknown) => opening.fail(asUpstreamError(error, this.#path)))
    return opening
  }

  /** Reads the whole state as initial events; null if the server does not support that. @throws UpstreamError */
  async #stream(willWatch: boolean, signal: AbortSignal | undefined): Promise<Page | null> {
    const { server, random, silenceMs = SILENCE_MS } = this.#options
    const { wire, codec, query } = await this.#form(signal)
    if (server.clock.monotonic() < this.#pagesUntilMs) return null
    // A role that lets this server only list is enough for a read without a watch.
    const canList = (error: unknown): boolean =>
      !willWatch && asUpstreamError(error, this.#path).code === 'permission-denied'
    if (!willWatch && server.wasJustRefused(this.#permission('watch'))) return null
    const { transport, clock } = server
    const timeoutSeconds = watchSeconds(random)
    const stream = new StateStream({
      transport,
      wire,
      codec,
      clock,
      path: this.#path,
      query,
      timeoutSeconds,
      silenceMs,
    })
    try {
      const { items, resourceVersion } = await stream.state(signal)
      const page = this.#wholePage(items, resourceVersion)
      if (willWatch) this.#continueWith(stream, nextRevision(page.revision))
      else stream.close()
      return { ...page, isContinued: willWatch }
    } catch (error) {
      stream.close()
      if (signal?.aborted === true) {
        // If streaming takes too long, the next read uses pages.
        this.#pagesUntilMs = clock.monotonic() + PAGES_MS
        throw asUpstreamError(signal.reason, this.#path)
      }
      if (this.#givesUpProtobuf(error)) return await this.#stream(willWatch, signal)
      if (canList(error)) return null
      if (!isUnsupported(error)) throw asUpstreamError(error, this.#path)
      this.#pagesUntilMs = clock.monotonic() + PAGES_MS
      return null
    }
  }

  #continueWith(stream: StateStream, startRevision: Revision): void {
    this.#continued?.timer.cancel()
    this.#continued?.stream.close()
    // A watch that starts later finds the response closed.
    const timer = this.#options.server.clock.setTimer(FOLLOW_MS, () => stream.close())
    this.#continued = { startRevision, stream, timer }
  }

  /** Another watch, such as one that reads back history, leaves the response to the watch that continues it. */
  #takeContinued(startRevision: Revision): StateStream | null {
    const continued = this.#continued
    if (continued?.startRevision !== startRevision) return null
    this.#continued = null
    continued.timer.cancel()
    return continued.stream
  }

  async #form(signal: AbortSignal | undefined): Promise<Form> {
    const { server } = this.#options
    return this.#formOf(server.knownProduct ?? (await server.product(signal)))
  }

  #formOf({ wire, isDistributary }: Product): Form {
    if (isDistributary) return { wire, codec: bytesCodec, accept: 'application/json', query: EVERY_VERSION }
    if (this.#protobuf === null) return { wire, codec: bytesCodec, accept: 'application/json', query: {} }
    return { wire: protobufWire, codec: this.#protobuf, accept: PROTOBUF_CONTENT_TYPE, query: {} }
  }

  /** Whether the server has no protobuf for this resource. If so, later requests ask for JSON. */
  #givesUpProtobuf(error: unknown): boolean {
    const { cause } = asUpstreamError(error, this.#path)
    if (this.#protobuf === null || !(cause instanceof WatchFailure && cause.code === 406)) return false
    this.#protobuf = null
    return true
  }

  /** Gets objects in the form in which the server offers them. */
  async #get(
    path: string,
    query: Readonly<Record<string, string>>,
    verb: 'get' | 'list',
    signal: AbortSignal | undefined,
  ): Promise<{ readonly body: Uint8Array; readonly codec: ObjectCodec<BytesObject> }> {
    const { accept, codec } = await this.#form(signal)
    try {
      const permission = this.#permission(verb)
      const { body } = await this.#options.server.get({ path, query, accept, permission, signal })
      return { body, codec }
    } catch (error) {
      if (!this.#givesUpProtobuf(error)) throw error
      return await this.#get(path, query, verb, signal)
    }
  }

  #wholePage(items: readonly BytesObject[], resourceVersion: string): Page {
    const revision = revisionOf(resourceVersion)
    const keyValues = this.#inOrder(items, false)
    this.#objects = keyValues.length
    return { revision, currentRevision: revision, keyValues, more: false, count: keyValues.length }
  }

  /** @throws UpstreamError 'protocol' for two objects with the same name. */
  #inOrder(items: readonly BytesObject[], keysOnly: boolean): KeyValue[] {
    const keyValues = items.map((item) => this.#keyValues.keyValue(item, keysOnly))
    keyValues.sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0))
    const twice = keyValues.find(({ key }, i) => key === keyValues[i + 1]?.key)
    if (twice !== undefined)
      throw new UpstreamError('protocol', `${this.#path}: ${keyToText(twice.key)} is listed twice`)
    return keyValues
  }

  async #list({ startKey, revision, limit, keysOnly = false, signal }: ReadOptions) {
    const query: Record<string, string> = limit === undefined ? {} : { limit: String(Math.min(limit, PAGE_ITEMS)) }
    if (startKey !== undefined) query['continue'] = this.#token(revision, startKey)
    else if (revision !== undefined) {
      query['resourceVersion'] = formatResourceVersion(revision)
      query['resourceVersionMatch'] = 'Exact'
    }
    if (!keysOnly) {
      const { body, codec } = await this.#get(this.#path, query, 'list', signal)
      return this.#decode(body, codec)
    }
    const { body } = await this.#options.server.get({
      path: this.#path,
      query,
      accept: METADATA_ONLY,
      permission: this.#permission('list'),
      signal,
    })
    return this.#decode(body, bytesCodec)
  }

  #permission(verb: 'get' | 'list' | 'watch'): string {
    return `${verb} ${resourceId(this.#options.resource)}`
  }

  /** Counts the remaining objects if the server does not report their number. */
  async #countAfter(options: ReadOptions, revision: Revision, known: number): Promise<number> {
    if (options.startKey !== undefined) return 1
    const { limit: _limit, ...all } = options
    const { items } = await this.#list({ ...all, revision, keysOnly: true })
    return items.length - known
  }

  #decode(body: Uint8Array, codec: ObjectCodec<BytesObject>) {
    try {
      return codec.decodeList(body)
    } catch (error) {
      throw asUpstreamError(error, this.#path)
    }
  }

  #keepToken(revision: Revision, startKey: Key, token: string): void {
    this.#tokens.set(`${revision} ${startKey}`, token)
  }

  #token(revision: Revision | undefined, startKey: Key): string {
    const token = this.#tokens.get(`${revision} ${startKey}`)
    if (token === undefined) throw new UpstreamError('protocol', 'a page from the middle of a list that was not begun')
    return token
  }
}

/** A watch that waits until the server's product is known. Ending it ends the real watch, and vice versa. */
class Opening implements UpstreamWatch {
  readonly handlers: WatchHandlers
  readonly #given: WatchHandlers
  readonly #age: () => SourceAge | null
  #watch: RemoteWatch | null = null
  #unfollow: (() => void) | null = null
  #isClosed = false

  constructor(handlers: WatchHandlers, age: () => SourceAge | null) {
    this.#given = handlers
    this.#age = age
    this.handlers = {
      onOpen: () => handlers.onOpen(),
      onBatches: (batches) => handlers.onBatches(batches),
      onProgress: (revision) => handlers.onProgress(revision),
      onEnd: (end) => {
        if (this.#isClosed) return
        this.close()
        handlers.onEnd(end)
      },
    }
  }

  get age(): SourceAge | null {
    return this.#age()
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  opened(watch: RemoteWatch, unfollow: () => void): void {
    this.#watch = watch
    this.#unfollow = unfollow
  }

  requestProgress(): void {
    this.#watch?.requestProgress()
  }

  fail(error: UpstreamError): void {
    if (this.#isClosed) return
    this.close()
    this.#given.onEnd({ kind: 'failed', error })
  }

  close(): void {
    this.#isClosed = true
    this.#watch?.close()
    this.#unfollow?.()
    this.#unfollow = null
  }
}

function isUnsupported(error: unknown): boolean {
  return error instanceof WatchFailure && error.kind === 'unsupported'
}

function collectionPath({ group, version, plural }: ApiResource, namespace = ''): string {
  return resourcePath({ group, version, plural, namespace })
}

function isNamed(status: WatchFailure['status'], name: string): boolean {
  const details = status?.details as { readonly name?: string } | undefined
  return details?.name === name
}

/** Escapes a value for a field selector. */
function escaped(value: string): string {
  return value.replace(/[\\,=]/g, '\\$&')
}
