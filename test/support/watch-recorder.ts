/**
 * A plain HTTP client that lists and watches a server by URL and records what it saw, for the validators.
 *
 * It shares no code with the product: Node's `http` or `https`, one connection per watch, and controls for what a bad
 * client or network does: stop reading, disconnect, resume at the last resourceVersion or bookmark.
 */
import http from 'node:http'
import https from 'node:https'
import type { Key } from '../../src/engine/model/event.js'
import { type Revision, toRevision, ZERO_REVISION } from '../../src/engine/model/revision.js'
import {
  fingerprintOf,
  type ListItem,
  type ListRecord,
  type RecordedHistory,
  type Scope,
  type WatchEndKind,
  type WatchItem,
  type WatchRecord,
  type WatchStart,
  type WriteRecord,
} from './history.js'
import { LineSplitter } from './json-lines.js'

/** A resource as clients and etcd name it. */
export interface Target {
  /** `/api/v1`, `/apis/apps/v1`. */
  readonly groupVersionPath: string
  readonly plural: string
  /** Ends in '/'. */
  readonly prefix: Key
}

export interface RequestScope {
  readonly target: Target
  readonly namespace?: string
  readonly labelSelector?: string
  readonly fieldSelector?: string
  /** The effect of both selectors, computed by the test and not by the code under test. */
  readonly selects?: (object: unknown) => boolean
}

export interface WatchRequest extends RequestScope {
  /** A name for messages. Default: a number and the resource. */
  readonly name?: string
  /** '' means unset. Default: ''. */
  readonly resourceVersion?: string
  readonly sendInitialEvents?: boolean
  /** Default: true. */
  readonly allowWatchBookmarks?: boolean
  readonly timeoutSeconds?: number
  /** False for projections (Table, PartialObjectMetadata), which are compared only by revision. Default: true. */
  readonly isWhole?: boolean
  readonly headers?: Readonly<Record<string, string>>
}

export interface ListRequest extends RequestScope {
  readonly name?: string
  readonly resourceVersion?: string
  readonly resourceVersionMatch?: 'Exact' | 'NotOlderThan'
  /** The page size. If it is set, all pages are fetched in order. */
  readonly limit?: number
  readonly headers?: Readonly<Record<string, string>>
}

export interface WatchRecorderOptions {
  /** The URL of the server, without a path. */
  readonly url: string
  /** Options for TLS: `ca`, `cert`, `key`, `servername`. */
  readonly requestOptions?: https.RequestOptions
  /** The clock of the writes, in milliseconds. Default: `performance.now`. */
  readonly now?: () => number
}

/** A list that was refused. */
export class ListError extends Error {
  override readonly name = 'ListError'

  constructor(
    readonly status: number,
    readonly body: string,
  ) {
    super(`the list was answered with ${status}: ${body.slice(0, 200)}`)
  }
}

interface WireObject {
  readonly kind?: string
  readonly metadata?: {
    readonly name?: string
    readonly namespace?: string
    readonly resourceVersion?: string
    readonly continue?: string
    readonly annotations?: Readonly<Record<string, string>>
  }
  readonly items?: readonly WireObject[]
  readonly code?: number
  readonly message?: string
}

export class WatchRecorder {
  readonly #options: WatchRecorderOptions
  readonly #now: () => number
  readonly #watches: RecordedWatch[] = []
  readonly #lists: ListRecord[] = []
  #names = 0

  constructor(options: WatchRecorderOptions) {
    this.#options = options
    this.#now = options.now ?? (() => performance.now())
  }

  get watches(): readonly RecordedWatch[] {
    return this.#watches
  }

