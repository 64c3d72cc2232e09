/**
 * The flags of a declared prefix as OFREP shows them: one flag for each key, with its value as it is. Flags here have no
 * rules, so every evaluation is STATIC, and the same for every caller.
 *
 * All flags together are encoded once for each state of the cache. Their ETag is a digest of that text. Replicas
 * therefore agree on it, and a write that changes no value changes no ETag.
 */
import { createHash } from 'node:crypto'
import type { Snapshot } from '../../engine/cache/store.js'
import type { ApiResource } from '../../kubernetes/model/api-resource.js'
import type { StoredObject } from '../../engine/model/stored-object.js'
import { jsonText, member, readJsonTree } from '../../kubernetes/codec/json-tree.js'
import { RequestEntityTooLargeError } from '../../kubernetes/model/status.js'
import { turns } from '../../support/turns.js'
import { MAX_FLAGS_BYTES } from '../limits/fixed-limits.js'

export interface EncodedFlags {
  readonly etag: string
  /** The members of the array `flags`. */
  readonly bytes: Buffer
}

export class Flags {
  #last: { readonly state: string; readonly encoded: Promise<EncodedFlags> } | null = null

  constructor(private readonly resource: ApiResource) {}

  /** @throws RequestEntityTooLargeError */
  async encode(snapshot: Snapshot): Promise<EncodedFlags> {
    const state = `${snapshot.history} ${snapshot.revision}`
    if (this.#last?.state !== state) this.#last = { state, encoded: this.#encode(snapshot) }
    return await this.#last.encoded
  }

  /** Returns the evaluation of one flag, as JSON, and the status of a response with it alone. */
  evaluate(object: StoredObject): { readonly code: 200 | 400; readonly json: string } {
    const key = JSON.stringify(keyOf(this.resource, object))
    const tree = readJsonTree(object.bytes)
    const stored = member(tree, 'value')
    const value = stored === undefined ? member(tree, 'text') : stored
    if (value === undefined) {
      const details = 'the value is neither JSON nor text'
      return { code: 400, json: `{"key":${key},"errorCode":"PARSE_ERROR","errorDetails":"${details}"}` }
    }
    // A flag without a value means the default in the program. OpenFeature's Python provider requires a variant.
    const shown = value === null ? '' : `"value":${jsonText(value)},`
    return { code: 200, json: `{"key":${key},${shown}"reason":"STATIC","variant":"static"}` }
  }

  async #encode(snapshot: Snapshot): Promise<EncodedFlags> {
    const hash = createHash('sha256')
    const parts: Buffer[] = []
    let bytes = 0
    for (const object of snapshot.objects(this.resource.etcdPrefix)) {
      if (turns.isOver) await turns.take()
      const part = Buffer.from(`${parts.length === 0 ? '' : ','}${this.evaluate(object).json}`)
      bytes += part.length
      if (bytes > MAX_FLAGS_BYTES) {
        throw new RequestEntityTooLargeError(`the flags take more than ${MAX_FLAGS_BYTES} bytes together`)
      }
      hash.update(part)
      parts.push(part)
    }
    return { etag: `"${hash.digest('base64url').slice(0, 27)}"`, bytes: Buffer.concat(parts) }
  }
}

function keyOf({ etcdPrefix }: ApiResource, { key }: StoredObject): string {
  return Buffer.from(key.slice(etcdPrefix.length), 'latin1').toString('utf8')
}
