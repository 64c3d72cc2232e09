/** The context that all verbs share, and the types of their requests and responses. */
import type { Requester } from './kind-rules.js'
import { equalTrees, type JsonRecord } from '../codec/json-tree.js'
import type { Schema } from '../codec/protobuf/schema.js'
import type { ServedResource } from '../dialect/resource-registry.js'
import { apiVersion, type ObjectName } from '../model/api-resource.js'
import type { Revision } from '../../engine/model/revision.js'
import type { StatusError } from '../model/status.js'
import type { StoredObject } from '../../engine/model/stored-object.js'
import type { Clock } from '../../support/clock.js'
import { type Containers, isContainer } from './containers.js'
import type { Manager } from './managed-fields.js'
import type { Namespaces } from './namespaces.js'
import {
  type BodyProblems,
  type ChangeRequest,
  hasFinalizers,
  isDeleting,
  type ObjectChange,
  refuseOrWarn,
  unreadableAs,
} from './object-change.js'
import type { Change, Changed, ConfirmPut, Guards, Held, ObjectStore } from './object-store.js'
import type { Shape } from './shape.js'
import { unknownField } from './strict-problems.js'
import { chooseLease } from './time-to-live.js'
import type { WriteOptions } from './write-options.js'

export interface WriteContext {
  readonly store: ObjectStore
  readonly change: ObjectChange
  readonly namespaces: Namespaces
  readonly containers: Pick<Containers, 'assertDefined' | 'finish' | 'afterChange' | 'afterGone'>
  readonly clock: Clock
  /** Finds a resource that is served now. */
  readonly find: (group: string, version: string, plural: string) => ServedResource | undefined
  /** Whether field selectors may name any scalar path of Kubernetes' own kinds and custom resources. */
  readonly isAnyFieldSelectable: boolean
  /** The schema with which protobuf bodies are decoded. */
  readonly schema: Schema
  readonly deleteOptions: Shape
  /** @returns the lease's id. @throws StatusError */
  readonly grantLease: (seconds: number) => Promise<string>
  readonly randomBytes: (count: number) => Buffer
}

interface RemovalApart {
  /** The size in bytes above which an object is removed by `remove`. */
  readonly overBytes: number
  /** @returns the last state of the object; null if it was gone already. @throws StatusError */
  remove(name: ObjectName): Promise<SingleResponse | null>
}

export interface WriteRequest {
  readonly served: ServedResource
  /** The namespace is '' for a cluster-scoped resource. */
  readonly namespace: string
  /** The name is '' for a collection. */
  readonly name: string
  readonly subresource: string
  readonly query: URLSearchParams
  readonly userAgent: string
  /** Default: the server authenticates no one. */
  readonly requester?: Requester | null
  readonly contentType: string | undefined
  readonly body: Buffer
  /** Whether the client reads only protobuf. Default: the response is JSON. */
  readonly asProtobuf?: boolean
  /** Called before a PUT or an apply creates an object. @throws ForbiddenError */
  readonly mayCreate: () => Promise<void>
  /**
   * Called before an object without a time to live gets one, because the lease will delete it.
   * @throws ForbiddenError
   */
  readonly mayDelete: () => Promise<void>
  /** How larger objects are removed, if the event loop does not remove them. */
  readonly apart?: RemovalApart
  /** Called before an object is put that the caller may not write freely. @throws StatusError */
  readonly confirm?: ConfirmPut
  /** Collects the warnings. Default: they go with the response only. */
  readonly warnings?: Warnings
}

export type WriteResponse = SingleResponse | CollectionResponse

/**
 * The deleted objects of a collection, each in its last state. This response is used only within the process and
 * never comes from a thread.
 */
export interface CollectionResponse {
  readonly kind: 'objects'
  readonly code: number
  /** The revision at which the collection was read. */
  readonly revision: Revision
  /** The token for the rest of the collection; '' if there is none. */
  readonly continueToken: string
  readonly warnings: readonly string[]
  readonly objects: readonly StoredObject[]
}

export type SingleResponse =
  | {
      readonly kind: 'object'
      readonly code: number
      readonly stored: StoredObject
      readonly warnings: readonly string[]
    }
  /** An object or a document, as in the other two cases, encoded in protobuf. */
  | { readonly kind: 'protobuf'; readonly code: number; readonly bytes: Buffer; readonly warnings: readonly string[] }
  /** The body is a Status, a Scale, or an object that has no resourceVersion yet. */
  | { readonly kind: 'document'; readonly code: number; readonly json: Buffer; readonly warnings: readonly string[] }

/** Limits the Warning headers of one response. */
const MAX_WARNINGS = 32

/** The warnings of one request, without duplicates. */
export class Warnings {
  readonly #texts = new Set<string>()

