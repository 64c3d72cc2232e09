/** Small stored objects for unit tests, and an encoder and wire whose streams are easy to read back. */
import { failureOf } from '../../src/kubernetes/dialect/encoding/failure-of.js'
import { bookmarkMetadata } from '../../src/kubernetes/dialect/encoding/bookmark-metadata.js'
import type { BodyEncoder } from '../../src/engine/model/body-encoder.js'
import type { WireFormat } from '../../src/engine/broadcast/wire-format.js'
import { createIngest, type IngestOptions } from '../../src/kubernetes/codec/ingest.js'
import { scanObject, spliceResourceVersion } from '../../src/kubernetes/codec/json-scan.js'
import { type Batch, type Key, type KeyEvent, type KeyValue, keyFromText } from '../../src/engine/model/event.js'
import type { ApiResource } from '../../src/kubernetes/model/api-resource.js'
import type { Revision } from '../../src/engine/model/revision.js'
import { type StoredObject, isUnservable } from '../../src/engine/model/stored-object.js'

export const rev = (n: number): Revision => n as Revision

export const PODS: ApiResource = {
  group: '',
  version: 'v1',
  plural: 'pods',
  singular: 'pod',
  kind: 'Pod',
  listKind: 'PodList',
  shortNames: ['po'],
  categories: ['all'],
  namespaced: true,
  etcdPrefix: keyFromText('/registry/pods/'),
  holds: 'kubernetes',
}

export interface PodFields {
  readonly labels?: Readonly<Record<string, string>>
  readonly nodeName?: string
  readonly phase?: string
  readonly uid?: string
  /** Padding in bytes. */
  readonly padding?: number
}

export function podKey(namespace: string, name: string): Key {
  return keyFromText(`/registry/pods/${namespace}/${name}`)
}

export function podValue(namespace: string, name: string, fields: PodFields = {}): Buffer {
  return Buffer.from(
    JSON.stringify({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name, namespace, uid: fields.uid, labels: fields.labels ?? {} },
      spec: { nodeName: fields.nodeName ?? '' },
      status: { phase: fields.phase ?? 'Running' },
      ...(fields.padding === undefined ? {} : { padding: 'x'.repeat(fields.padding) }),
    }),
  )
}

export function keyValue(key: Key, value: Buffer, modRevision: number, createRevision = modRevision): KeyValue {
  return { key, value, createRevision: rev(createRevision), modRevision: rev(modRevision), version: 1, leaseId: '0' }
}

export function podKeyValue(
  namespace: string,
  name: string,
  revision: number,
  fields: PodFields = {},
  created = revision,
): KeyValue {
  return keyValue(podKey(namespace, name), podValue(namespace, name, fields), revision, created)
}

export function put(
  namespace: string,
  name: string,
  revision: number,
  fields: PodFields = {},
  created = revision,
): KeyEvent {
  return { type: 'put', keyValue: podKeyValue(namespace, name, revision, fields, created) }
}

/** A value that is too large to be served by `ingestDeclared`; the others are not. */
export function putUnservable(namespace: string, name: string, revision: number, created = revision): KeyEvent {
  const value = Buffer.alloc(MAX_DECLARED_BYTES + 1, 'x')
  return { type: 'put', keyValue: keyValue(podKey(namespace, name), value, revision, created) }
}

export function del(namespace: string, name: string): KeyEvent {
  return { type: 'delete', key: podKey(namespace, name) }
}

export function batch(revision: number, ...events: KeyEvent[]): Batch {
  return { revision: rev(revision), events }
}

const wrap: IngestOptions['wrap'] = (_resource, name, kv) =>
  scanObject(Buffer.from(JSON.stringify({ metadata: { name: name.name }, text: kv.value.toString() })))!

export const ingestPod = createIngest({ resource: PODS, maxValueBytes: 1024 * 1024, wrap })

/** Keeps etcd's own bytes too, as under a prefix that is served in etcd's API. */
export const ingestRawPod = createIngest({ resource: PODS, maxValueBytes: 1024 * 1024, wrap, keepsRaw: true })

const MAX_DECLARED_BYTES = 100_000

/** Reads keys as under a declared prefix of whole objects. */
export const ingestDeclared = createIngest({
  resource: { ...PODS, holds: 'objects' },
  maxValueBytes: MAX_DECLARED_BYTES,
  wrap,
})

export function podObject(...pod: Parameters<typeof podKeyValue>): StoredObject {
  const object = ingestPod(podKeyValue(...pod))
  if (isUnservable(object)) throw new Error(object.unservable)
  return object
}

/** Bodies are the objects themselves; statuses and bookmarks are JSON. */
export const plainEncoder: BodyEncoder = {
  key: 'plain',
  schemaVersion: 'v1',
  encode: (object, revision) => spliceResourceVersion(object, revision),
  encodeFirst: null,
  isSame: null,
  bookmark: (bookmark) => Buffer.from(JSON.stringify({ metadata: bookmarkMetadata(bookmark) })),
  failure: (error) => failureOf(error, (status) => Buffer.from(JSON.stringify(status))),
}

/** Like a Table: the first object of a stream is marked. */
export const columnsEncoder: BodyEncoder = {
  ...plainEncoder,
  key: 'columns',
  encodeFirst: (object, revision) =>
    Buffer.from(spliceResourceVersion(object, revision).toString().replace('{', '{"columns":true,')),
}

/** Like `fields=spec`: changes of anything else make no difference. */
export const specEncoder: BodyEncoder = {
  ...plainEncoder,
  key: 'spec',
  isSame: (older, newer) => specOf(older) === specOf(newer),
}

function specOf(object: StoredObject): string {
  const { spec } = JSON.parse(object.bytes.toString()) as { spec: unknown }
  return JSON.stringify(spec)
}

/** Writes one line per event, with `resumeAfter` as `@N`. */
export const lineWire: WireFormat = {
  key: 'lines',
  transport: 'http1',
  frame: (type, body, resumeAfter) => [
    Buffer.from(`${type} ${resumeAfter === null ? '-' : `@${resumeAfter}`} ${body.toString()}\n`),
  ],
  envelope: null,
  afterError: () => null,
  mark: null,
  compression: 'none',
}

export interface ReadEvent {
  readonly type: string
  readonly resumeAfter: number | null
  readonly object: {
    readonly code?: number
    readonly message?: string
    readonly columns?: true
    readonly metadata: {
      readonly name?: string
      readonly namespace?: string
      readonly resourceVersion?: string
      readonly labels?: Readonly<Record<string, string>>
      readonly annotations?: Readonly<Record<string, string>>
    }
    readonly spec?: { readonly nodeName: string }
    readonly status?: unknown
  }
}

/** Parses the output of `lineWire`. */
export function readLines(text: string): ReadEvent[] {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const [type = '', resume = ''] = line.split(' ', 2)
      const object = JSON.parse(line.slice(type.length + resume.length + 2)) as ReadEvent['object']
      return { type, resumeAfter: resume === '-' ? null : Number(resume.slice(1)), object }
    })
}

/** `ADDED a@7`, `BOOKMARK @9`, `INITIAL-END @9`, `ERROR 410`. */
export function brief({ type, object }: ReadEvent): string {
  if (type === 'ERROR') return `ERROR ${object.code}`
  const { name = '', resourceVersion = '', annotations } = object.metadata
  return `${annotations === undefined ? type : 'INITIAL-END'} ${name}@${resourceVersion}`
}
