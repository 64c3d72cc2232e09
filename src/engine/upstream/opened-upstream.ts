/**
 * An upstream that decrypts values when they are read and encrypts them when they are written (`value-transform.ts`),
 * for requests that bypass the caches.
 */
import type { Key, KeyValue } from '../model/event.js'
import type { Revision } from '../model/revision.js'
import { openAll, openBatches, type ValueTransform } from '../model/value-transform.js'
import { InOrder } from './in-order.js'
import type {
  Compare,
  Page,
  ReadOptions,
  Upstream,
  UpstreamStatus,
  UpstreamWatch,
  UpstreamWatchOptions,
  WatchHandlers,
  WriteOperation,
  WriteResult,
} from './upstream.js'

export class OpenedUpstream implements Upstream {
  /** @param transformOf returns null for keys whose values are not encrypted. */
  constructor(
    private readonly inner: Upstream,
    private readonly transformOf: (key: Key) => ValueTransform | null,
  ) {}

  async read(options: ReadOptions): Promise<Page> {
    const page = await this.inner.read(options)
    if (options.keysOnly === true) return page
    return { ...page, keyValues: await openAll(this.#transform(), page.keyValues) }
  }

  async readKey(key: Key, options?: { revision?: Revision; signal?: AbortSignal }): Promise<KeyValue | null> {
    return await this.#open(await this.inner.readKey(key, options))
  }

  currentRevision(signal?: AbortSignal): Promise<Revision> {
    return this.inner.currentRevision(signal)
  }

  status(signal?: AbortSignal): Promise<UpstreamStatus> {
    return this.inner.status(signal)
  }

  watch(options: UpstreamWatchOptions, handlers: WatchHandlers): UpstreamWatch {
    const steps = new InOrder()
    const transform = this.#transform()
    const watch = this.inner.watch(options, {
      onOpen: () => steps.do(() => handlers.onOpen()),
      onBatches: (batches) =>
        steps.do(() => {
          const opened = openBatches(transform, batches)
          if (!(opened instanceof Promise)) return handlers.onBatches(opened)
          return opened.then((later) => {
            if (!steps.isStopped) handlers.onBatches(later)
          })
        }),
      onProgress: (revision) => steps.do(() => handlers.onProgress(revision)),
      onEnd: (end) => steps.do(() => handlers.onEnd(end)),
    })
    return {
      requestProgress: () => watch.requestProgress(),
      close: () => {
        steps.stop()
        watch.close()
      },
    }
  }

  async write(compares: readonly Compare[], operations: readonly WriteOperation[]): Promise<WriteResult> {
    const sealed: WriteOperation[] = []
    for (const operation of operations) sealed.push(await this.#seal(operation))
    const result = await this.inner.write(compares, sealed)
    if (result.kind === 'written') return result
    const current: (KeyValue | null)[] = []
    for (const keyValue of result.current) current.push(await this.#open(keyValue))
    return { ...result, current }
  }

  grantLease(ttlSeconds: number): Promise<string> {
    return this.inner.grantLease(ttlSeconds)
  }

  dropLease(leaseId: string): Promise<void> {
    return this.inner.dropLease(leaseId)
  }

  close(): Promise<void> {
    return this.inner.close()
  }

  async #open(keyValue: KeyValue | null): Promise<KeyValue | null> {
    return keyValue === null ? null : await this.#transform().open(keyValue)
  }

  async #seal(operation: WriteOperation): Promise<WriteOperation> {
    const transform = operation.type === 'put' ? this.transformOf(operation.key) : null
    if (operation.type === 'delete' || transform === null) return operation
    return { ...operation, value: await transform.seal(operation.key, operation.value) }
  }

  /** Chooses the transform by the key of each value, because the range may contain several resources. */
  #transform(): Pick<ValueTransform, 'open'> {
    return { open: (keyValue) => this.transformOf(keyValue.key)?.open(keyValue) ?? keyValue }
  }
}
