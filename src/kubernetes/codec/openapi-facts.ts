/**
 * Facts about Kubernetes' own messages that only its OpenAPI documents contain: required members, enums, and how lists
 * and maps are merged. They are read from `kubernetes-openapi.json`, which `npm run generate:openapi` makes.
 */
import { readPackageFile } from '../../support/package-file.js'

/** Keywords of OpenAPI. */
export type SchemaFacts = Readonly<Record<string, unknown>>

export interface MessageFacts extends SchemaFacts {
  /** Facts by member name; null for a member that this release of Kubernetes no longer has. */
  readonly properties?: Readonly<Record<string, SchemaFacts | null>>
}

const FACTS_FILE = 'src/kubernetes/codec/kubernetes-openapi.json'
const NONE: MessageFacts = {}

let table: ReadonlyMap<string, MessageFacts> | null = null

/** @param fullName the message's full name, such as `k8s.io.api.core.v1.Pod`. */
export function factsOf(fullName: string): MessageFacts {
  table ??= new Map(
    Object.entries(JSON.parse(readPackageFile(FACTS_FILE).toString('utf8')) as Record<string, MessageFacts>),
  )
  return table.get(schemaNameOf(fullName)) ?? NONE
}

/** Turns `k8s.io.api.core.v1.Pod` into `io.k8s.api.core.v1.Pod`, the form of OpenAPI. */
export function schemaNameOf(fullName: string): string {
  const written = fullName.replace('apiextensions_apiserver', 'apiextensions-apiserver')
  return written.replace('kube_aggregator', 'kube-aggregator').replace(/^k8s\.io\./, 'io.k8s.')
}

/** The opposite of `schemaNameOf`. */
export function messageNameOf(schemaName: string): string {
  return schemaName.replace(/^io\.k8s\./, 'k8s.io.').replaceAll('-', '_')
}
