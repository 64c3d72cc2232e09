/** Answers POST, PUT, PATCH and DELETE: reads the body, performs one verb, and sends the response. */
import { givesRights } from '../../auth/authz/escalation.js'
import { type Negotiated, negotiate, PROTOBUF_MEDIA_TYPE } from '../../../kubernetes/dialect/accept.js'
import { parseGetParameters } from '../../../kubernetes/dialect/list-options.js'
import type { ListMetadata } from '../../../kubernetes/codec/protobuf/encode.js'
import { DROPPED } from '../../../kubernetes/dialect/encoding/left-out-of-form.js'
import { piecesOf } from '../../../kubernetes/dialect/list-pieces.js'
import { checkName } from '../../../kubernetes/dialect/request-path.js'
import { type ServedResource, storedApiVersion } from '../../../kubernetes/dialect/resource-registry.js'
import { apiVersion, resourceId } from '../../../kubernetes/model/api-resource.js'
import { formatResourceVersion } from '../../../kubernetes/model/resource-version.js'
import {
  MethodNotAllowedError,
  NotAcceptableError,
  NotImplementedError,
  type Status,
  StatusError,
} from '../../../kubernetes/model/status.js'
import { isSameButOwnership } from '../../../kubernetes/writes/metadata-rules.js'
import type { ConfirmPut } from '../../../kubernetes/writes/object-store.js'
import type { CollectionResponse, WriteRequest, WriteResponse } from '../../../kubernetes/writes/write-context.js'
import type { WriteVerb } from '../../../kubernetes/writes/writer.js'
import { layOut } from '../bodies/layout.js'
import { sendObject, sendPieces } from '../bodies/send-body.js'
import type { Exchange } from '../exchange/exchange.js'
import { answerAfter } from './answer-after.js'
import type { ApiContext } from './api-context.js'
import { readBody } from '../exchange/read-body.js'
import type { Request } from './request.js'
import { attributesOf, isRead } from './request-attributes.js'

type Writer = NonNullable<ApiContext['writer']>

/** @throws StatusError */
export async function handleWrite(context: ApiContext, request: Request, served: ServedResource): Promise<void> {
  const { exchange, path } = request
  const [writer, verb] = requireWritable(context, request)
  requireStoredVersion(served)
  // A request for an unavailable form of the response must be rejected before anything is written.
  const responseVerb = verb === 'deletecollection' ? 'list' : 'get'
  const negotiated = negotiate(exchange.requestHeaders.accept, responseVerb, {
    protobufObjects: writer.hasProtobuf(served),
  })
  // With writes, nothing else can be stripped.
  const form = served.resource.stripped === undefined ? negotiated : { ...negotiated, dropsManagedFields: true }
  checkName(path)
  context.memory.admit()
  const release = await context.writes.acquire(request.caller.identity, exchange.signal)
  try {
    await answerAfter(
      request,
      () => readBody(exchange, context.clock, context.requestTimeoutMs),
      async (answering, body) => {
        const response = await perform(writer, verb, request, served, form, body)
        // A client that reads slowly does not hold a slot.
        release()
        await send(context, answering, served, response, form)
      },
    )
  } finally {
    release()
  }
}

async function perform(
  writer: Writer,
  verb: WriteVerb,
  request: Request,
  served: ServedResource,
  form: Negotiated,
  body: Buffer,
): Promise<WriteResponse> {
  const { exchange, path, caller } = request
  try {
    const write: WriteRequest = {
      served,
      namespace: path.namespace,
      name: path.name,
      subresource: path.subresource,
      query: exchange.query,
      userAgent: exchange.requestHeaders['user-agent'] ?? '',
      requester: caller.user,
      contentType: exchange.requestHeaders['content-type'],
      body,
      asProtobuf: form.encoding === 'protobuf' && form.transform === 'none',
      mayCreate: () => caller.authorize(attributesOf(exchange, path, 'create')),
      mayDelete: () => caller.authorize(attributesOf(exchange, { ...path, subresource: '' }, 'delete')),
      ...(givesRights(served.resource) ? { confirm: confirmRights(request) } : {}),
    }
    return await writer.perform(verb, write, caller.identity, exchange.signal)
  } catch (error) {
    if (error instanceof StatusError) for (const warning of error.warnings) exchange.warn(warning)
    throw error
  }
}

