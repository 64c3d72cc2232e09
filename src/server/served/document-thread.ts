/**
 * The program of the thread that reads large definitions and builds OpenAPI documents. Both tasks take time in
 * proportion to the size of the schemas, which only etcd limits.
 */
import type { TransferListItem } from 'node:worker_threads'
import type { DefinedSchema } from '../../kubernetes/codec/defined-schema.js'
import { parseExactJson } from '../../kubernetes/codec/exact-json.js'
import { ObjectViews } from '../../kubernetes/codec/object-views.js'
import { kubernetesSchema } from '../../kubernetes/codec/protobuf/schema.js'
import { structuralPieces } from '../../kubernetes/codec/structural-pieces.js'
import { readDefinition } from '../../kubernetes/dialect/crd.js'
import type { Document } from '../../kubernetes/dialect/discovery.js'
import { makeOpenApi } from '../../kubernetes/dialect/openapi.js'
import { fromShared, toShared } from '../../kubernetes/dialect/shared-resource.js'
import type { Key } from '../../engine/model/event.js'
import { ZERO_REVISION } from '../../engine/model/revision.js'
import { LooseObject } from '../../engine/model/stored-object.js'
import { serveJobs } from '../../support/serve-jobs.js'
import { DEFINITION_VIEW } from './definitions.js'
import type { DefinitionMessage, DocumentMessage, OpenApiMessage, SharedReading } from './document-messages.js'
import { bufferOf } from '../../support/buffer-of.js'
import { oncePer } from '../../support/memo.js'

const schema = kubernetesSchema()
/** Versions with the same schema share its pieces, in the response as well. */
const piecesOf = oncePer((defined: DefinedSchema) => structuralPieces(defined.structural))

function definitionOf({ object, etcdPrefix }: DefinitionMessage): SharedReading {
  const stored = new LooseObject({
    ...object,
    bytes: bufferOf(object.bytes),
    key: '' as Key,
    scope: '',
    createRevision: ZERO_REVISION,
    modRevision: ZERO_REVISION,
    version: 0,
    leaseId: '',
  })
  const views = new ObjectViews({ schema, maxBytes: 1, onUnreadable: () => {}, onUnknownFields: () => {} })
  const json = views.json(stored, DEFINITION_VIEW)?.bytes
  if (json === undefined) return { kind: 'not-served', reason: 'it cannot be read' }
  const reading = readDefinition(parseExactJson(json), etcdPrefix)
  if (reading.kind === 'not-served') return reading
  const schemas = Object.entries(reading.resources[0]?.definition?.schemas ?? {})
  const structurals = schemas.flatMap(([version, one]) =>
    one === undefined ? [] : [[version, piecesOf(one)] as const],
  )
  return {
    kind: 'defined',
    resources: reading.resources.map(toShared),
    structurals: Object.fromEntries(structurals),
  }
}

function documentOf({ resources, form, writable }: OpenApiMessage): Document {
  const { body, etag } = makeOpenApi(fromShared(resources), form, schema, writable)
  // Buffers with shared memory cannot be transferred.
  const own = body.byteLength === body.buffer.byteLength ? body : new Uint8Array(body)
  return { body: own as Buffer, etag }
}

serveJobs(
  (message) => {
    const job = message as DocumentMessage
    return Promise.resolve(job.kind === 'definition' ? definitionOf(job) : documentOf(job))
  },
  (value): readonly TransferListItem[] => ('body' in value ? [value.body.buffer as ArrayBuffer] : []),
)
