/** The responses to writes for a client that reads only protobuf. */
import { ensureRecord, isRecord, parseJsonTree } from '../codec/json-tree.js'
import { encodeIfPossible } from '../codec/protobuf/encode-object.js'
import type { ServedResource } from '../dialect/resource-registry.js'
import { formatResourceVersion } from '../../engine/model/resource-version.js'
import type { OneAnswer, WriteContext } from './write-context.js'

/**
 * Encodes a response as protobuf. If that is impossible, the response stays JSON, because the write is already done.
 */
export function inProtobuf(
  { store, schema }: Pick<WriteContext, 'store' | 'schema'>,
  served: ServedResource,
  answer: OneAnswer,
): OneAnswer {
  if (answer.kind === 'protobuf') return answer
  const json = answer.kind === 'object' ? store.json(served, answer.stored) : answer.json
  const { value } = json === null ? { value: null } : parseJsonTree(json)
  if (!isRecord(value)) return answer
  if (answer.kind === 'object') {
    ensureRecord(value, 'metadata')['resourceVersion'] = formatResourceVersion(answer.stored.modRevision)
  }
  const bytes = encodeIfPossible(value, schema)
  return bytes === null ? answer : { kind: 'protobuf', code: answer.code, bytes, warnings: answer.warnings }
}
