/**
 * The entry point for writes passes each verb to its function. It does not depend on HTTP, except that requests use
 * HTTP's terms.
 */
import { randomBytes, randomUUID } from 'node:crypto'
import { encodeJsonTree, type JsonRecord, textMember } from '../codec/json-tree.js'
import type { Schema } from '../codec/protobuf/schema.js'
import { methodNotAllowedError } from '../dialect/status-body.js'
import { methodNotAllowed, unknownResource } from '../dialect/request-path.js'
import { EVICTION_NAME, hasSubresource, type ServedResource } from '../dialect/resource-registry.js'
import { AlreadyExistsError, ConflictError, NotFoundError, StatusError } from '../model/status.js'
import type { Clock } from '../../support/clock.js'
import type { Random } from '../../support/random.js'
import { BuiltInDefaults } from './built-in-defaults.js'
import { CanonicalForm } from './canonical-form.js'
import { Containers } from './containers.js'
import { createObject, makeObject } from './create.js'
import { deleteObject, remove, removeObject, UNCONDITIONAL } from './delete.js'
import { deleteCollection } from './delete-collection.js'
import { evictPod } from './eviction.js'
import { KindRulebook } from './kind-rules.js'
import { bareNamespace, Namespaces } from './namespaces.js'
import { ObjectChange } from './object-change.js'
import { type ObjectLocation, ObjectStore, type ObjectStoreOptions } from './object-store.js'
import { patchObject } from './patch.js'
import { inProtobuf } from './protobuf-response.js'
import { BuiltInShapes } from './shape.js'
import { storageError } from './storage-error.js'
import { writeScale } from './write-scale.js'
import { updateObject } from './update.js'
import {
  type SingleResponse,
  Warnings,
  Write,
  type WriteContext,
  type WriteRequest,
  type WriteResponse,
} from './write-context.js'

export interface WriterOptions extends Omit<ObjectStoreOptions, 'onRetry' | 'fillDefaults'> {
  readonly clock: Clock
  readonly random: Random
  /** The table of the built-in kinds' members, also used to decode protobuf bodies. */
  readonly schema: Schema
  readonly etcdPrefix: string
  readonly find: (group: string, version: string, plural: string) => ServedResource | undefined
  readonly resources: () => readonly ServedResource[]
  /** As in `--select-any-field`. Default: false. */
  readonly isAnyFieldSelectable?: boolean
  readonly onRetry?: () => void
  /** Called with parts of a stored schema that cannot be checked here. */
  readonly onUnusable?: (problem: string) => void
  /** Default: this writer itself finds and empties objects that contain others. */
  readonly containers?: WriteContext['containers']
}

/** Returns the content for one of the server's own objects, and whether to delete and recreate it; null leaves it. */
export type OwnDecision = (
  held: JsonRecord | null,
) => Promise<{ readonly object: JsonRecord; readonly recreates: boolean } | null>

/** The verbs of requests. */
export type WriteVerb = 'create' | 'update' | 'patch' | 'delete' | 'deletecollection'

/** The writes of one object. `remove` is a DELETE that returns the last state of the object. */
export type OneVerb = Exclude<WriteVerb, 'deletecollection'> | 'remove'

export class Writer {
  readonly #context: WriteContext

