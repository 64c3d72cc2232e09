/** The verbs without a server, as in one worker process, over any upstream. */
import { ObjectViews } from '../../../src/kubernetes/codec/object-views.js'
import { kubernetesSchema } from '../../../src/kubernetes/codec/protobuf/schema.js'
import { resolveResources } from '../../../src/kubernetes/dialect/declared-resource.js'
import { ResourceRegistry, type ServedResource } from '../../../src/kubernetes/dialect/resource-registry.js'
import { apiVersion } from '../../../src/kubernetes/model/api-resource.js'
import { statusOf } from '../../../src/kubernetes/model/status-of.js'
import type { StoredObject } from '../../../src/engine/model/stored-object.js'
import { systemClock, type Timer } from '../../../src/support/clock.js'
import { systemRandom } from '../../../src/support/random.js'
import type { Upstream } from '../../../src/engine/upstream/upstream.js'
import type { WriteResponse } from '../../../src/kubernetes/writes/write-context.js'
import { type WriteVerb, Writer } from '../../../src/kubernetes/writes/writer.js'

export interface Asked {
  readonly verb: WriteVerb
  readonly plural?: string
  readonly name?: string
  readonly subresource?: string
  readonly query?: string
  readonly contentType?: string
  readonly body?: unknown
}

export interface Said {
  readonly code: number
  readonly body: Record<string, unknown>
}

export interface WriterOver {
  /** Returns the response, or the error as a response. */
  ask(asked: Asked): Promise<Said>
  readonly retries: number
}

/** @param now the wall clock in milliseconds. Default: the real one. */
export function writerOver(upstream: Upstream, now = (): number => Date.now()): WriterOver {
  const registry = new ResourceRegistry()
  registry.set('configured', resolveResources({}).resources)
  const views = new ObjectViews({
    schema: kubernetesSchema(),
    maxBytes: 1_000_000,
    onUnreadable: () => {},
    onUnknownFields: () => {},
  })
  let retries = 0
  const writer = new Writer({
    upstream,
    clock: { ...systemClock, now, setTimer: heldTimer },
    random: systemRandom,
    jsonOf: ({ resource, origin }, object) =>
      views.json(object, { apiVersion: apiVersion(resource), convertsByName: origin !== 'well-known', rules: null })
        ?.bytes ?? null,
    maxValueBytes: 8 * 1024 * 1024,
    schema: kubernetesSchema(),
    etcdPrefix: '/registry',
    find: (...path) => registry.find(...path),
    resources: () => registry.list(),
    onRetry: () => retries++,
  })
  return {
    async ask({ verb, plural = 'configmaps', name = '', subresource = '', query = '', contentType, body }) {
      const served = registry.list().find(({ resource }) => resource.plural === plural)!
      try {
        const answer = await writer.perform(verb, {
          served,
          namespace: served.resource.namespaced ? 'default' : '',
          name,
          subresource,
          query: new URLSearchParams(query),
          userAgent: 'test/1',
          contentType,
          body:
            body === undefined ? Buffer.alloc(0) : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)),
          mayCreate: () => Promise.resolve(),
          mayDelete: () => Promise.resolve(),
        })
        return { code: answer.code, body: bodyOf(answer, served) }
      } catch (error) {
        const status = statusOf(error)
        if (status.code === 500) throw error
        return { code: status.code, body: { ...status.toStatus() } }
      }
    },
    get retries() {
      return retries
    },
  }
}

/** Returns the body as a JSON client sees it. */
export function bodyOf(answer: WriteResponse, { resource }: ServedResource): Record<string, unknown> {
  switch (answer.kind) {
    case 'object':
      return objectOf(answer.stored)
    case 'document':
      return JSON.parse(answer.json.toString()) as Record<string, unknown>
    case 'objects':
      return {
        kind: resource.listKind,
        apiVersion: apiVersion(resource),
        metadata: { resourceVersion: String(answer.revision) },
        items: answer.objects.map(objectOf),
      }
    case 'protobuf':
      throw new RangeError('a test that reads JSON has asked for protobuf')
  }
}

function objectOf({ bytes, modRevision }: StoredObject): Record<string, unknown> {
  const object = JSON.parse(bytes.toString()) as Record<string, unknown>
  const metadata = object['metadata'] as Record<string, unknown>
  return { ...object, metadata: { ...metadata, resourceVersion: String(modRevision) } }
}

/** Keeps the process alive, as a server's sockets otherwise do. */
function heldTimer(delayMs: number, callback: () => void): Timer {
  const handle = setTimeout(callback, delayMs)
  return { cancel: () => clearTimeout(handle) }
}
