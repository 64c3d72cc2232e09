/**
 * One resource of another server, read and watched like a prefix of etcd: another distributary over SSE, or a
 * kube-apiserver in JSON lines. The feed that lists, watches, verifies and checks etcd therefore works here unchanged.
 *
 * Reads are lists. Consistent lists ask the server for data as fresh as its own quorum read; exact ones name their
 * revision. A kube-apiserver's whole resource is streamed if the server supports it (WatchList), which costs that
 * server a fraction of the memory of a list.
 */
import { bytesCodec, type BytesObject } from '../../client/reflector/bytes-codec.js'
import { WatchFailure } from '../../client/reflector/failure.js'
import { runWatch } from '../../client/reflector/watch-job.js'
import type { Key, KeyValue } from '../../engine/model/event.js'
import { type Resource, nameOfKey, resourceId } from '../../engine/model/resource.js'
import { formatResourceVersion } from '../../engine/model/resource-version.js'
import type { Revision } from '../../engine/model/revision.js'
import type { Random } from '../../support/random.js'
import {
  type Page,
  type ReadOptions,
  type SourceAge,
  UpstreamError,
  type UpstreamReader,
  type UpstreamStatus,
  type UpstreamWatch,
  type UpstreamWatcher,
  type WatchHandlers,
  type UpstreamWatchOptions,
} from '../../engine/upstream/upstream.js'
import { asUpstreamError } from './http-failure.js'
import { HttpKeyValues, revisionOf } from './http-key-value.js'
import type { RemoteApiServer } from './remote-api-server.js'
import { RemoteWatch } from './remote-watch.js'

/** The most objects in a page, which is parsed in one step. */
const PAGE_ITEMS = 1_000

export interface HttpResourceOptions {
  readonly server: RemoteApiServer
  readonly resource: Resource
  readonly random: Random
  /** Default: 150 s; bookmarks come about every minute. */
  readonly silenceMs?: number
}

const METADATA_ONLY = 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json'
/** Asks a distributary whether its answers to progress requests can be trusted. */
const ASK_HEADER = 'x-distributary-ask'
const TRUST_HEADER = 'x-distributary-trusts-progress'
const SILENCE_MS = 150_000
const STREAM_TIMEOUT_SECONDS = 120
/** Enough for the pages of a few concurrent lists: a token is used by the next page. */
const MAX_TOKENS = 64

export class HttpResource implements UpstreamReader, UpstreamWatcher {
  readonly #options: HttpResourceOptions
  readonly #keyValues: HttpKeyValues
  readonly #path: string
  /** The server's own tokens, by revision and the first key of the page they lead to. */
  readonly #tokens = new Map<string, string>()
  #canStream = true
  #trustsProgress = false

  constructor(options: HttpResourceOptions) {
    this.#options = options
    this.#keyValues = new HttpKeyValues(options.resource)
    this.#path = pathOf(options.resource, '')
  }

