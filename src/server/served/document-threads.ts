/**
 * Threads for work that grows with the size of schemas. One thread reads definitions, and the other builds OpenAPI
 * documents. Each thread starts with its first job and does one job at a time.
 */
import type { Document } from '../../kubernetes/dialect/discovery.js'
import type { OpenApiForm } from '../../kubernetes/dialect/openapi.js'
import type { ServedResource } from '../../kubernetes/dialect/resource-registry.js'
import { toShared } from '../../kubernetes/dialect/shared-resource.js'
import { InternalError, ServiceUnavailableError } from '../../kubernetes/model/status.js'
import type { StoredObject } from '../../engine/model/stored-object.js'
import { type ThreadEnd, ThreadEndedError, type ThreadPool } from '../../support/thread-pool.js'
import type { DefinitionMessage, DocumentMessage, OpenApiMessage, SharedReading } from './document-messages.js'
import { bufferOf } from '../../support/buffer-of.js'

export interface DocumentThreadsOptions {
  readonly threads: Pick<ThreadPool, 'run'>
  readonly etcdPrefix: string
  /** Whether writes are served. */
  readonly writable: boolean
}

export class DocumentThreads {
  #lastDocument: Promise<unknown> = Promise.resolve()

  constructor(private readonly options: DocumentThreadsOptions) {}

  /** The caller must read one definition at a time. @throws ThreadEndedError */
  async readDefinition(object: StoredObject): Promise<SharedReading> {
    const { name, encoding, schemaVersion, typeName, revisionOffset } = object
    // A slice would be sent with all of its underlying memory.
    const bytes = new Uint8Array(object.bytes)
    const message: DefinitionMessage = {
      kind: 'definition',
      object: { name, encoding, schemaVersion, typeName, revisionOffset, bytes },
      etcdPrefix: this.options.etcdPrefix,
    }
    return (await this.#run(message)) as SharedReading
  }

  /** @throws ServiceUnavailableError if building the document takes too much time or memory. */
  async makeOpenApi(resources: readonly ServedResource[], form: OpenApiForm): Promise<Document> {
    const { writable } = this.options
    // The queue stays short, because callers share a document in progress, and each document has at most two forms.
    const making = this.#lastDocument.then(async () => {
      const message: OpenApiMessage = { kind: 'openapi', resources: resources.map(toShared), form, writable }
      return (await this.#run(message)) as Document
    })
    this.#lastDocument = making.catch(() => {})
    try {
      const { body, etag } = await making
      return { body: bufferOf(body), etag }
    } catch (error) {
      throw error instanceof ThreadEndedError ? endedError(error.reason, error) : error
    }
  }

  #run(message: DocumentMessage): Promise<unknown> {
    return this.options.threads.run({ message: () => message, calls: {} })
  }
}

function endedError(reason: ThreadEnd, cause: Error): Error {
  if (reason === 'crash') return new InternalError('an internal error occurred', { cause })
  const why =
    reason === 'closed'
      ? 'the server is shutting down'
      : `the OpenAPI document takes too much ${reason === 'memory' ? 'memory' : 'time'}`
  return new ServiceUnavailableError(why)
}