  watch(request: WatchRequest): RecordedWatch {
    const name = request.name ?? `watch-${++this.#names} of ${request.target.plural}`
    const watch = new RecordedWatch(name, request, this.#now(), (onResponse) => {
      const query = selectorsOf(request)
      query.set('watch', 'true')
      query.set('allowWatchBookmarks', String(request.allowWatchBookmarks ?? true))
      if (request.resourceVersion) query.set('resourceVersion', request.resourceVersion)
      if (request.sendInitialEvents !== undefined) {
        query.set('sendInitialEvents', String(request.sendInitialEvents))
        query.set('resourceVersionMatch', 'NotOlderThan')
      }
      if (request.timeoutSeconds !== undefined) query.set('timeoutSeconds', String(request.timeoutSeconds))
      return this.#request(pathOf(request), query, request.headers, onResponse)
    })
    this.#watches.push(watch)
    return watch
  }

  /** The same watch again, resumed where the ended one allows it without loss; null when it never got that far. */
  resume(ended: RecordedWatch, at: 'bookmark' | 'event'): RecordedWatch | null {
    const revision = at === 'bookmark' ? ended.lastBookmark : ended.lastRevision
    if (revision === null) return null
    const { sendInitialEvents: _, ...request } = ended.request
    return this.watch({ ...request, name: `${ended.name}→${revision}`, resourceVersion: String(revision) })
  }

  /** Lists all pages. @throws ListError for any status but 200. */
  async list(request: ListRequest): Promise<ListRecord> {
    const requestedAtMs = this.#now()
    const { resourceVersion = '', resourceVersionMatch: match, limit } = request
    const items: ListItem[] = []
    let revision: Revision | null = null
    let statedAgeMs = 0
    let continueToken: string | undefined
    do {
      const query = selectorsOf(request)
      if (limit !== undefined) query.set('limit', String(limit))
      if (continueToken !== undefined) {
        query.set('continue', continueToken)
      } else {
        if (resourceVersion !== '') query.set('resourceVersion', resourceVersion)
        if (match !== undefined) query.set('resourceVersionMatch', match)
      }
      const { page, ageMs } = await this.#get(pathOf(request), query, request.headers)
      if (revision === null) {
        revision = toRevision(page.metadata?.resourceVersion ?? 'none')
        statedAgeMs = ageMs
      }
      for (const object of page.items ?? []) {
        items.push({
          id: idOf(object),
          revision: toRevision(object.metadata?.resourceVersion ?? 'none'),
          fingerprint: fingerprintOf(withListKind(object, page)),
        })
      }
      continueToken = page.metadata?.continue || undefined
    } while (continueToken !== undefined)
    const asked = askedOf(resourceVersion, match, limit)
    const name = request.name ?? `list-${++this.#names} of ${request.target.plural}`
    const record = { name, scope: scopeOf(request), asked, revision, items, requestedAtMs, statedAgeMs }
    this.#lists.push(record)
    return record
  }

  /** Returns what was seen until now, including running streams. */
  history(writes: readonly WriteRecord[] = []): RecordedHistory {
    return { watches: this.#watches.map((watch) => watch.record()), lists: [...this.#lists], writes: [...writes] }
  }

  /** Disconnects every watch. */
  close(): void {
    for (const watch of this.#watches) watch.destroy()
  }

  async #get(
    path: string,
    query: URLSearchParams,
    headers?: Readonly<Record<string, string>>,
  ): Promise<{ readonly page: WireObject; readonly ageMs: number }> {
    const [{ statusCode = 0, headers: said }, body] = await new Promise<[http.IncomingMessage, string]>(
      (resolve, reject) => {
        const request = this.#request(path, query, headers, (response) => {
          const chunks: Buffer[] = []
          response.on('data', (chunk: Buffer) => chunks.push(chunk))
          response.on('error', reject)
          response.on('end', () => resolve([response, Buffer.concat(chunks).toString('utf8')]))
        })
        request.on('error', reject)
      },
    )
    if (statusCode !== 200) throw new ListError(statusCode, body)
    const age = said['x-distributary-staleness-seconds']
    return { page: JSON.parse(body) as WireObject, ageMs: Number(age ?? 0) * 1_000 }
  }

  #request(
    path: string,
    query: URLSearchParams,
    headers: Readonly<Record<string, string>> | undefined,
    onResponse: (response: http.IncomingMessage) => void,
  ): http.ClientRequest {
    const url = new URL(`${path}?${query.toString()}`, this.#options.url)
    const options = {
      ...this.#options.requestOptions,
      agent: false,
      headers: { accept: 'application/json', ...headers },
    }
    const request = url.protocol === 'https:' ? https.get(url, options, onResponse) : http.get(url, options, onResponse)
    return request
  }
}

