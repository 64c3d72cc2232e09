/**
 * Parses the query parameters of a get, list or watch. Every valid combination of resourceVersion,
 * resourceVersionMatch, continue and sendInitialEvents becomes one case of a union, so that no other file interprets
 * these parameters. Contradictions are rejected here, in the API server's words: 422 for a forbidden combination, 400
 * for text that cannot be parsed.
 *
 * Source: ListOptions validation in kubernetes/apimachinery; continue and resourceVersion rules in
 * kubernetes/apiserver.
 */
import type { Key } from '../../engine/model/event.js'
import type { Revision } from '../../engine/model/revision.js'
import type { ApiResource } from '../model/api-resource.js'
import { parseResourceVersion } from '../model/resource-version.js'
import { BadRequestError, InvalidError, type StatusCause } from '../model/status.js'
import { decodeContinueToken } from './continue-token.js'
import { ANY_FIELD, type FieldLabels } from './field-labels.js'
import { nameSelector } from './field-selector.js'
import { parseKeyPrefix } from './key-prefix.js'
import { type Projection, parseProjection } from './projection.js'
import { type Query, flagParameter, integerParameter, parameter } from './query.js'
import { readSelector, Selector, selectorOf, type WrittenSelector } from './selector.js'

/** How fresh a response must be. */
export type RequestedFreshness =
  /** The response is as fresh as a quorum read that begins after the request arrived. */
  | { readonly kind: 'consistent' }
  /** The response is what the cache has now. */
  | { readonly kind: 'cached' }
  | { readonly kind: 'not-older-than'; readonly revision: Revision }

export type ListRead =
  | RequestedFreshness
  | { readonly kind: 'exact'; readonly revision: Revision }
  /**
   * The next page. `start` is relative to the listed prefix (`startKeyOf`). Without a revision, the page is a
   * consistent read at the newest revision.
   */
  | { readonly kind: 'continue'; readonly revision: Revision | null; readonly start: Key }

export interface GetParameters {
  readonly read: RequestedFreshness
  /** The value of `fields=`: only these parts of the object; null for all of it. */
  readonly projection: Projection | null
  /** The part of the object in each row of a Table; other forms accept any text. */
  readonly includeObject: string
}

export interface ListParameters {
  readonly read: ListRead
  /** The most items in a page; null for no limit. */
  readonly limit: number | null
  /** The key prefix after the resource's prefix and the namespace; '' for all keys. */
  readonly keyPrefix: Key
  readonly selector: Selector
  /** The value of `fields=`: only these parts of each object; null for whole objects. */
  readonly projection: Projection | null
  /** The part of the object in each row of a Table; other forms accept any text. */
  readonly includeObject: string
}

export type RequestedStart =
  /** First all present objects as ADDED events from a snapshot at one revision, then the stream. */
  | {
      readonly kind: 'initial-state'
      readonly freshness: RequestedFreshness
      /** Whether a bookmark with `k8s.io/initial-events-end` closes the initial state. */
      readonly endBookmark: boolean
    }
  /** The stream from now on, without the current state. */
  | { readonly kind: 'now'; readonly freshness: RequestedFreshness }
  /** Exactly the events after this revision, which may be a future one. */
  | { readonly kind: 'after'; readonly revision: Revision }

export interface WatchParameters {
  readonly start: RequestedStart
  readonly bookmarks: boolean
  /** null when the server chooses. */
  readonly timeoutSeconds: number | null
  /** As in `ListParameters`. */
  readonly keyPrefix: Key
  readonly selector: Selector
  /** The value of `fields=`: only these parts of each object; null for whole objects. */
  readonly projection: Projection | null
  /** The value of `compress=gzip`: compress the stream itself if the client also accepts that. */
  readonly compress: boolean
  /** The part of the object in each row of a Table; other forms accept any text. */
  readonly includeObject: string
}