  async read(options: ReadOptions): Promise<Page> {
    const { startKey, revision, limit, keysOnly = false, signal } = options
    const isWhole = startKey === undefined && revision === undefined && !keysOnly && limit !== 1
    if (isWhole) {
      const streamed = await this.#stream(signal)
      if (streamed !== null) return streamed
    }
    const page = await this.#list(options)
    const { resourceVersion, items, continueToken, remainingItemCount } = page
    const at = revisionOf(resourceVersion)
    const keyValues = items.map((item) => this.#keyValues.keyValue(item, keysOnly))
    const last = keyValues.at(-1)
    const more = continueToken !== ''
    if (more && last !== undefined) this.#keepToken(at, (last.key + '\0') as Key, continueToken)
    const left = more ? (remainingItemCount ?? (await this.#countAfter(options, at, items.length))) : 0
    return { revision: at, currentRevision: at, keyValues, more, count: items.length + left }
  }

  async readKey(key: Key, options: { revision?: Revision; signal?: AbortSignal } = {}): Promise<KeyValue | null> {
    const { resource, server } = this.#options
    const { revision, signal } = options
    const named = nameOfKey(resource, key)
    if (named === null) return null
    const collection = pathOf(resource, named.namespace)
    if (revision === undefined) return await this.#readNow(collection, named.name, signal)
    const { body } = await server.get({
      path: collection,
      query: {
        fieldSelector: `metadata.name=${escaped(named.name)}`,
        resourceVersion: formatResourceVersion(revision),
        resourceVersionMatch: 'Exact',
      },
      ...(signal === undefined ? {} : { signal }),
    })
    const [item] = this.#decode(body).items
    return item === undefined ? null : this.#keyValues.keyValue(item, false)
  }

  async #readNow(collection: string, name: string, signal: AbortSignal | undefined): Promise<KeyValue | null> {
    const path = `${collection}/${encodeURIComponent(name)}`
    try {
      const { body } = await this.#options.server.get({ path, ...(signal === undefined ? {} : { signal }) })
      const decoded = bytesCodec.decodeObject('ADDED', body)
      if (!('object' in decoded)) throw new UpstreamError('protocol', `${path}: no object`)
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
      ...(signal === undefined ? {} : { signal }),
    })
    return revisionOf(page.resourceVersion)
  }

  async status(signal?: AbortSignal): Promise<UpstreamStatus> {
    const { server } = this.#options
    const { gitVersion, isDistributary } = await server.product(signal)
    const clusterId = await server.clusterId(signal)
    const { response, body } = await server.get({
      path: this.#path,
      query: { limit: '1' },
      accept: METADATA_ONLY,
      headers: isDistributary ? { [ASK_HEADER]: 'progress' } : {},
      ...(signal === undefined ? {} : { signal }),
    })
    this.#trustsProgress = isDistributary && response.header(TRUST_HEADER) === 'true'
    const revision = revisionOf(this.#decode(body).resourceVersion)
    const trustsProgress = this.#trustsProgress
    // A distributary has its history in memory; a kube-apiserver would read it from etcd.
    return { clusterId, revision, serverVersions: [gitVersion], trustsProgress, isHistoryDear: !isDistributary }
  }

  watch({ startRevision }: UpstreamWatchOptions, handlers: WatchHandlers): UpstreamWatch {
    const { server, resource, random, silenceMs = SILENCE_MS } = this.#options
    const opening = new Opening(handlers, () => server.ageOf(resourceId(resource)))
    const open = async (): Promise<void> => {
      const { wire, isDistributary } = server.knownProduct ?? (await server.product())
      if (opening.isClosed) return
      // resourceVersion 0 would mean "the present state", which the caller does not want.
      if (startRevision <= 1) throw new UpstreamError('protocol', 'there is no resourceVersion before the first')
      const { transport, clock } = server
      opening.opened(
        new RemoteWatch({
          transport,
          wire,
          marksRevisions: isDistributary,
          path: this.#path,
          keyValues: this.#keyValues,
          clock,
          random,
          afterRevision: (startRevision - 1) as Revision,
          handlers: opening.handlers,
          silenceMs,
          provesProgress: this.#trustsProgress,
        }),
        server.follow((error) => opening.fail(error)),
      )
    }
    void open().catch((error: unknown) => opening.fail(asUpstreamError(error, this.#path)))
    return opening
  }

  /** Reads the whole state as initial events; null if the server does not support that. @throws UpstreamError */
  async #stream(signal: AbortSignal | undefined): Promise<Page | null> {
    const { server } = this.#options
    const { wire } = server.knownProduct ?? (await server.product(signal))
    if (!this.#canStream) return null
    const done = new AbortController()
    const onAbort = (): void => done.abort(signal?.reason)
    signal?.addEventListener('abort', onAbort, { once: true })
    let page: Page | null = null
    try {
      await runWatch<BytesObject>({
        transport: server.transport,
        wire,
        codec: bytesCodec,
        clock: server.clock,
        path: this.#path,
        query: {
          watch: '1',
          sendInitialEvents: 'true',
          allowWatchBookmarks: 'true',
          resourceVersionMatch: 'NotOlderThan',
          timeoutSeconds: String(STREAM_TIMEOUT_SECONDS),
        },
        signal: done.signal,
        openTimeoutMs: STREAM_TIMEOUT_SECONDS * 1_000,
        initialSilenceMs: STREAM_SILENCE_MS,
        silenceMs: STREAM_SILENCE_MS,
        place: null,
        onOpen: () => undefined,
        onInitial: (items, resourceVersion) => {
          page = this.#wholePage(items, resourceVersion)
          done.abort()
        },
        onChange: () => undefined,
        onBookmark: () => undefined,
        onProgress: () => undefined,
        settled: undefined,
      })
    } catch (error) {
      if (page === null) {
        // If streaming takes too long, the next read uses pages.
        if (signal?.aborted === true) this.#canStream = false
        if (signal?.aborted === true || !isUnsupported(error))
          throw asUpstreamError(signal?.reason ?? error, this.#path)
      }
    } finally {
      signal?.removeEventListener('abort', onAbort)
    }
    if (page === null) this.#canStream = false
    return page
  }

  #wholePage(items: readonly BytesObject[], resourceVersion: string): Page {
    const revision = revisionOf(resourceVersion)
    const keyValues = items.map((item) => this.#keyValues.keyValue(item, false))
    keyValues.sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0))
    return { revision, currentRevision: revision, keyValues, more: false, count: keyValues.length }
  }

  async #list({ startKey, revision, limit, keysOnly = false, signal }: ReadOptions) {
    const { server } = this.#options
    const query: Record<string, string> = limit === undefined ? {} : { limit: String(Math.min(limit, PAGE_ITEMS)) }
    if (startKey !== undefined) query['continue'] = this.#token(revision, startKey)
    else if (revision !== undefined) {
      query['resourceVersion'] = formatResourceVersion(revision)
      query['resourceVersionMatch'] = 'Exact'
    }
    const { body } = await server.get({
      path: this.#path,
      query,
      ...(keysOnly ? { accept: METADATA_ONLY } : {}),
      ...(signal === undefined ? {} : { signal }),
    })
    return this.#decode(body)
  }

  /** Counts the remaining objects if the server does not report their number. */
  async #countAfter(options: ReadOptions, revision: Revision, known: number): Promise<number> {
    if (options.startKey !== undefined) return 1
    const { limit: _limit, ...all } = options
    const { items } = await this.#list({ ...all, revision, keysOnly: true })
    return items.length - known
  }

  #decode(body: Uint8Array) {
    try {
      return bytesCodec.decodeList(body)
    } catch (error) {
      throw asUpstreamError(error, this.#path)
    }
  }

  #keepToken(revision: Revision, startKey: Key, token: string): void {
    const [oldest] = this.#tokens.keys()
    if (this.#tokens.size >= MAX_TOKENS && oldest !== undefined) this.#tokens.delete(oldest)
    this.#tokens.set(`${revision} ${startKey}`, token)
  }

  #token(revision: Revision | undefined, startKey: Key): string {
    const token = this.#tokens.get(`${revision} ${startKey}`)
    if (token === undefined) throw new UpstreamError('protocol', 'a page from the middle of a list that was not begun')
    return token
  }
}

const STREAM_SILENCE_MS = 10_000

/** A watch that waits until the server's product is known. Ending it ends the watch behind it, and vice versa. */
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

/** Returns the path of the collection. */
function pathOf({ group, version, plural }: Resource, namespace: string): string {
  const root = group === '' ? `/api/${version}` : `/apis/${group}/${version}`
  const scope = namespace === '' ? '' : `/namespaces/${encodeURIComponent(namespace)}`
  return `${root}${scope}/${plural}`
}

function isNamed(status: WatchFailure['status'], name: string): boolean {
  const details = status?.details as { readonly name?: string } | undefined
  return details?.name === name
}

/** Escapes a value for a field selector. */
function escaped(value: string): string {
  return value.replace(/[\\,=]/g, '\\$&')
}
