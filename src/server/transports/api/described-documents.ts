/**
 * The OpenAPI documents of the server behind `--upstream`. They have megabytes, and anyone with a name may read them.
 * So equal requests share one download, few downloads run at once, and a document is kept for a moment. A document that
 * has not changed stays the same buffer, which all of its readers share, however slowly they read.
 */
import { LRUCache } from 'lru-cache'
import { FairSemaphore } from '../../limits/fair-semaphore.js'
import type { Clock } from '../../../support/clock.js'
import type { Described } from './api-context.js'

type Request = Parameters<Described['openApi']>[0]
type Document = NonNullable<Awaited<ReturnType<Described['openApi']>>>

/** Clients that start together read a document within seconds, and a new definition is described soon after. */
const KEPT_MS = 2_000
const MAX_KEPT_BYTES = 64 * 2 ** 20
const DOWNLOADS = 4
const MAX_WAITING = 256

export class DescribedDocuments implements Described {
  readonly #kept = new LRUCache<string, { readonly document: Document; readonly untilMs: number }>({
    maxSize: MAX_KEPT_BYTES,
    sizeCalculation: ({ document }) => document.body.length + 1,
  })
  readonly #running = new Map<string, Promise<Document | null>>()
  readonly #downloads: FairSemaphore

  constructor(
    private readonly server: Described,
    private readonly clock: Clock,
  ) {
    this.#downloads = new FairSemaphore({
      clock,
      slots: DOWNLOADS,
      maxSlotsPerIdentity: DOWNLOADS,
      maxWaiting: MAX_WAITING,
      maxWaitingPerIdentity: MAX_WAITING,
      maxWaitMs: 10_000,
      message: 'too many OpenAPI documents are being read',
      onRejected: () => {},
    })
  }

  async openApi(request: Request): Promise<Document | null> {
    const key = JSON.stringify([request.path, request.query, request.accept])
    const kept = this.#kept.get(key)
    if (kept !== undefined && this.clock.monotonic() < kept.untilMs) return kept.document
    const running = this.#running.get(key) ?? this.#download(key, request).finally(() => this.#running.delete(key))
    this.#running.set(key, running)
    return await running
  }

  async #download(key: string, request: Request): Promise<Document | null> {
    const leave = await this.#downloads.acquire('')
    try {
      const found = await this.server.openApi(request)
      if (found === null) return null
      const before = this.#kept.get(key)?.document
      const document = before !== undefined && isSame(before, found) ? before : found
      this.#kept.set(key, { document, untilMs: this.clock.monotonic() + KEPT_MS })
      return document
    } finally {
      leave()
    }
  }
}

function isSame(one: Document, other: Document): boolean {
  return one.etag === other.etag && one.contentType === other.contentType && one.body.equals(other.body)
}
