/**
 * Follows CustomResourceDefinitions. Each version that a definition serves becomes a resource as soon as the definition
 * has been read, and is removed together with the definition.
 *
 * A small definition is read at once, or in a later turn of the event loop if this one has no time left. A large
 * definition is read in a thread. Waiting definitions are read in the order in which they arrived, each in its latest
 * state.
 *
 * As in the API server, the group versions of access reviews and those that `--apiservice` names are reserved.
 * Otherwise anyone who can write a definition could take them over.
 */
import type { Ambient } from '../../support/ambient.js'
import { DefinedSchema } from '../../kubernetes/codec/defined-schema.js'
import { parseExactJson } from '../../kubernetes/codec/exact-json.js'
import type { ViewTarget } from '../../kubernetes/codec/object-views.js'
import { structuralFrom } from '../../kubernetes/codec/structural-pieces.js'
import { ownerOfDefinition, readDefinition } from '../../kubernetes/dialect/crd.js'
import type { ResourceRegistry, ServedResource } from '../../kubernetes/dialect/resource-registry.js'
import { fromShared } from '../../kubernetes/dialect/shared-resource.js'
import { qualifiedName } from '../../kubernetes/dialect/well-known-resources.js'
import { apiVersion } from '../../kubernetes/model/api-resource.js'
import type { StoredObject } from '../../engine/model/stored-object.js'
import type { Timer } from '../../support/clock.js'
import { ThreadEndedError } from '../../support/thread-pool.js'
import { LoopSlice, turns } from '../../support/turns.js'
import type { SharedReading } from './document-messages.js'
import type { ObjectFollower } from './followed-objects.js'
import { DISCOVERY_OWNER } from './remote-discovery.js'
import { MAX_DEFINITION_BYTES } from '../limits/fixed-limits.js'

/** The version in which definitions are read here. */
export const DEFINITION_VIEW: ViewTarget = { apiVersion: 'apiextensions.k8s.io/v1', convertsByName: false, rules: null }

/** How long an API server may take until it reads objects according to a changed definition. */
const CHANGE_MS = 1_500

/** Each new definition is pending for a moment, which is worth no warning. An API server decides within seconds. */
const PENDING_MS = 10_000

/**
 * How long to wait before reading a definition again after its thread crashed, because each crash costs a new thread.
 */
const CRASH_RETRY_MS = 60_000

export interface DefinitionsOptions extends Pick<Ambient, 'clock' | 'logger'> {
  readonly registry: ResourceRegistry
  readonly etcdPrefix: string
  /** Returns the owner of a group version that no definition may serve; null for any other. */
  readonly reservedFor: (group: string, version: string) => string | null
  /** Returns the definition as apiextensions.k8s.io/v1 JSON; null when it cannot be read. */
  readonly jsonOf: (object: StoredObject) => Buffer | null
  /** Reads a definition in a thread. @throws ThreadEndedError */
  readonly readInThread: (object: StoredObject) => Promise<SharedReading>
  /**
   * Waits for the last events of the resources of a deleted definition; see `whenEmptied`. Returns undefined if there
   * is nothing to wait for.
   */
  readonly whenEmptied: (resources: readonly ServedResource[]) => Promise<unknown> | undefined
  /**
   * Whether the objects come from another server, which converts them to the requested version according to their
   * definitions.
   */
  readonly areReadThere: boolean
}

export class Definitions implements ObjectFollower {
  readonly #slice = new LoopSlice()
  /**
   * The definitions that still have to be read, by name and in order; at most one entry per definition in the cache.
   */
  readonly #waiting = new Map<string, StoredObject>()
  /** The definition being read; null if none is being read, or if its result is no longer wanted. */
  #reading: StoredObject | null = null
  #isReading = false
  /**
   * By the name of a definition whose objects another server reads: everything that determines the form in which they
   * arrive.
   */
  readonly #requested = new Map<string, string>()
  /** By the name of a changed definition: the timer after which it is served. */
  readonly #changing = new Map<string, Timer>()
  /** By the name of a deleted definition: a promise that resolves after the last events of its objects. */
  readonly #leaving = new Map<string, Promise<unknown>>()
  /** By the name of a definition: the timer that rereads it after a crash, or reports that it is still pending. */
  readonly #later = new Map<string, Timer>()