  constructor(options: WriterOptions) {
    const { clock, find, resources, etcdPrefix, upstream } = options
    const { schema } = options
    const form = new CanonicalForm(schema)
    const shapes = new BuiltInShapes(schema)
    const rulebook = new KindRulebook(shapes, new BuiltInDefaults(schema), form)
    const store = new ObjectStore({
      ...options,
      fillDefaults: (served, object) => rulebook.of(served).fillDefaults(object),
      onRetry: options.onRetry ?? (() => {}),
    })
    this.#context = {
      store,
      change: new ObjectChange({ ...options, rulebook, newUid: randomUUID }),
      namespaces: new Namespaces({
        store,
        find: () => find('', 'v1', 'namespaces'),
        create: async (served, name) => {
          const request = { ...NO_REQUEST, served, name }
          return await makeObject(new Write(this.#context, request, BY_ITSELF), bareNamespace(name))
        },
      }),
      containers:
        options.containers ??
        new Containers({
          store,
          find,
          resources,
          etcdPrefix,
          remove: async (place) => {
            const { changed } = await remove(this.#context, place, UNCONDITIONAL)
            return changed.kind === 'deleted' ? 'gone' : 'held'
          },
        }),
      clock,
      schema,
      deleteOptions: shapes.deleteOptions,
      isAnyFieldSelectable: options.isAnyFieldSelectable ?? false,
      find,
      grantLease: async (seconds) => {
        try {
          return await upstream.grantLease(seconds)
        } catch (error) {
          throw storageError(error, 'read')
        }
      },
      randomBytes,
    }
  }

  /** For writers in threads, which pass on to this one what concerns containers. */
  get containers(): WriteContext['containers'] {
    return this.#context.containers
  }

  /**
   * Writes one of the server's own objects, and tries again if another writer changes it in the meantime.
   *
   * @param decide receives the current object, or null if there is none.
   * @returns whether something was written.
   * @throws StatusError
   */
  async ensure(place: ObjectLocation, decide: OwnDecision): Promise<boolean> {
    const context = this.#context
    const request = { ...NO_REQUEST, ...place }
    for (let attempt = 1; ; attempt++) {
      const held = await context.store.read(place)
      const decided = await decide(held?.object ?? null)
      if (decided === null) return false
      const { object, recreates } = decided
      try {
        if (held !== null && recreates) await remove(context, place, { ...UNCONDITIONAL, uid: uidOf(held.object) })
        if (held === null || recreates) await makeObject(new Write(context, request, BY_ITSELF), object)
        else await updateObject(context, { ...request, contentType: 'application/json', body: encodeJsonTree(object) })
        return true
      } catch (error) {
        const isRace = error instanceof AlreadyExistsError || error instanceof ConflictError
        if (attempt === MAX_ATTEMPTS || !(isRace || error instanceof NotFoundError)) throw error
      }
    }
  }

  /** @throws StatusError */
  perform(verb: OneVerb, request: WriteRequest): Promise<SingleResponse>
  perform(verb: WriteVerb, request: WriteRequest): Promise<WriteResponse>
  async perform(verb: WriteVerb | OneVerb, request: WriteRequest): Promise<WriteResponse> {
    const warnings = new Warnings()
    const response = await this.#perform(verb, { ...request, warnings }).catch((error: unknown) => {
      if (error instanceof StatusError) error.warnings = warnings.texts
      throw error
    })
    if (request.asProtobuf !== true || response.kind === 'objects') return response
    return inProtobuf(this.#context, request.served, response)
  }

  async #perform(verb: WriteVerb | OneVerb, request: WriteRequest): Promise<WriteResponse> {
    const { served, name, subresource } = request
    const { resource } = served
    const context = this.#context
    if (subresource !== '' && !hasSubresource(served, subresource)) throw unknownResource()
    if (subresource === EVICTION_NAME && verb !== 'create') throw methodNotAllowedError(resource, verb)
    switch (verb) {
      case 'create':
        if (subresource === EVICTION_NAME && name !== '') return await evictPod(context, request)
        if (name !== '' || subresource !== '') throw methodNotAllowedError(resource, 'create')
        requireNamespace(request)
        return await createObject(context, request)
      case 'update':
        if (name === '') throw methodNotAllowedError(resource, 'update')
        if (subresource === 'scale') return await writeScale(context, request, verb)
        return await updateObject(context, request)
      case 'patch':
        if (name === '') throw methodNotAllowedError(resource, 'patch')
        if (subresource === 'scale') return await writeScale(context, request, verb)
        return await patchObject(context, request)
      case 'delete':
        if (subresource !== '') throw methodNotAllowedError(resource, 'delete')
        return await deleteObject(context, request)
      case 'remove':
        return await removeObject(context, request)
      case 'deletecollection':
        if (subresource !== '') throw methodNotAllowedError(resource, 'deletecollection')
        requireNamespace(request)
        return await deleteCollection(context, request)
    }
  }
}

/** As in Kubernetes, which has no route for this: a namespaced collection is written only in one namespace. */
function requireNamespace({ served, namespace }: WriteRequest): void {
  if (namespace !== '' || !served.resource.namespaced) return
  throw served.origin === 'custom' ? unknownResource() : methodNotAllowed()
}

const MAX_ATTEMPTS = 3

const uidOf = (object: JsonRecord): string => textMember(object, 'metadata', 'uid')

/** The options of the server's own writes. */
const BY_ITSELF = {
  dryRun: false,
  fieldManager: 'distributary',
  fieldValidation: 'Ignore',
  force: false,
  ttlSeconds: null,
} as const

const NO_REQUEST = {
  namespace: '',
  subresource: '',
  query: new URLSearchParams(),
  userAgent: 'distributary',
  contentType: undefined,
  body: Buffer.alloc(0),
  mayCreate: () => Promise.resolve(),
  mayDelete: () => Promise.resolve(),
}
