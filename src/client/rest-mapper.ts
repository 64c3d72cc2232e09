/**
 * Maps names and kinds to resources and paths, using the server's discovery. It repeats discovery for an unknown name,
 * because a definition may have been created since, but at most every few seconds, so that a loop with a wrong name
 * causes no load.
 */
import { activeClock } from './reflector/active-clock.js'
import { WatchFailure } from './reflector/watch-failure.js'
import type { Transport } from './reflector/transport.js'
import type { ObjectLike } from './reflector/tree-codec.js'
import type { Clock } from '../support/clock.js'
import { withDeadline } from '../support/deadline.js'
import { type ApiResource, discover, resourceNamed, resourceNameOf } from './discovery.js'
import { requestJson } from './request-json.js'
import { resourcePath } from './resource-path.js'

/** The server that a mapper uses, and how often it repeats discovery. */
export interface RestMapperOptions {
  readonly transport: Transport
  /** For an unknown name, the mapper repeats discovery if the last one is at least this long ago. Default: 10 s. */
  readonly refreshMs?: number
  readonly clock?: Clock
}

/** The time limit for one discovery document. */
const TIMEOUT_MS = 30_000

/** A kind as in manifests and owner references. */
export interface GroupKind {
  /** Default: '', the core group. */
  readonly group?: string
  readonly kind: string
  /** Default: the version that the server prefers. */
  readonly version?: string
}

/** Finds the resource of a name or a kind, and its path. */
export class RestMapper {
  readonly #options: RestMapperOptions
  readonly #clock: Clock
  #known: readonly ApiResource[] | null = null
  /** The pending request. */
  #pending: Promise<readonly ApiResource[]> | null = null
  #requestedAtMs = 0

  constructor(options: RestMapperOptions) {
    this.#options = options
    this.#clock = options.clock ?? activeClock
  }

  /** Returns all resources in the server's order of preference. @throws WatchFailure; Error without a response. */
  async resources(): Promise<readonly ApiResource[]> {
    return this.#known ?? this.refresh()
  }

  /**
   * Repeats discovery now, once for all waiting callers. Known resources are kept while the server is unreachable.
   *
   * @throws WatchFailure; Error without a response.
   */
  refresh(): Promise<readonly ApiResource[]> {
    this.#pending ??= this.#discover()
    return this.#pending
  }

  /**
   * Returns the resource for a name such as `pods`, `po`, `Pod`, `deploy.apps` or `deployments.v1.apps`; null if the
   * server has none.
   */
  async find(name: string): Promise<ApiResource | null> {
    return this.#look((all) => resourceNamed(all, name))
  }

  /** Returns the resource of a kind; null if the server has none. */
  async ofKind({ group = '', kind, version }: GroupKind): Promise<ApiResource | null> {
    return this.#look(
      (all) =>
        all.find(
          (one) => one.kind === kind && one.group === group && (version === undefined || one.version === version),
        ) ?? null,
    )
  }

  /**
   * Returns the path of an object by its `apiVersion`, `kind` and metadata:
   * `/apis/apps/v1/namespaces/shop/deployments/cart`.
   *
   * @throws Error when the server has no such kind, or the object lacks a name, or the namespace that its kind needs.
   */
  async pathOf(object: ObjectLike): Promise<string> {
    const { apiVersion = '', kind = '', metadata = {} } = object
    const [version = '', group = ''] = apiVersion.split('/').toReversed()
    const resource = await this.ofKind({ group, kind, version })
    if (resource === null)
      throw new Error(`the server has no kind ${JSON.stringify(kind)} in ${JSON.stringify(apiVersion)}`)
    const { name = '', namespace = '' } = metadata
    if (name === '') throw new Error(`this ${kind} has no metadata.name`)
    if (resource.namespaced && namespace === '') throw new Error(`${kind} ${name} has no metadata.namespace`)
    return resourcePath({ ...resourceNameOf(resource, namespace), name })
  }

  async #look(find: (all: readonly ApiResource[]) => ApiResource | null): Promise<ApiResource | null> {
    const found = find(await this.resources())
    if (found !== null) return found
    const isRecent = this.#clock.monotonic() - this.#requestedAtMs < (this.#options.refreshMs ?? 10_000)
    return find(await (isRecent ? (this.#pending ?? this.resources()) : this.refresh()))
  }

  async #discover(): Promise<readonly ApiResource[]> {
    this.#requestedAtMs = this.#clock.monotonic()
    try {
      this.#known = await discover((path, accept) => this.#requestDocument(path, accept))
      return this.#known
    } finally {
      this.#pending = null
    }
  }

  async #requestDocument(path: string, accept: string): Promise<unknown> {
    try {
      const { transport } = this.#options
      const late = (): Error => new Error(`no answer to ${path} within ${TIMEOUT_MS} ms`)
      // All callers share this request, so one that hangs would keep them all.
      return await withDeadline(this.#clock, TIMEOUT_MS, undefined, late, (signal) =>
        requestJson(transport, { path, accept, signal }),
      )
    } catch (error) {
      if (error instanceof WatchFailure && error.code === 404) return null
      throw error
    }
  }
}
