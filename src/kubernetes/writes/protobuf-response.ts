/** The responses to writes for a client that reads only protobuf. */
import { ensureRecord, isRecord, parseJsonTree } from '../codec/json-tree.js'
import { encodeIfPossible } from '../codec/protobuf/encode-object.js'
import type { ServedResource } from '../dialect/resource-registry.js'
import { formatResourceVersion } from '../model/resource-version.js'
import type { SingleResponse, WriteContext } from './write-context.js'

/**
 * Encodes a response as protobuf. If that is impossible, the response stays JSON, because the write is already done.
 */
export function inProtobuf(
  { store, schema }: Pick<WriteContext, 'store' | 'schema'>,
  served: ServedResource,
  response: SingleResponse,
): SingleResponse {
  if (response.kind === 'protobuf') return response
  const json = response.kind === 'object' ? store.json(served, response.stored) : response.json
  const { value } = json === null ? { value: null } : parseJsonTree(json)
  if (!isRecord(value)) return response
  if (response.kind === 'object') {
    ensureRecord(value, 'metadata')['resourceVersion'] = formatResourceVersion(response.stored.modRevision)
  }
  const bytes = encodeIfPossible(value, schema)
  return bytes === null ? response : { kind: 'protobuf', code: response.code, bytes, warnings: response.warnings }
}
