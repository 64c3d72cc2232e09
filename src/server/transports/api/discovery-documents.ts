/** Answers the documents that describe what is served: discovery, OpenAPI and `/version`. */
import { crc32 } from 'node:zlib'
import { indentJson } from '../../../kubernetes/codec/json-indent.js'
import { type JsonRecord, readJsonTree } from '../../../kubernetes/codec/json-tree.js'
import { encodeObject } from '../../../kubernetes/codec/protobuf/encode-object.js'
import { kubernetesSchema } from '../../../kubernetes/codec/protobuf/schema.js'
import {
  JSON_MEDIA_TYPE,
  negotiate,
  negotiateDiscovery,
  negotiateOpenApi,
  type Negotiated,
  type Servable,
} from '../../../kubernetes/dialect/accept.js'
import type { Document } from '../../../kubernetes/dialect/discovery.js'
import { STRIPPED_HEADER } from '../../../kubernetes/dialect/stripped-fields.js'
import type { OpenApi } from '../../../kubernetes/dialect/openapi.js'
import {
  methodNotAllowed,
  type RequestPath,
  type ResourcePath,
  unknownResource,
} from '../../../kubernetes/dialect/request-path.js'
import type { StatusError } from '../../../kubernetes/model/status.js'
import { layOut } from '../bodies/layout.js'
import type { Exchange } from '../exchange/exchange.js'
import type { Caller } from '../gate/caller.js'
import type { ApiContext, Described } from './api-context.js'

export type DocumentPath = Exclude<RequestPath, ResourcePath | { kind: 'other' }>

const YEAR_MS = 365 * 24 * 3_600_000

/** @throws StatusError */
export async function handleDocument(
  context: ApiContext,
  exchange: Exchange,
  path: DocumentPath,
  caller: Pick<Caller, 'isAnybody'>,
): Promise<void> {
  requireRead(exchange)
  const { discovery, openApi, described } = context
  if (described !== null && path.kind.startsWith('openapi') && (await sendAsDescribed(described, exchange, path.kind)))
    return
  const why = path.kind === 'version' ? null : whyIncomplete(context, path)
  if (why !== null) throw why
  switch (path.kind) {
    case 'paths':
      return exchange.send(200, JSON_MEDIA_TYPE, indentJson(discovery.paths().body))
    case 'version':
      return await sendDocument(exchange, discovery.version(), { protobufObjects: false })
    case 'api-versions':
    case 'api-groups': {
      const root = path.kind === 'api-versions' ? 'api' : 'apis'
      const form = negotiateDiscovery(exchange.requestHeaders.accept)
      if (form.aggregated) return await sendAggregated(exchange, discovery.aggregated(root), form, context.strips())
      return await sendInForm(exchange, root === 'api' ? discovery.apiVersions() : discovery.apiGroups(), form)
    }
    case 'api-group':
      return await sendDocument(exchange, discovery.apiGroup(path.group))
    case 'api-resources':
      return await sendDocument(exchange, discovery.apiResources(path.group, path.version))
    case 'openapi-v2': {
      const { encoding, contentType } = negotiateOpenApi(exchange.requestHeaders.accept, 'v2')
      const { body, etag } = await openApi.v2(encoding)
      return exchange.sendTagged(contentType, body, etag)
    }
    case 'openapi-v3-index':
      // Sent as JSON whatever the Accept header says, as in the API server.
      return exchange.send(200, JSON_MEDIA_TYPE, openApi.index().body)
    case 'openapi-v3':
      return await sendOpenApi(exchange, openApi, path, caller)
  }
}

/** Sends an OpenAPI document of the upstream. @returns whether it has one. */
async function sendAsDescribed(described: Described, exchange: Exchange, kind: DocumentPath['kind']): Promise<boolean> {
  const { path, query, requestHeaders } = exchange
  // Only what changes the document is sent, so that there are as many requests as documents.
  const hash = kind === 'openapi-v3' ? query.get('hash') : null
  const edition = kind === 'openapi-v2' ? 'v2' : 'v3'
  const isJson = kind === 'openapi-v3-index' || negotiateOpenApi(requestHeaders.accept, edition).encoding === 'json'
  const document = await described.openApi({
    path,
    ...(hash === null ? {} : { query: { hash } }),
    accept: isJson ? JSON_MEDIA_TYPE : `application/com.github.proto-openapi.spec.${edition}@v1.0+protobuf`,
  })
  if (document === null) return false
  const { body, contentType, etag } = document
  if (etag === null) exchange.send(200, contentType, body, { vary: 'Accept' })
  else exchange.sendTagged(contentType, body, etag)
  return true
}

