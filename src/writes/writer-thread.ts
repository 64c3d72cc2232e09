/**
 * The program of the threads that compute writes: the same `Writer` as on the event loop. What belongs to the process (etcd,
 * rights, what a namespace still holds) is asked of it.
 */
import { ObjectViews } from '../codec/object-views.js'
import { jsonText } from '../codec/json-tree.js'
import { kubernetesSchema } from '../codec/protobuf/schema.js'
import { type ServedResource, viewTargetOf } from '../dialect/resource-registry.js'
import { fromShared } from '../dialect/shared-resource.js'
import { systemClock } from '../support/clock.js'
import { systemRandom } from '../support/random.js'
import { type CallBack, serveJobs } from '../support/serve-jobs.js'
import {
  type Returned,
  returnedBy,
  type ServedMessage,
  valueOf,
  withBuffers,
  type WriteMessage,
} from './thread-messages.js'
import type { ConfirmPut } from './object-store.js'
import type { WriteRequest } from './write-context.js'
import { Writer, type WriterOptions } from './writer.js'

/** Objects in protobuf, or in another version, as JSON: one job needs few of them. */
const VIEW_BYTES = 4 * 1024 * 1024

const schema = kubernetesSchema()
const views = new ObjectViews({ schema, maxBytes: VIEW_BYTES, onUnreadable: () => {}, onUnknownFields: () => {} })
const served = new Map<number, ServedResource>()

let job: WriteMessage
let namespaces: ServedResource | undefined
let call: CallBack
let writer: Writer | null = null

function writerFor(message: WriteMessage): Writer {
  const options: WriterOptions = {
    upstream: {
      read: (...values) => ask('read', ...values),
      readKey: (...values) => ask('readKey', ...values),
      write: (...values) => ask('write', ...values),
      grantLease: (...values) => ask('grantLease', ...values),
      dropLease: (...values) => ask('dropLease', ...values),
    },
    clock: { ...systemClock, now: () => job.nowMs },
    random: systemRandom,
    jsonOf: (resource, object) => views.json(object, viewTargetOf(resource))?.bytes ?? null,
    maxValueBytes: message.maxValueBytes,
    schema,
    etcdPrefix: message.etcdPrefix,
    find: () => namespaces,
    resources: () => [],
    onRetry: () => void call('onRetry'),
    onUnusable: (problem) => void call('onUnusable', problem),
    containers: {
      // The process itself deletes what holds other objects.
      isContainer: () => false,
      finish: () => Promise.resolve(),
      afterGone: async ({ namespace, name }) => void (await ask('afterGone', namespace, name)),
    },
  }
  return new Writer(options)
}

async function ask<T>(name: string, ...values: readonly unknown[]): Promise<T> {
  return withBuffers(valueOf((await call(name, ...values)) as Returned<T>))
}

/** As text: a structured clone would lose what sets a number that keeps its digits apart from an object. */
const confirm: ConfirmPut = async (before, after) => {
  await ask('confirm', before === null ? null : jsonText(before), jsonText(after))
}

function resourceOf({ id, resource }: ServedMessage): ServedResource {
  if (resource !== null) served.set(id, fromShared([resource])[0]!)
  return served.get(id)!
}

serveJobs(async (message, callBack) => {
  job = message as WriteMessage
  call = callBack
  return await returnedBy(async () => {
    if (job.forgets) served.clear()
    const resource = resourceOf(job.served)
    namespaces = job.namespaces === null ? undefined : resourceOf(job.namespaces)
    writer ??= writerFor(job)
    const { verb, namespace, name, subresource, query, userAgent, contentType, body, asProtobuf } = job
    const request: WriteRequest = {
      served: resource,
      namespace,
      name,
      subresource,
      query: new URLSearchParams(query),
      userAgent,
      contentType,
      body: withBuffers(body) as Buffer,
      asProtobuf,
      mayCreate: async () => void (await ask('mayCreate')),
      ...(job.confirms ? { confirm } : {}),
    }
    return await writer.perform(verb, request)
  })
})