/**
 * A write that changes only owners, finalizers and managed fields grants nothing. It is not checked, so that garbage
 * collectors need no extra permissions.
 */
function confirmRights({ caller, path: { plural, namespace, name } }: Request): ConfirmPut {
  return async (before, after) => {
    if (before !== null && isSameButOwnership(before, after)) return
    await caller.confirmRights({ plural, namespace, pathName: name, before, after })
  }
}

/** @throws MethodNotAllowedError for a request that cannot write here. */
function requireWritable({ writer }: ApiContext, { exchange, path, verb }: Request): [Writer, WriteVerb] {
  if (writer === null || verb === 'other' || isRead(verb) || path.legacyWatch) {
    const { method } = exchange.request
    const needed =
      method === 'OPTIONS' ? '--cors-allowed-origins' : writer === null && verb !== 'other' ? '--enable-writes' : null
    throw new MethodNotAllowedError(
      `the server does not allow this method on the requested resource${needed === null ? '' : `: ${method} needs ${needed}`}`,
    )
  }
  return [writer, verb]
}

/** @throws NotImplementedError where only a webhook can convert the written object to the stored version. */
function requireStoredVersion(served: ServedResource): void {
  const written = apiVersion(served.resource)
  const stored = storedApiVersion(served)
  if (!served.convertsByWebhook || written === stored) return
  throw new NotImplementedError(
    `${resourceId(served.resource)} are stored as ${stored}, and the webhook that converts ${written} is not called from here: write them as ${stored}`,
  )
}

async function send(
  context: ApiContext,
  exchange: Exchange,
  served: ServedResource,
  response: WriteResponse,
  form: Negotiated,
): Promise<void> {
  for (const warning of response.warnings) exchange.warn(warning)
  const drops = form.dropsManagedFields
  if (response.kind === 'protobuf') {
    const bytes = drops ? DROPPED.fromProtobuf(response.bytes) : response.bytes
    return await sendObject(exchange, response.code, PROTOBUF_MEDIA_TYPE, bytes)
  }
  const isLost = response.kind !== 'objects' && form.encoding === 'protobuf' && form.transform === 'none'
  if (isLost) return await send(context, exchange, served, response, negotiate(undefined, 'get'))
  const layout = layOut(exchange, form)
  if (response.kind === 'document') {
    const { contentType } = form.encoding === 'protobuf' ? negotiate(undefined, 'get') : form
    const { bytes } = drops ? DROPPED.fromJson({ bytes: response.json, revisionOffset: -1 }) : { bytes: response.json }
    return await sendObject(exchange, response.code, contentType, await layout.whole(bytes))
  }
  const { includeObject } = parseGetParameters(exchange.query)
  const encoder = context.forms.encoder({ served, cache: null }, form, { includeObject, projection: null })
  if (response.kind === 'objects') {
    const pieces = layout.pieces(piecesOf(encoder, metadataOf(response), response.objects))
    try {
      return await sendPieces(exchange, response.code, form.contentType, pieces)
    } catch (error) {
      if (!(error instanceof NotAcceptableError)) throw error
      // An error would hide that the objects are already deleted.
      return exchange.send(response.code, form.contentType, encoder.status(deletedStatus(served)))
    }
  }
  const body = encoder.single(response.stored)
  if (body === null) throw new NotAcceptableError('the written object cannot be shown in the requested format')
  await sendObject(exchange, response.code, form.contentType, await layout.whole(body))
}

function deletedStatus({ resource }: ServedResource): Status {
  const details = { kind: resource.plural }
  return { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', message: '', details, code: 200 }
}

function metadataOf({ revision, continueToken }: CollectionResponse): ListMetadata {
  return { resourceVersion: formatResourceVersion(revision), continue: continueToken }
}
