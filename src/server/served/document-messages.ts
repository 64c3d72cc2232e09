/** Messages between a process and the thread that reads its definitions and makes its OpenAPI documents. */
import type { OpenApiForm } from '../../kubernetes/dialect/openapi.js'
import type { SharedResource } from '../../kubernetes/dialect/shared-resource.js'
import type { StoredObject } from '../../engine/model/stored-object.js'

/** The stored CustomResourceDefinition. The answer is a `SharedReading`. */
export interface DefinitionMessage {
  readonly kind: 'definition'
  readonly object: Readonly<Pick<StoredObject, 'name' | 'encoding' | 'apiVersion' | 'kind' | 'metadataOffset'>> & {
    readonly bytes: Uint8Array
  }
  readonly etcdPrefix: string
}

export type SharedReading =
  | {
      readonly kind: 'defined'
      readonly resources: readonly SharedResource[]
      /** By version: the structural form of its schema. */
      readonly structurals: Readonly<Record<string, readonly string[]>>
    }
  | { readonly kind: 'not-served'; readonly reason: string }

/** The answer is a `Document`. */
export interface OpenApiMessage {
  readonly kind: 'openapi'
  /** Those that the document is about. */
  readonly resources: readonly SharedResource[]
  readonly form: OpenApiForm
  readonly writable: boolean
}

export type DocumentMessage = DefinitionMessage | OpenApiMessage