/**
 * Returns why a document is not available yet; null if it is. Without the groups that have not been read yet, the
 * document would claim that they do not exist.
 */
function whyIncomplete(context: ApiContext, path: Exclude<DocumentPath, { kind: 'version' }>): StatusError | null {
  switch (path.kind) {
    case 'api-versions':
      return context.whyUnknown('')
    case 'paths':
    case 'api-groups':
    case 'openapi-v2':
    case 'openapi-v3-index':
      return context.whyUnknown(null)
    case 'api-group':
      return context.whyUnknown(path.group)
    case 'api-resources':
    case 'openapi-v3':
      return context.hasGroup(path.group, path.version) ? null : context.whyUnknown(path.group)
  }
}

/**
 * A document requested by its hash never changes and may be cached forever; an old hash redirects to the current one.
 */
async function sendOpenApi(
  exchange: Exchange,
  openApi: OpenApi,
  path: { readonly group: string; readonly version: string },
  caller: Pick<Caller, 'isAnybody'>,
): Promise<void> {
  const { encoding, contentType } = negotiateOpenApi(exchange.requestHeaders.accept, 'v3')
  const hash = exchange.query.get('hash')
  // Read the hash before the document is built, so that the document never gets the hash of a later one.
  const current = openApi.hash(path.group, path.version)
  if (current === null) throw unknownResource()
  if (hash !== null && hash !== current) {
    const location = `${exchange.path}?hash=${current}`
    return exchange.send(301, 'text/plain; charset=utf-8', Buffer.alloc(0), { location })
  }
  const document = await openApi.groupVersion(path.group, path.version, encoding)
  if (document === null) throw unknownResource()
  const expires = new Date(Date.now() + YEAR_MS).toUTCString()
  const scope = (await caller.isAnybody()) ? 'public' : 'private'
  const forEver = hash === null ? {} : { 'cache-control': `${scope}, immutable`, expires }
  exchange.sendTagged(contentType, document.body, document.etag, forEver)
}

async function sendDocument(exchange: Exchange, document: Document | null, servable: Servable = {}): Promise<void> {
  if (document === null) throw unknownResource()
  const form = negotiate(exchange.requestHeaders.accept, 'get', { ...servable, hasObjects: false })
  await sendInForm(exchange, document, form)
}

async function sendInForm(exchange: Exchange, document: Document, form: Negotiated): Promise<void> {
  const { bytes } = await inForm(exchange, document, form)
  exchange.send(200, form.contentType, bytes, { vary: 'Accept' })
}

/**
 * Each form of the document has its own ETag, since a cache may keep several under one URL. The header belongs to the
 * response as well.
 */
async function sendAggregated(exchange: Exchange, document: Document, form: Negotiated, strips: string): Promise<void> {
  const { bytes, key } = await inForm(exchange, document, form)
  const { etag } = document
  const parts = key === 'compact' ? [] : [key]
  if (strips !== '') {
    exchange.headers[STRIPPED_HEADER] = strips
    parts.push(crc32(strips).toString(36))
  }
  exchange.sendTagged(form.contentType, bytes, [etag.slice(0, -1), ...parts].join('-') + '"')
}

async function inForm(
  exchange: Exchange,
  { body }: Document,
  form: Negotiated,
): Promise<{ readonly bytes: Buffer; readonly key: string }> {
  if (form.encoding === 'protobuf') {
    const bytes = encodeObject(readJsonTree(body) as JsonRecord, kubernetesSchema())
    // The schema contains the kind of each of these documents, so there are always bytes.
    return { bytes: bytes!, key: 'protobuf' }
  }
  const layout = layOut(exchange, form)
  return { bytes: await layout.whole(body), key: layout.key }
}

function requireRead({ request }: Exchange): void {
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    throw methodNotAllowed()
  }
}
