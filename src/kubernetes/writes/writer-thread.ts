/**
 * The program of the threads that compute writes. They run the same `Writer` as the event loop. They ask the process
 * for everything that only the process has: etcd, permissions, the contents of a namespace.
 */
import type { Transferable } from 'node:worker_threads'
import { ObjectViews } from '../codec/object-views.js'
import { jsonText } from '../codec/json-tree.js'
import { kubernetesSchema } from '../codec/protobuf/schema.js'
import { type ServedResource, viewTargetOf } from '../dialect/resource-registry.js'
import { fromShared } from '../dialect/shared-resource.js'
import { systemClock } from '../../support/clock.js'
import { systemRandom } from '../../support/random.js'
import type { Compare, WriteOperation, WriteResult } from '../../engine/upstream/upstream.js'
import { type CallBack, ownMemory, serveJobs } from '../../support/serve-jobs.js'
import {
  type ResponseMessage,
  toResponseMessage,
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

/** Limit for objects converted to JSON from protobuf or another version; one job needs few of them. */
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
      read: (...values) => invoke('read', ...values),
      readKey: (...values) => invoke('readKey', ...values),
      write: (compares, operations) => write(compares, operations),
      grantLease: (...values) => invoke('grantLease', ...values),
      dropLease: (...values) => invoke('dropLease', ...values),
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
    onUnusable: (problem) => void call('onUnusable', [problem]),
    containers: {
      assertDefined: ({ namespace, name }) => invoke('assertDefined', namespace, name),
      // Only the process itself deletes objects that contain others.
      finish: () => Promise.resolve(),
      afterChange: async ({ namespace, name }) => void (await invoke('afterChange', namespace, name)),
      afterGone: async ({ namespace, name }) => void (await invoke('afterGone', namespace, name)),
    },
  }
  return new Writer(options)
}

async function invoke<T>(name: string, ...values: readonly unknown[]): Promise<T> {
  return withBuffers(valueOf((await call(name, values)) as Returned<T>))
}

/** Copies the values here, because a copy made by the other side would take event-loop time. */
async function write(compares: readonly Compare[], operations: readonly WriteOperation[]): Promise<WriteResult> {
  const copies = operations.map((one) => (one.type === 'put' ? { ...one, value: new Uint8Array(one.value) } : one))
  const memory = copies.flatMap((one) => (one.type === 'put' ? ownMemory(one.value) : []))
  return withBuffers(valueOf((await call('write', [compares, copies], memory)) as Returned<WriteResult>))
}

/** Sends the objects as text, because a structured clone would lose the class of a number that keeps its digits. */
const confirm: ConfirmPut = async (before, after) => {
  await invoke('confirm', before === null ? null : jsonText(before), jsonText(after))
}

function resourceOf({ id, resource }: ServedMessage): ServedResource {
  if (resource !== null) served.set(id, fromShared([resource])[0]!)
  return served.get(id)!
}

async function perform(message: unknown, callBack: CallBack): Promise<Returned<ResponseMessage>> {
  job = message as WriteMessage
  call = callBack
  return await returnedBy(async () => {
    if (job.forgets) served.clear()
    const resource = resourceOf(job.served)
    namespaces = job.namespaces === null ? undefined : resourceOf(job.namespaces)
    writer ??= writerFor(job)
    const { verb, namespace, name, subresource, query, userAgent, requester, contentType, body, asProtobuf } = job
    const request: WriteRequest = {
      served: resource,
      namespace,
      name,
      subresource,
      query: new URLSearchParams(query),
      userAgent,
      requester,
      contentType,
      body: withBuffers(body) as Buffer,
      asProtobuf,
      mayCreate: async () => void (await invoke('mayCreate')),
      mayDelete: async () => void (await invoke('mayDelete')),
      ...(job.confirms ? { confirm } : {}),
    }
    return toResponseMessage(await writer.perform(verb, request))
  })
}

function memoryOf(returned: Returned<ResponseMessage>): readonly Transferable[] {
  if (returned.kind === 'error') return []
  const response = returned.value
  return ownMemory(
    response.kind === 'object' ? response.stored.bytes : response.kind === 'document' ? response.json : response.bytes,
  )
}

serveJobs(perform, memoryOf)
