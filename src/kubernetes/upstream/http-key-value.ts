/**
 * Turns an object from a server into the form that etcd would have: a key, its revision and a value. A value in
 * protobuf already has that form (`protobuf-wire.ts`); JSON members are put into a fixed order.
 *
 * Lists omit `kind` and `apiVersion` from their items, watches do not, and their position differs between servers.
 * Here they always come first, so that one version of an object has the same bytes however it arrived. The rest is
 * unchanged. HTTP does not reveal when an object was created or how often it was written, so both are unknown
 * (version 0). Recreated objects are recognized by their uids instead.
 */
import type { BytesObject } from '../../client/reflector/bytes-codec.js'
import { eachMember } from '../../support/json-members.js'
import type { Key, KeyValue } from '../../engine/model/event.js'
import { type ApiResource, apiVersion, hasKey, keyOfName } from '../model/api-resource.js'
import { type Revision, toRevision } from '../../engine/model/revision.js'
import { UpstreamError } from '../../engine/upstream/upstream.js'
import { isProtobuf } from '../codec/protobuf/envelope.js'
import { errorMessage } from '../../support/error-message.js'
import { bufferOf } from '../../support/buffer-of.js'

const NO_BYTES = Buffer.alloc(0)

export class HttpKeyValues {
  readonly #resource: ApiResource
  /** The first bytes of a value whose members are already in order. */
  readonly #head: Buffer

  constructor(resource: ApiResource) {
    this.#resource = resource
    this.#head = Buffer.from(`{"kind":${quoted(resource.kind)},"apiVersion":${quoted(apiVersion(resource))},`)
  }

  /** @throws UpstreamError 'protocol' for an object that is not JSON, or whose resourceVersion is not a revision. */
  keyValue(object: BytesObject, keysOnly: boolean): KeyValue {
    const modRevision = revisionOf(object.resourceVersion)
    const value = keysOnly ? NO_BYTES : this.#value(object.bytes)
    return { key: this.key(object), value, createRevision: modRevision, modRevision, version: 0, leaseId: '0' }
  }

  key({ namespace, name }: Pick<BytesObject, 'namespace' | 'name'>): Key {
    const named = { namespace, name }
    if (hasKey(this.#resource, named)) return keyOfName(this.#resource, named)
    throw new UpstreamError('protocol', `${JSON.stringify(named)} is not the name of a key`)
  }

  #value(bytes: Uint8Array): Buffer {
    const buffer = bufferOf(bytes)
    if (isProtobuf(buffer)) return buffer
    const head = this.#head
    if (buffer.length > head.length && buffer.compare(head, 0, head.length, 0, head.length) === 0) return buffer
    let kind = quoted(this.#resource.kind)
    let version = quoted(apiVersion(this.#resource))
    const rest: (string | Buffer)[] = []
    try {
      eachMember(buffer, 0, (name, start, end) => {
        if (name === 'kind') kind = buffer.toString('utf8', start, end)
        else if (name === 'apiVersion') version = buffer.toString('utf8', start, end)
        else rest.push(`,${quoted(name)}:`, buffer.subarray(start, end))
        return true
      })
    } catch (cause) {
      throw new UpstreamError('protocol', `an object is not JSON: ${errorMessage(cause)}`, { cause })
    }
    const parts = [`{"kind":${kind},"apiVersion":${version}`, ...rest, '}']
    return Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : part)))
  }
}

/** @throws UpstreamError 'protocol' */
export function revisionOf(resourceVersion: string): Revision {
  try {
    return toRevision(resourceVersion === '' ? Number.NaN : resourceVersion)
  } catch {
    throw new UpstreamError('protocol', `resourceVersion ${JSON.stringify(resourceVersion)} is not a revision of etcd`)
  }
}

function quoted(text: string): string {
  return JSON.stringify(text)
}
