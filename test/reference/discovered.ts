/**
 * The resources that the API server serves, from its aggregated discovery, and the schemas of its OpenAPI documents.
 */
import { ask, type Server } from './ask.js'

export interface Subresource {
  readonly name: string
  readonly kind: string
  readonly verbs: readonly string[]
}

/** One resource in one version. */
export interface Served {
  /** '' for the core group. */
  readonly group: string
  readonly version: string
  readonly kind: string
  readonly plural: string
  readonly isNamespaced: boolean
  readonly verbs: readonly string[]
  readonly subresources: readonly Subresource[]
}

export interface Schema {
  readonly $ref?: string
  readonly allOf?: readonly Schema[]
  readonly oneOf?: readonly Schema[]
  readonly type?: string
  readonly format?: string
  readonly enum?: readonly string[]
  readonly items?: Schema
  readonly properties?: Readonly<Record<string, Schema>>
  readonly additionalProperties?: Schema | boolean
  readonly required?: readonly string[]
  readonly 'x-kubernetes-group-version-kind'?: readonly { group: string; version: string; kind: string }[]
}

/** Schemas by the name used in references. */
export type Schemas = Readonly<Record<string, Schema>>

const AGGREGATED = 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList'

interface Document {
  readonly items: readonly {
    readonly metadata?: { readonly name?: string }
    readonly versions: readonly {
      readonly version: string
      readonly resources?: readonly {
        readonly resource: string
        readonly responseKind?: { readonly kind: string }
        readonly scope: string
        readonly verbs: readonly string[]
        readonly subresources?: readonly {
          readonly subresource: string
          readonly responseKind?: { readonly kind: string }
          readonly verbs: readonly string[]
        }[]
      }[]
    }[]
  }[]
}

/** The path of a group version: `/api/v1`, `/apis/apps/v1`. */
export function groupPath(group: string, version: string): string {
  return group === '' ? `/api/${version}` : `/apis/${group}/${version}`
}

/** Returns the resources in the order of discovery, with the preferred version of each group first. */
export async function discover(server: Server): Promise<readonly Served[]> {
  const served: Served[] = []
  for (const path of ['/api', '/apis']) {
    const { body } = await ask(server, { method: 'GET', path, headers: { accept: AGGREGATED } })
    for (const { metadata, versions } of (JSON.parse(body.toString()) as Document).items)
      for (const { version, resources = [] } of versions)
        for (const { resource, responseKind, scope, verbs, subresources = [] } of resources)
          served.push({
            group: metadata?.name ?? '',
            version,
            kind: responseKind?.kind ?? '',
            plural: resource,
            isNamespaced: scope === 'Namespaced',
            verbs,
            subresources: subresources.map((one) => ({
              name: one.subresource,
              kind: one.responseKind?.kind ?? '',
              verbs: one.verbs,
            })),
          })
  }
  return served
}

export async function readSchemas(server: Server, group: string, version: string): Promise<Schemas> {
  const path = `/openapi/v3${groupPath(group, version)}`
  const { body } = await ask(server, { method: 'GET', path, headers: { accept: 'application/json' } })
  return (JSON.parse(body.toString()) as { components: { schemas: Schemas } }).components.schemas
}
