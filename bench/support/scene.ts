/**
 * Sets up a subject to be measured: its etcd, a writer that has written all of its objects once, and the subject
 * itself. Every row gets a fresh scene, so that no row inherits another's history, heap or connections.
 */
import { type Etcd, startEtcd } from '../subjects/etcd.js'
import type { Runtime, Subject, SubjectKind } from '../subjects/subject.js'
import { benchObjects, type BenchObject, type BenchResource, type ObjectOptions, writeObjectsFile } from './objects.js'
import { endAll } from './processes.js'
import { type EventSource, startWriter, writeAll } from './source.js'
import { openWatchers, type WatchRequest, type Watchers, type WatchersOptions } from './watchers.js'
import { createWorkspace, type Workspace } from './workspace.js'

export interface SceneOptions {
  readonly kind: SubjectKind
  readonly wire: string
  /** The number of watches that will be opened. The wire determines the number of connections. */
  readonly watchers: number
  readonly resource: BenchResource
  readonly objects: ObjectOptions | WrittenObjects
  readonly apiServer?: string | undefined
  readonly runtime?: Runtime | undefined
  readonly nodeFlags?: readonly string[]
  readonly serverFlags?: readonly string[]
}

/** Objects that are written instead of objects of a single resource. */
export interface WrittenObjects {
  readonly written: readonly BenchObject[]
  /** The resources whose definitions are in etcd at the start. */
  readonly resources: readonly BenchResource[]
  /** Objects that are too large for the writer, which sends an object in one frame of HTTP/2. */
  readonly large?: readonly BenchObject[]
}

export interface Scene {
  readonly subject: Subject
  readonly source: EventSource
  /** The sequence of the next event to be written. */
  readonly nextSequence: number
  /** etcd's revision after the objects were written; 0 without etcd. */
  readonly revision: number
  readonly etcd: Etcd | null
  /** The time from the start of the subject until it was ready, in milliseconds. */
  readonly startedMs: number
  readonly progressFile: string
  readonly workspace: Workspace
  /**
   * Opens the scene's number of watches, starting after its revision. Unless `options` say otherwise, each of them must
   * receive every event.
   */
  readonly openWatchers: (options?: Partial<WatchersOptions>, request?: WatchRequest) => Promise<Watchers>
}

/** Enough for 200,000 objects at less than a thousand a second. */
const WRITE_OBJECTS_MS = 300_000

/** Sets up the scene, measures, and ends everything that it started, even if `measure` throws. */
export async function withScene<T>(options: SceneOptions, measure: (scene: Scene) => Promise<T>): Promise<T> {
  const workspace = createWorkspace()
  try {
    const { written: initial, resources, large = [] } = writtenObjects(options)
    const progressFile = workspace.path('progress')
    let etcd: Etcd | null = null
    let written: EventSource | null = null
    let nextSequence = 0
    if (options.kind.etcd !== 'none') {
      const isSubject = options.kind.etcd === 'subject'
      etcd = await startEtcd(workspace, isSubject ? 'server' : 'load', isSubject && options.wire.endsWith('-tls'))
      for (const { definition } of resources) {
        if (definition !== null) await etcd.put(definition.key, JSON.stringify(definition.object))
      }
      for (const { key, value } of large) await etcd.put(key, String(value))
      const objectsFile = workspace.path('objects')
      writeObjectsFile(objectsFile, initial)
      written = await startWriter(etcd.port, objectsFile, progressFile)
      nextSequence = (await writeAll(written, initial.length, WRITE_OBJECTS_MS)).next
    }
    const revision = etcd ? await etcd.revision() : 0
    const startAt = performance.now()
    const subject = await options.kind.start({
      workspace,
      wire: options.wire,
      resource: options.resource,
      resources,
      etcdPort: etcd?.port ?? 0,
      etcdSecurePort: etcd?.securePort ?? 0,
      etcdPid: etcd?.child.pid ?? 0,
      watchers: options.watchers,
      ...(options.apiServer === undefined ? {} : { apiServer: options.apiServer }),
      ...(options.runtime === undefined ? {} : { runtime: options.runtime }),
      ...(options.nodeFlags === undefined ? {} : { nodeFlags: options.nodeFlags }),
      ...(options.serverFlags === undefined ? {} : { serverFlags: options.serverFlags }),
    })
    const startedMs = performance.now() - startAt
    const source = written ?? subject.source
    if (!source) throw new Error(`${options.kind.name} has neither etcd nor events of its own`)
    return await measure({
      subject,
      source,
      nextSequence,
      revision,
      etcd,
      startedMs,
      progressFile,
      workspace,
      openWatchers: (more, request) =>
        openWatchers(request ?? subject.watch({ afterRevision: revision }), {
          connections: Math.ceil(options.watchers / subject.streams),
          streams: subject.streams,
          first: nextSequence,
          progressFile,
          ...more,
        }),
    })
  } finally {
    await endAll()
    workspace.remove()
  }
}

function writtenObjects({ resource, objects }: SceneOptions): WrittenObjects {
  return 'written' in objects ? objects : { written: benchObjects(resource, objects), resources: [resource] }
}