/** Longer timeouts overflow the 32-bit milliseconds of a timer; 24 days are long enough. */
const MAX_TIMEOUT_SECONDS = Math.floor((2 ** 31 - 1) / 1000)

/** Whether a GET of a collection is a watch. */
export function isWatch(query: Query): boolean {
  return flagParameter(query, 'watch') === true
}

/** @throws BadRequestError */
export function parseGetParameters(query: Query): GetParameters {
  return {
    read: freshness(resourceVersionText(query)),
    projection: projection(query),
    includeObject: parameter(query, 'includeObject') ?? '',
  }
}

/**
 * @param target what is listed.
 * @throws BadRequestError, InvalidError
 */
export function parseListParameters(query: Query, target: Target = {}): ListParameters {
  const parameters = readParameters(query, target)
  const { resourceVersion, match, continueText } = parameters
  checkListOptions(query, parameters)
  const selector = selected(parameters, target)

  const limit = parameters.limit !== undefined && parameters.limit > 0 ? parameters.limit : null
  const rest = {
    keyPrefix: parameters.keyPrefix,
    selector,
    projection: parameters.projection,
    includeObject: parameter(query, 'includeObject') ?? '',
  }
  if (continueText !== '') {
    const token = decodeContinueToken(continueText)
    if (resourceVersion !== '' && resourceVersion !== '0') {
      throw new BadRequestError('specifying resource version is not allowed when using continue')
    }
    return { read: { kind: 'continue', revision: token.revision, start: token.start }, limit, ...rest }
  }
  const fresh = freshness(resourceVersion)
  // A cached read ignores the limit, as the API server's watch cache does, because clients that send '0' expect one
  // page.
  if (fresh.kind === 'cached') {
    const isPlain = parameter(query, 'resourceVersion') === '0'
    // The API server reads revision 00 exactly from etcd, where 0 means the current revision.
    const isExact = !isPlain && (match === 'Exact' || (match === '' && limit !== null))
    const isWhole = isPlain && !isUncachedThere(target)
    return { read: isExact ? { kind: 'consistent' } : fresh, limit: isWhole ? null : limit, ...rest }
  }
  const isPaged = limit !== null && !isOneObject(selector, target)
  if (fresh.kind === 'not-older-than' && (match === 'Exact' || (match === '' && isPaged))) {
    return { read: { kind: 'exact', revision: fresh.revision }, limit, ...rest }
  }
  return { read: fresh, limit, ...rest }
}

/** Whether the API server has no watch cache for the resource, so it pages lists at every revision. */
function isUncachedThere({ resource }: Target): boolean {
  return resource?.plural === 'events' && (resource.group === '' || resource.group === 'events.k8s.io')
}

/** Whether the list is of a single key. The API server reads such a list directly, without pages. */
function isOneObject(selector: Selector, { resource, namespace = '' }: Target): boolean {
  if ((selector.requiredValue('metadata.name') ?? '') === '') return false
  return resource?.namespaced !== true || namespace !== '' || selector.requiredValue('metadata.namespace') !== undefined
}