  /** By the name of a definition: the resources whose paths others serve. They are tried again when a path is free. */
  readonly #refused = new Map<
    string,
    { readonly defined: readonly ServedResource[]; paths: readonly ServedResource[] }
  >()

  constructor(private readonly options: DefinitionsOptions) {
    // The change is still being reported to the other listeners.
    options.registry.onChange(({ removed }) => {
      if (removed.length > 0 && this.#refused.size > 0) queueMicrotask(() => this.#takeFreed())
    })
  }

  /** Whether every definition seen so far has been read. */
  get isSettled(): boolean {
    return this.#waiting.size === 0 && !this.#isReading
  }

  onPresent(object: StoredObject): void {
    this.#leaving.delete(object.name)
    this.#forget(object.name)
    if (this.isSettled && isSmall(object) && !this.#slice.isOver) return this.#readHere(object)
    this.#waiting.set(object.name, object)
    if (!this.#isReading) void this.#readAll()
  }

  onAbsent(name: string): void {
    this.#forget(name)
    this.#changing.get(name)?.cancel()
    this.#changing.delete(name)
    void this.#leave(name)
  }

  async #leave(name: string): Promise<void> {
    const { registry, whenEmptied } = this.options
    const owner = ownerOfDefinition(name)
    const emptied = whenEmptied(registry.ownedBy(owner))
    if (emptied !== undefined) {
      this.#leaving.set(name, emptied)
      await emptied
      // The definition may have been created again in the meantime.
      if (this.#leaving.get(name) !== emptied) return
      this.#leaving.delete(name)
    }
    this.#requested.delete(name)
    registry.remove(owner)
  }

  #forget(name: string): void {
    this.#waiting.delete(name)
    this.#refused.delete(name)
    if (this.#reading?.name === name) this.#reading = null
    this.#later.get(name)?.cancel()
    this.#later.delete(name)
  }

  async #readAll(): Promise<void> {
    this.#isReading = true
    await turns.take()
    for (;;) {
      if (turns.isOver) await turns.take()
      const [next] = this.#waiting.values()
      if (next === undefined) break
      this.#waiting.delete(next.name)
      if (isSmall(next)) this.#readHere(next)
      else await this.#readThere(next)
    }
    this.#isReading = false
  }

  #readHere(object: StoredObject): void {
    const { jsonOf, etcdPrefix } = this.options
    const json = jsonOf(object)
    if (json === null) return this.#refuse(object.name, 'it cannot be read')
    const reading = readDefinition(parseExactJson(json), etcdPrefix)
    if (reading.kind === 'not-served') return this.#refuse(object.name, reading.reason, reading.isPending)
    this.#serve(object.name, reading.resources)
  }

  async #readThere(object: StoredObject): Promise<void> {
    this.#reading = object
    const reading = await this.#readInThread(object)
    const isRead = !(reading instanceof ThreadEndedError)
    const resources = isRead && reading.kind === 'defined' ? await resourcesOf(reading) : []
    if (this.#reading !== object) return
    this.#reading = null
    if (isRead) {
      if (reading.kind === 'defined') this.#serve(object.name, resources)
      else this.#refuse(object.name, reading.reason, reading.isPending)
    } else if (reading.reason === 'crash') this.#readLater(object, reading)
    else if (reading.reason !== 'closed') this.#refuse(object.name, 'reading it takes too much time or memory')
  }

  /** Tries again once after a crash, since the definition may not be its cause. */
  async #readInThread(object: StoredObject): Promise<SharedReading | ThreadEndedError> {
    for (let isRetry = false; ; isRetry = true) {
      try {
        return await this.options.readInThread(object)
      } catch (error) {
        if (!(error instanceof ThreadEndedError)) throw error
        if (error.reason !== 'crash' || isRetry || this.#reading !== object) return error
      }
    }
  }

  /** Reads the definition again later. Until then, the resources of its previous state stay served. */
  #readLater(object: StoredObject, { cause }: ThreadEndedError): void {
    const { clock, logger } = this.options
    logger.error(
      { definition: object.name, err: cause, retryMs: CRASH_RETRY_MS },
      'cannot read the definition of a custom resource: the thread that reads it crashed twice',
    )
    this.#later.set(
      object.name,
      clock.setTimer(CRASH_RETRY_MS, () => this.onPresent(object)),
    )
  }

  #refuse(name: string, reason: string, isPending = false): void {
    const { registry, clock, logger } = this.options
    const warn = (): void => logger.warn({ definition: name, reason }, 'custom resource is not served')
    if (isPending) this.#later.set(name, clock.setTimer(PENDING_MS, warn))
    else warn()
    this.#changing.get(name)?.cancel()
    this.#changing.delete(name)
    registry.remove(ownerOfDefinition(name))
  }

  #serve(name: string, defined: readonly ServedResource[]): void {
    if (this.options.areReadThere) this.#serveFromThere(name, asReadThere(defined))
    else this.#set(name, defined)
  }

  /**
   * When a definition changes, the API server shows other content under the same resourceVersions. So the old feed has
   * to end before a new one requests objects by the changed definition.
   */
  #serveFromThere(name: string, resources: readonly ServedResource[]): void {
    const { registry, clock } = this.options
    const [source] = resources
    const requested = source?.resource.form ?? ''
    const before = this.#requested.get(name)
    this.#requested.set(name, requested)
    if (before === undefined) return this.#set(name, resources)
    if (before === requested && !this.#changing.has(name)) return this.#set(name, resources)
    this.#changing.get(name)?.cancel()
    const change = (): void => {
      this.#changing.delete(name)
      registry.remove(ownerOfDefinition(name))
      this.#set(name, resources)
    }
    this.#changing.set(name, clock.setTimer(CHANGE_MS, change))
  }

  #set(name: string, defined: readonly ServedResource[]): void {
    const { registry, logger, reservedFor } = this.options
    const resources = defined.filter(({ resource }) => {
      const owner = reservedFor(resource.group, resource.version)
      if (owner === null) return true
      logger.warn(
        { definition: name, reason: `${apiVersion(resource)} belongs to ${owner}` },
        'custom resource is not served',
      )
      return false
    })
    const refused = registry.set(ownerOfDefinition(name), resources)
    if (refused.length > 0) this.#refused.set(name, { defined, paths: refused })
    else this.#refused.delete(name)
    for (const entry of refused) {
      const by = registry.ownerOf(entry)
      // Discovery lets go of the resource as soon as it can read the names of the definitions.
      if (by === DISCOVERY_OWNER) continue
      logger.warn(
        { definition: name, resource: qualifiedName(entry.resource), by },
        'custom resource is not served: its path is already in use',
      )
    }
  }

  #takeFreed(): void {
    const { registry } = this.options
    for (const [name, { defined, paths }] of this.#refused) {
      if (paths.some((entry) => registry.ownerOf(entry) === undefined)) this.#set(name, defined)
    }
  }
}