export class RecordedWatch {
  readonly items: WatchItem[] = []
  /** Resolves when the stream has ended in any way. */
  readonly ended: Promise<void>
  end: WatchEndKind = 'open'
  /** The status of the HTTP response, or the code of the ERROR event. */
  code: number | undefined
  /** The message of the ERROR event. */
  message = ''
  /** A wire object that the recorder does not understand: the server's mistake, or the recorder's. */
  malformed: string | null = null
  readonly #request: http.ClientRequest
  readonly #start: WatchStart
  #response: http.IncomingMessage | null = null
  #isPaused = false
  #onEnded = (): void => {}
  readonly #waiters = new Set<() => void>()

  constructor(
    readonly name: string,
    readonly request: WatchRequest,
    readonly requestedAtMs: number,
    open: (onResponse: (response: http.IncomingMessage) => void) => http.ClientRequest,
  ) {
    this.#start = startOf(request)
    this.ended = new Promise((resolve) => {
      this.#onEnded = resolve
    })
    this.#request = open((response) => this.#read(response))
    this.#request.on('error', () => this.#finish('cut'))
  }

  /** Stops reading: the server's socket fills up. */
  pause(): void {
    this.#isPaused = true
    this.#response?.pause()
  }

  unpause(): void {
    this.#isPaused = false
    this.#response?.resume()
  }

  /** Disconnects, as a client that dies does. */
  destroy(): void {
    this.#finish('cut')
    this.#request.destroy()
  }

  /** Where to resume without loss; null before the initial state is complete, or without bookmarks. */
  get lastBookmark(): Revision | null {
    return this.items.findLast(({ type }) => type === 'BOOKMARK')?.revision ?? this.#startRevision
  }

  /**
   * Where client-go resumes: at the last event or bookmark. In the middle of a revision, this loses the rest of the
   * revision, as it would at an API server.
   */
  get lastRevision(): Revision | null {
    const { type } = this.items.at(-1) ?? {}
    if (type === undefined) return this.#startRevision
    if (this.#start.kind === 'initial' && !this.items.some(({ type }) => type === 'BOOKMARK')) return null
    return this.items.at(-1)?.revision ?? null
  }

  /**
   * Resolves when the condition holds for what was received.
   *
   * @throws Error at the stream's end or after `timeoutMs`.
   */
  until(condition: (watch: this) => boolean, timeoutMs = 20_000): Promise<void> {
    return new Promise((resolve, reject) => {
      const check = (): void => {
        if (condition(this)) done(null)
        else if (this.end !== 'open')
          done(new Error(`${this.name} ended (${this.end} ${this.code}) before what was awaited`))
      }
      const timer = setTimeout(() => {
        const last = JSON.stringify(this.items.at(-1))
        done(new Error(`${this.name}: not within ${timeoutMs} ms; ${this.items.length} items, the last ${last}`))
      }, timeoutMs)
      const done = (error: Error | null): void => {
        clearTimeout(timer)
        this.#waiters.delete(check)
        if (error === null) resolve()
        else reject(error)
      }
      this.#waiters.add(check)
      check()
    })
  }

  /** Resolves when what was received shows that everything up to the revision has arrived. */
  untilRevision(revision: Revision, timeoutMs?: number): Promise<void> {
    return this.until(() => (this.items.at(-1)?.revision ?? 0) >= revision, timeoutMs)
  }

  record(): WatchRecord {
    return {
      name: this.name,
      scope: scopeOf(this.request),
      start: this.#start,
      items: [...this.items],
      end: this.end,
      ...(this.code === undefined ? {} : { code: this.code }),
      ...(/has never existed/.test(this.message) ? { neverHad: true } : {}),
      requestedAtMs: this.requestedAtMs,
    }
  }

  get #startRevision(): Revision | null {
    return this.#start.kind === 'after' ? this.#start.revision : null
  }