/** @throws InvalidError for combinations that a list cannot have. */
function checkListOptions(query: Query, { match, continueText, sendInitialEvents }: Parameters): void {
  const resourceVersion = parameter(query, 'resourceVersion') ?? ''
  const causes: StatusCause[] = []
  if (match !== '') {
    if (resourceVersion === '') {
      causes.push(forbidden(MATCH, 'resourceVersionMatch is forbidden unless resourceVersion is provided'))
    }
    if (continueText !== '')
      causes.push(forbidden(MATCH, 'resourceVersionMatch is forbidden when continue is provided'))
    if (match !== 'Exact' && match !== 'NotOlderThan') {
      causes.push(notSupported(MATCH, match, ['Exact', 'NotOlderThan', '']))
    }
    if (match === 'Exact' && resourceVersion === '0') {
      causes.push(forbidden(MATCH, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    }
  }
  if (sendInitialEvents !== undefined) {
    causes.push(forbidden('sendInitialEvents', 'sendInitialEvents is forbidden for list'))
  }
  refuse(causes)
}

/** The object or collection that a list or watch is for. */
export interface Target {
  /** The name in a path that names one object but is served as a list. It must not contradict the selector. */
  readonly name?: string
  readonly resource?: ApiResource
  /** Default: any scalar path. */
  readonly fieldLabels?: FieldLabels
  /** '' or absent for all namespaces, or if the resource has none. */
  readonly namespace?: string
}

export interface WatchParameterSources extends Target {
  /** The header sent by a reconnecting EventSource; takes precedence over the resourceVersion in the URL. */
  readonly lastEventId?: string
  /** Whether the path (`/watch/`) already makes the request a watch, so the query need not. */
  readonly legacyWatch?: boolean
}

/** @throws BadRequestError, InvalidError */
export function parseWatchParameters(query: Query, request: WatchParameterSources = {}): WatchParameters {
  const parameters = readParameters(query, request)
  const { resourceVersion } = parameters
  const timeoutSeconds = watchSeconds(parameters.timeoutSeconds ?? 0)
  const bookmarks = flagParameter(query, 'allowWatchBookmarks') === true
  // The API server parses the options before the path, so such a request is checked by the rules of a list.
  const isOld = request.legacyWatch === true && !isWatch(query)
  if (isOld) checkListOptions(query, parameters)
  const sendInitialEvents = isOld ? undefined : checkWatchOptions(query, parameters)
  const selector = selected(parameters, request)
  const hasState = sendInitialEvents ?? (resourceVersion === '' || resourceVersion === '0')
  const lastEventId = request.lastEventId ?? ''
  return {
    start:
      lastEventId === ''
        ? watchStart(freshness(resourceVersion), hasState, bookmarks && sendInitialEvents === true)
        : { kind: 'after', revision: parseResourceVersion(lastEventId) },
    bookmarks,
    timeoutSeconds,
    keyPrefix: parameters.keyPrefix,
    selector,
    projection: parameters.projection,
    compress: compress(query),
    includeObject: parameter(query, 'includeObject') ?? '',
  }
}

/** @returns whether the state comes first. @throws InvalidError for combinations that a watch cannot have. */
function checkWatchOptions(query: Query, { continueText, ...given }: Parameters): boolean | undefined {
  // Use the text as sent: 00 also means 0, but the API server recognizes old clients only by a plain 0.
  const resourceVersion = parameter(query, 'resourceVersion') ?? ''
  let { match, sendInitialEvents } = given
  if (match === '' && sendInitialEvents === undefined && (resourceVersion === '' || resourceVersion === '0')) {
    match = 'NotOlderThan'
    sendInitialEvents = true
  }
  const causes: StatusCause[] = []
  if (sendInitialEvents !== undefined && match !== 'NotOlderThan') {
    causes.push(forbidden(MATCH, 'sendInitialEvents requires setting resourceVersionMatch to NotOlderThan'))
  }
  if (match !== '') {
    if (sendInitialEvents === undefined) {
      causes.push(forbidden(MATCH, 'resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided'))
    }
    if (match !== 'NotOlderThan') causes.push(notSupported(MATCH, match, ['NotOlderThan']))
    if (continueText !== '')
      causes.push(forbidden(MATCH, 'resourceVersionMatch is forbidden when continue is provided'))
  }
  refuse(causes)
  return sendInitialEvents
}

function watchStart(fresh: RequestedFreshness, hasState: boolean, endBookmark: boolean): RequestedStart {
  if (hasState) return { kind: 'initial-state', freshness: fresh, endBookmark }
  if (fresh.kind === 'not-older-than') return { kind: 'after', revision: fresh.revision }
  return { kind: 'now', freshness: fresh }
}

interface Parameters {
  readonly resourceVersion: string
  readonly match: string
  readonly continueText: string
  readonly sendInitialEvents: boolean | undefined
  readonly timeoutSeconds: number | undefined
  readonly limit: number | undefined
  readonly keyPrefix: Key
  readonly selector: WrittenSelector
  readonly projection: Projection | null
}

/** Reads the parameters in the API server's order: numbers before selectors, even for a list, which has no timeout. */
function readParameters(query: Query, { resource, namespace = '' }: Target): Parameters {
  return {
    resourceVersion: resourceVersionText(query),
    match: parameter(query, 'resourceVersionMatch') ?? '',
    continueText: parameter(query, 'continue') ?? '',
    sendInitialEvents: flagParameter(query, 'sendInitialEvents'),
    timeoutSeconds: integerParameter(query, 'timeoutSeconds'),
    limit: integerParameter(query, 'limit'),
    keyPrefix: parseKeyPrefix(query, resource, namespace),
    selector: readSelector(query),
    projection: projection(query),
  }
}

/** @throws BadRequestError for a label that the resource does not have. */
function selected({ selector }: Parameters, { name, resource, fieldLabels = ANY_FIELD }: Target): Selector {
  const found = selectorOf(selector, fieldLabels, resource)
  return name === undefined ? found : selectName(found, name)
}

/**
 * Applies the name in an old `/watch/` path, which means `metadata.name=NAME`.
 * @throws BadRequestError when the selector contradicts the name.
 */
function selectName(selector: Selector, name: string): Selector {
  const { labels, fields, shard } = selector
  if (fields.isEmpty) return new Selector({ labels, fields: nameSelector(name), shard })
  if (selector.requiredValue('metadata.name') === name) return selector
  throw new BadRequestError("fieldSelector metadata.name doesn't match requested name")
}

function freshness(resourceVersion: string): RequestedFreshness {
  if (resourceVersion === '') return { kind: 'consistent' }
  if (resourceVersion === '0') return { kind: 'cached' }
  return { kind: 'not-older-than', revision: parseResourceVersion(resourceVersion) }
}

const MAX_UINT64 = 2n ** 64n - 1n

/**
 * Leading zeros are ignored, and a 64-bit number beyond every revision counts as the largest one, as in the API server.
 */
function resourceVersionText(query: Query): string {
  const text = parameter(query, 'resourceVersion') ?? ''
  if (!/^\d+$/.test(text)) return text
  const digits = text.replace(/^0+(?=\d)/, '')
  if (Number.isSafeInteger(Number(digits)) || digits.length > 20 || BigInt(digits) > MAX_UINT64) return digits
  return String(Number.MAX_SAFE_INTEGER)
}

function watchSeconds(seconds: number): number | null {
  if (seconds < 0) throw new BadRequestError(`timeoutSeconds: ${seconds} is negative`)
  return seconds === 0 ? null : Math.min(seconds, MAX_TIMEOUT_SECONDS)
}

function projection(query: Query): Projection | null {
  const fields = parameter(query, 'fields') ?? ''
  return fields === '' ? null : parseProjection(fields)
}

function compress(query: Query): boolean {
  const text = parameter(query, 'compress') ?? ''
  if (text !== '' && text !== 'gzip') {
    throw new BadRequestError(`compress: ${JSON.stringify(text.slice(0, 64))} is not supported, only "gzip" is`)
  }
  return text === 'gzip'
}

const MATCH = 'resourceVersionMatch'

function forbidden(field: string, detail: string): StatusCause {
  return { reason: 'FieldValueForbidden', message: `Forbidden: ${detail}`, field }
}

function notSupported(field: string, value: string, supported: readonly string[]): StatusCause {
  const list = supported.map((text) => JSON.stringify(text)).join(', ')
  return {
    reason: 'FieldValueNotSupported',
    message: `Unsupported value: ${JSON.stringify(value.slice(0, 64))}: supported values: ${list}`,
    field,
  }
}

function refuse(causes: readonly StatusCause[]): void {
  if (causes.length > 0) throw InvalidError.forFields('ListOptions', 'meta.k8s.io', '', causes)
}
