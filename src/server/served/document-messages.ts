/** Messages between a process and the thread that reads its definitions and builds its OpenAPI documents. */
import type { OpenApiForm } from '../../kubernetes/dialect/openapi.js'
import type { SharedResource } from '../../kubernetes/dialect/shared-resource.js'
import type { StoredObject } from '../../engine/model/stored-object.js'

/** Contains a stored CustomResourceDefinition to read. The response is a `SharedReading`. */
export interface DefinitionMessage {
  readonly kind: 'definition'
  readonly object: Readonly<
    Pick<StoredObject, 'name' | 'encoding' | 'schemaVersion' | 'typeName' | 'revisionOffset'>
  > & {
    readonly bytes: Uint8Array
  }
  readonly etcdPrefix: string
}

export type SharedReading =
  | {
      readonly kind: 'defined'
      readonly resources: readonly SharedResource[]
      /** The structural form of the schema, by version. */
      readonly structurals: Readonly<Record<string, readonly string[]>>
    }
  | { readonly kind: 'not-served'; readonly reason: string; readonly isPending?: boolean }

/** Asks for an OpenAPI document. The response is a `Document`. */
export interface OpenApiMessage {
  readonly kind: 'openapi'
  /** The resources in the document. */
  readonly resources: readonly SharedResource[]
  readonly form: OpenApiForm
  readonly writable: boolean
}

export type DocumentMessage = DefinitionMessage | OpenApiMessage