/**
 * Puts the stored version first, because objects are requested in that version. A version that would show objects
 * differently, or to which a webhook converts, is read from the other server when a client asks for it.
 */
function asReadThere(defined: readonly ServedResource[]): readonly ServedResource[] {
  const source = defined.find(({ resource, storageVersion }) => resource.version === storageVersion) ?? defined[0]
  if (source === undefined) return []
  const isSame = ({ convertsByWebhook, definition, schema }: ServedResource): boolean =>
    !convertsByWebhook &&
    (definition?.preservesUnknownFields === true || DefinedSchema.readAlike(schema, source.schema))
  const others = defined.filter((one) => one !== source)
  const form = `${source.resource.version} ${source.definition?.fingerprint}`
  return [source, ...others.map((one) => (isSame(one) ? one : { ...one, isUncached: true }))].map((one) => ({
    ...one,
    resource: { ...one.resource, form },
    isReadThere: true,
  }))
}

/** The versions of a definition in v1beta1 may share most of its bytes. */
function isSmall({ bytes, schemaVersion }: StoredObject): boolean {
  return bytes.length <= MAX_DEFINITION_BYTES && schemaVersion !== 'apiextensions.k8s.io/v1beta1'
}

async function resourcesOf({
  resources,
  structurals,
}: Extract<SharedReading, { kind: 'defined' }>): Promise<readonly ServedResource[]> {
  const compiled = new Map<readonly string[], Awaited<ReturnType<typeof structuralFrom>>>()
  for (const pieces of new Set(Object.values(structurals))) compiled.set(pieces, await structuralFrom(pieces))
  return fromShared(resources, (json, version) => new DefinedSchema(json, compiled.get(structurals[version]!)))
}
