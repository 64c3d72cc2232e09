/**
 * Facts about Kubernetes' own messages that only its OpenAPI documents contain: required members, enums, and how lists
 * and maps are merged. They are read from `kubernetes-openapi.json`, which `npm run generate:openapi` makes.
 */
import { readPackageFile } from '../../support/package-file.js'
import type { Field, Message, Schema } from './protobuf/schema.js'

/** Keywords of OpenAPI. */
export type SchemaFacts = Readonly<Record<string, unknown>>

export interface MessageFacts extends SchemaFacts {
  /** Facts by member name; null for a member that this release of Kubernetes no longer has. */
  readonly properties?: Readonly<Record<string, SchemaFacts | null>>
}

/** Messages with the same facts share an entry, whose key names all of them. */
const FACTS_FILE = 'src/kubernetes/codec/kubernetes-openapi.json'
const NONE: MessageFacts = {}
/** How lists are merged whose facts do not tell. */
const ATOMIC: SchemaFacts = { 'x-kubernetes-list-type': 'atomic' }

let table: ReadonlyMap<string, MessageFacts> | null = null
/** The packages of the documents, as OpenAPI names them. */
const packages = new Set<string>()

function readTable(): ReadonlyMap<string, MessageFacts> {
  const facts = new Map<string, MessageFacts>()
  const file = JSON.parse(readPackageFile(FACTS_FILE).toString('utf8')) as Record<string, MessageFacts>
  for (const [names, value] of Object.entries(file)) {
    for (const name of names.split(' ')) {
      packages.add(packageOf(name))
      facts.set(name, value)
    }
  }
  return facts
}

function packageOf(name: string): string {
  return name.slice(0, name.lastIndexOf('.'))
}

/** @param fullName the message's full name, such as `k8s.io.api.core.v1.Pod`. */
export function factsOf(fullName: string): MessageFacts {
  table ??= readTable()
  return table.get(schemaNameOf(fullName)) ?? NONE
}

/**
 * The facts of a message, including those that the file leaves out because they nearly always hold: members that the
 * API server always writes are required, and lists are atomic. Nothing is known about a package that the documents do
 * not contain.
 */
export function allFactsOf(message: Message, schema: Schema): MessageFacts {
  const facts = factsOf(message.fullName)
  if (!packages.has(packageOf(schemaNameOf(message.fullName)))) return facts
  const { properties = {} } = facts
  const present = membersOf(message, schema).filter(({ jsonName }) => properties[jsonName] !== null)
  const lists = present.filter(({ label }) => label === 'repeated').map(({ jsonName }) => jsonName)
  return {
    required: present.filter(({ isOmittedWhenEmpty }) => !isOmittedWhenEmpty).map(({ jsonName }) => jsonName),
    ...facts,
    properties: {
      ...properties,
      ...Object.fromEntries(lists.map((list) => [list, { ...ATOMIC, ...properties[list] }])),
    },
  }
}

/** The fields of a message, with those of inlined messages in their place. */
export function membersOf({ fields }: Message, schema: Schema): readonly Field[] {
  return fields.flatMap((field) => {
    if (field.jsonName !== '') return field
    const inlined = schema.message(field.messageName)
    return inlined === undefined ? [] : membersOf(inlined, schema)
  })
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
