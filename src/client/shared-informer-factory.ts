/**
 * The informers of a program. All parts of the program share one informer per resource and selection, so that each
 * resource is watched only once and its objects are held only once. The informers start and stop together.
 */
import type { KubeObject, ObjectLike } from './reflector/tree-codec.js'
import { type ResourceName, resourcePath } from './resource-path.js'
import { type InformerOptions, SharedInformer } from './shared-informer.js'

/** Options shared by all informers of a factory. */
export type FactoryOptions = Omit<
  InformerOptions,
  'path' | 'indexes' | 'transform' | 'validate' | 'afterResourceVersion'
>

/** Options of one informer; they override the factory's. */
export type FactoryInformerOptions<T extends ObjectLike = KubeObject> = Partial<Omit<InformerOptions<T>, 'path'>>

interface Entry {
  readonly informer: SharedInformer<never>
  /** The merged options of the factory and the first caller. */
  readonly options: InformerOptions<never>
}

/** Options that distinguish informers; a later caller may also add indexes. */
const MAY_DIFFER: ReadonlySet<string> = new Set([
  'path',
  'labelSelector',
  'fieldSelector',
  'prefix',
  'parameters',
  'indexes',
])

/** Gives each part of a program the same informer of a resource. */
export class SharedInformerFactory {
  readonly #options: FactoryOptions
  readonly #entries = new Map<string, Entry>()
  #isStopped = false

  constructor(options: FactoryOptions) {
    this.#options = options
  }

  /**
   * Returns the informer of a resource. Calls with the same path, selectors and parameters return the same informer. A
   * later caller may add indexes; its other options must equal those of the first.
   *
   * @param resource a path, or the argument of `resourcePath`.
   * @throws Error when an option differs from the first caller's, or when the factory was stopped.
   */
  informer<T extends ObjectLike = KubeObject>(
    resource: string | ResourceName,
    options: FactoryInformerOptions<T> = {},
  ): SharedInformer<T> {
    if (this.#isStopped) throw new Error('the factory was stopped')
    const path = typeof resource === 'string' ? resource : resourcePath(resource)
    const all = { ...this.#options, ...options, path } as InformerOptions<T>
    const { labelSelector = '', fieldSelector = '', prefix = '', parameters = {} } = all
    const sorted = Object.entries(parameters).toSorted(([a], [b]) => (a < b ? -1 : 1))
    const key = JSON.stringify([path, labelSelector, fieldSelector, prefix, sorted])
    const known = this.#entries.get(key)
    if (known !== undefined) {
      const informer = known.informer as unknown as SharedInformer<T>
      refuseOtherOptions(all, known.options as unknown as InformerOptions<T>)
      addIndexes(informer, all)
      return informer
    }
    const informer = new SharedInformer<T>(all)
    this.#entries.set(key, { informer: informer as never, options: all as never })
    return informer
  }

  /** Starts every informer that has not been started. Call it again after requesting more informers. */
  start(): void {
    for (const { informer } of this.#entries.values()) informer.start()
  }

  /** Resolves when every informer has synced. @throws Error when one is stopped before; the signal's reason. */
  async whenSynced(signal?: AbortSignal): Promise<void> {
    await Promise.all([...this.#entries.values()].map(({ informer }) => informer.whenSynced(signal)))
  }

  /** Stops every informer, and resolves when nothing is running any more. The factory returns no more informers. */
  async stop(): Promise<void> {
    this.#isStopped = true
    await Promise.all([...this.#entries.values()].map(({ informer }) => informer.stop()))
  }

  /** Starts all informers, and stops them when the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    if (!signal.aborted) {
      this.start()
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
    }
    await this.stop()
  }
}

function refuseOtherOptions<T extends ObjectLike>(given: InformerOptions<T>, first: InformerOptions<T>): void {
  const names = new Set([...Object.keys(given), ...Object.keys(first)]) as Set<keyof InformerOptions<T>>
  for (const name of names) {
    if (MAY_DIFFER.has(name) || Object.is(given[name], first[name])) continue
    throw new Error(`${given.path}: ${name} differs from what the first caller of this informer chose`)
  }
}

function addIndexes<T extends ObjectLike>(
  { store }: SharedInformer<T>,
  { path, indexes = {} }: InformerOptions<T>,
): void {
  for (const [name, valuesOf] of Object.entries(indexes)) {
    const own = store.indexFunction(name)
    if (own === undefined) store.addIndex(name, valuesOf)
    else if (own !== valuesOf) throw new Error(`${path}: index ${name} is already defined by another function`)
  }
}