  #read(response: http.IncomingMessage): void {
    this.#response = response
    if (response.statusCode !== 200) {
      this.code = response.statusCode ?? 0
      response.resume()
      response.on('close', () => this.#finish('error'))
      return
    }
    const lines = new LineSplitter((line) => this.#receive(line))
    response.on('data', (chunk: Buffer) => lines.push(chunk))
    response.on('error', () => this.#finish('cut'))
    response.on('close', () => {
      const isWhole = response.complete && lines.pendingBytes === 0
      this.#finish(!isWhole ? 'cut' : this.code === undefined ? 'eof' : 'error')
    })
    if (this.#isPaused) response.pause()
  }

  #receive(line: string): void {
    if (this.end !== 'open') return
    try {
      const { type, object } = JSON.parse(line) as { type: string; object: WireObject }
      if (type === 'ERROR') {
        this.code = object.code ?? 0
        this.message = object.message ?? ''
      } else this.items.push(this.#itemOf(type, object))
    } catch (error) {
      this.malformed ??= `${String(error)}: ${line.slice(0, 200)}`
    }
    for (const check of this.#waiters) check()
  }

  #itemOf(type: string, object: WireObject): WatchItem {
    const revision = toRevision(object.metadata?.resourceVersion ?? 'none')
    switch (type) {
      case 'BOOKMARK': {
        const isInitialEventsEnd = object.metadata?.annotations?.['k8s.io/initial-events-end'] === 'true'
        return { type, revision, isInitialEventsEnd }
      }
      case 'ADDED':
      case 'MODIFIED':
      case 'DELETED': {
        const fingerprint = this.request.isWhole === false ? null : fingerprintOf(object)
        return { type, revision, id: idOf(object), fingerprint }
      }
      default:
        throw new Error(`event type ${type}`)
    }
  }

  #finish(end: WatchEndKind): void {
    if (this.end !== 'open') return
    this.end = end
    for (const check of this.#waiters) check()
    this.#onEnded()
  }
}

function startOf(request: WatchRequest): WatchStart {
  const { resourceVersion = '', sendInitialEvents, allowWatchBookmarks = true } = request
  const isLegacy = sendInitialEvents === undefined && (resourceVersion === '' || resourceVersion === '0')
  if (sendInitialEvents !== true && !isLegacy) {
    return { kind: 'after', revision: toRevision(resourceVersion === '' ? 0 : resourceVersion) }
  }
  const notOlderThan = resourceVersion === '' ? 'consistent' : toRevision(resourceVersion)
  return { kind: 'initial', notOlderThan, hasEndMark: allowWatchBookmarks }
}

function askedOf(resourceVersion: string, match: string | undefined, limit: number | undefined): ListRecord['asked'] {
  if (resourceVersion === '') return { kind: 'consistent' }
  if (resourceVersion === '0') return { kind: 'not-older-than', revision: ZERO_REVISION }
  const isExact = match === 'Exact' || (match === undefined && limit !== undefined)
  return { kind: isExact ? 'exact' : 'not-older-than', revision: toRevision(resourceVersion) }
}

function scopeOf({ target, namespace, selects }: RequestScope): Scope {
  return {
    prefix: target.prefix,
    ...(namespace === undefined ? {} : { namespace }),
    ...(selects === undefined ? {} : { selects }),
  }
}

function pathOf({ target, namespace }: RequestScope): string {
  const inNamespace = namespace === undefined ? '' : `/namespaces/${encodeURIComponent(namespace)}`
  return `${target.groupVersionPath}${inNamespace}/${target.plural}`
}

function selectorsOf({ labelSelector, fieldSelector }: RequestScope): URLSearchParams {
  const query = new URLSearchParams()
  if (labelSelector !== undefined) query.set('labelSelector', labelSelector)
  if (fieldSelector !== undefined) query.set('fieldSelector', fieldSelector)
  return query
}

/** The key after the prefix, from the object's namespace and name. */
function idOf(object: WireObject): string {
  const { namespace, name = '' } = object.metadata ?? {}
  return namespace === undefined || namespace === '' ? name : `${namespace}/${name}`
}

/** An API server omits kind and apiVersion from a list's items when the list states them; stored objects have both. */
function withListKind(object: WireObject, list: WireObject & { apiVersion?: string }): object {
  if (object.kind !== undefined) return object
  return { ...object, kind: list.kind?.replace(/List$/, ''), apiVersion: list.apiVersion }
}