  readonly add = (text: string): void => {
    if (this.#texts.size < MAX_WARNINGS) this.#texts.add(text)
  }

  get texts(): readonly string[] {
    return [...this.#texts]
  }
}

/** Returns an RFC 3339 time in whole seconds, as Kubernetes writes times. */
export function timestamp(clock: Clock): string {
  return new Date(clock.now()).toISOString().replace(/\.\d{3}Z$/, 'Z')
}

/** The lease of one request's write. It is granted once, even if the write is decided again after lost races. */
class RequestLease {
  /** Set until the store has written the object, or has given up and revoked the lease. */
  #granted: { readonly seconds: number; readonly id: Promise<string> } | null = null

  constructor(
    private readonly context: Pick<WriteContext, 'grantLease'>,
    private readonly mayDelete: WriteRequest['mayDelete'],
    private readonly ttlSeconds: number | null,
    private readonly holdsOthers: boolean,
  ) {}

  /**
   * Replaces `held` by `after`. Returns no change if nothing would change, and a removal if the object is marked as
   * deleted and its last finalizer is gone. A container is removed only once it is empty, whatever is written to it.
   */
  put(held: Held | null, after: JsonRecord): Change {
    const isGone = held !== null && isDeleting(after) && !hasFinalizers(after) && !this.holdsOthers
    if (isGone) return { kind: 'delete', last: after }
    const before = held === null ? null : { object: held.object, leaseId: held.stored.leaseId }
    const choice = chooseLease(before, after, this.ttlSeconds)
    if (choice.kind === 'grant') return { kind: 'put', value: after, lease: this.#granting(held, choice.seconds) }
    const { leaseId } = choice
    const isSame = held !== null && leaseId === held.stored.leaseId && equalTrees(held.object, after)
    if (isSame && !held.isOldVersion) return { kind: 'none' }
    return { kind: 'put', value: after, lease: () => Promise.resolve(leaseId) }
  }

  putBare(held: Held | null, value: Buffer): Change {
    const { ttlSeconds } = this
    if (ttlSeconds !== null && ttlSeconds > 0) return { kind: 'put', value, lease: this.#granting(held, ttlSeconds) }
    const leaseId = ttlSeconds === 0 || held === null ? '0' : held.stored.leaseId
    return { kind: 'put', value, lease: () => Promise.resolve(leaseId) }
  }

  /** Called before the store begins a change. */
  renew(): void {
    this.#granted = null
  }

  #granting(held: Held | null, seconds: number): (lost: string) => Promise<string> {
    return async (lost) => {
      if (held !== null && held.stored.leaseId === '0') await this.mayDelete()
      const isUsable = this.#granted?.seconds === seconds && (await this.#granted.id) !== lost
      if (!isUsable) this.#granted = { seconds, id: this.context.grantLease(seconds) }
      return await this.#granted!.id
    }
  }
}

/** One request that creates or changes an object, from its options to its response. */
export class Write {
  readonly warnings: Warnings
  readonly lease: RequestLease
  readonly manager: Manager
  /** The object's name, which a create may generate. */
  name: string
  /** The unknown and duplicate fields of the request body. */
  inBody: BodyProblems = { texts: [], hasUnknown: false, isInOrder: false }
  /** Creates the error for a patch whose result cannot be read. */
  unreadable?: (why: string) => StatusError

  constructor(
    readonly context: WriteContext,
    readonly request: WriteRequest,
    readonly options: WriteOptions,
  ) {
    const { served, subresource, name, warnings = new Warnings() } = request
    this.warnings = warnings
    this.lease = new RequestLease(context, request.mayDelete, options.ttlSeconds, isContainer(served))
    this.manager = {
      name: options.fieldManager,
      apiVersion: apiVersion(served.resource),
      subresource,
      time: timestamp(context.clock),
    }
    this.name = name
  }

  /**
   * Reads an object as its kind, and removes the fields that the kind does not declare.
   * @throws StatusError if it cannot be read, or the request asks to refuse unknown and duplicate fields.
   */
  read(object: JsonRecord): void {
    const { texts, hasUnknown, isInOrder } = this.inBody
    const found = this.context.change.read(this.request.served, object, this.#refused)
    const unknown = (isInOrder ? found : [...found].sort()).map(unknownField)
    this.refuseOrWarn(hasUnknown ? texts : [...texts, ...unknown])
  }

  /** @throws StatusError if the request asks to refuse unknown and duplicate fields. */
  refuseOrWarn(problems: readonly string[]): void {
    refuseOrWarn(problems, this.options.fieldValidation, this.warnings.add, this.#refused)
  }

  readonly #refused = (why: string): StatusError =>
    this.unreadable?.(why) ?? unreadableAs(this.request.served.resource, why)

  /** Returns the request for `ObjectChange`. */
  changeRequest(more: Pick<ChangeRequest, 'verb'> & Partial<ChangeRequest>): ChangeRequest {
    const { served, namespace, subresource, requester = null } = this.request
    return {
      served,
      name: { namespace, name: this.name },
      subresource,
      manager: this.manager,
      requester,
      keepsManagedFields: false,
      isPatched: this.unreadable !== undefined,
      warn: this.warnings.add,
      ...more,
    }
  }

  /** @throws StatusError */
  async change(decide: (held: Held | null) => Change, guards?: Guards): Promise<SingleResponse> {
    const { context, options, request, name } = this
    const place = { served: request.served, namespace: request.namespace, name }
    this.lease.renew()
    const changed = await context.store.change(place, decide, { ...options, confirm: request.confirm, guards })
    if (changed.kind === 'deleted') await context.containers.afterGone(place)
    // The container's last finalizer may have been the only thing that kept it.
    else if (changed.kind === 'updated' && isContainer(request.served) && !options.dryRun)
      await context.containers.afterChange(place)
    return responseOf(changed, this.warnings, options.dryRun)
  }
}

/** @param held the previous object, which a dry run of a create needs. */
export function responseOf(changed: Changed, warnings: Warnings, isDryRun: boolean): SingleResponse {
  const { stored, kind } = changed
  if (stored === null) throw new RangeError('a write that leaves no object is answered separately')
  const code = kind === 'created' ? 201 : 200
  if (isDryRun && kind === 'created') return { kind: 'document', code, json: stored.bytes, warnings: warnings.texts }
  return { kind: 'object', code, stored, warnings: warnings.texts }
}
