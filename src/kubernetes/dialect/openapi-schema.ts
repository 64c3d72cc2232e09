/**
 * OpenAPI v3 schemas of the served resources. Those of built-in kinds come from a table of messages and fields (the
 * protobuf codec's) plus facts from the API server's documents. Those of custom kinds come from their definitions,
 * and those of declared prefixes from the shape of a KeyValue. There are no field descriptions, so `kubectl explain`
 * shows fields, types and values; the API reference has the prose.
 */
import type { ServedResource } from './resource-registry.js'
import { apiVersion } from '../model/api-resource.js'
import { isObject } from '../../support/fields.js'
import {
  allFactsOf,
  factsOf,
  membersOf,
  messageNameOf,
  schemaNameOf,
  type SchemaFacts,
} from '../codec/openapi-facts.js'
import { type Field, type Message, META_PACKAGE, OBJECT_META, type Schema } from '../codec/protobuf/schema.js'

export type JsonSchema = Readonly<Record<string, unknown>>

const LIST_META = `${META_PACKAGE}.ListMeta`
const SCHEMAS = '#/components/schemas/'
const QUANTITY = 'io.k8s.apimachinery.pkg.api.resource.Quantity'
const INT_OR_STRING = 'io.k8s.apimachinery.pkg.util.intstr.IntOrString'

const API_VERSION = { type: 'string', description: 'Group and version of this representation of the object.' }
const KIND = { type: 'string', description: 'Kind of the object.' }

/** The kind of the scale subresource. */
const SCALE_NAME = 'io.k8s.api.autoscaling.v1.Scale'

/** Collects the schemas of one group version. Each message is added once, together with all messages it refers to. */
export class SchemaCollector {
  readonly schemas: Record<string, JsonSchema> = {}
  readonly #table: Schema

  /** @param table the fields of the built-in kinds. */
  constructor(table: Schema) {
    this.#table = table
  }

  /** Adds the resource's kind and its list kind. @returns the name of the kind's schema. */
  add(served: ServedResource): string {
    const { group, version, kind, listKind } = served.resource
    const fields = served.selectableFields.map((path) => ({ fieldPath: path.replace(/^\./, '') }))
    const selectable = fields.length === 0 ? {} : { 'x-kubernetes-selectable-fields': fields }
    const message =
      served.origin === 'well-known' ? this.#table.messageOfKind(apiVersion(served.resource), kind) : undefined
    const name = message === undefined ? `${reversed(group)}.${version}.${kind}` : schemaNameOf(message.fullName)
    const schema = message === undefined ? this.#unlisted(served) : this.#message(message)
    this.schemas[name] = {
      description: `${kind}, as etcd stores it.`,
      ...schema,
      properties: { apiVersion: API_VERSION, kind: KIND, ...propertiesOf(schema) },
      'x-kubernetes-group-version-kind': [{ group, kind, version }],
      ...selectable,
    }
    this.schemas[name.slice(0, -kind.length) + listKind] = {
      description: `A list of ${kind}.`,
      type: 'object',
      required: ['items'],
      properties: {
        apiVersion: API_VERSION,
        kind: KIND,
        metadata: this.#messageNamed(LIST_META),
        items: { type: 'array', items: reference(name) },
      },
      'x-kubernetes-group-version-kind': [{ group, kind: listKind, version }],
      ...selectable,
    }
    return name
  }

  /** Adds the schema of the Scale kind. @returns its name. */
  addScale(): string {
    const schema = this.#message(this.#table.messageOfKind('autoscaling/v1', 'Scale')!)
    this.schemas[SCALE_NAME] = {
      description: 'Desired and actual number of replicas.',
      ...schema,
      properties: { apiVersion: API_VERSION, kind: KIND, ...propertiesOf(schema) },
      'x-kubernetes-group-version-kind': [{ group: 'autoscaling', kind: 'Scale', version: 'v1' }],
    }
    return SCALE_NAME
  }

  /** Returns the schema of a custom resource, a declared prefix, or a kind missing from the table. */
  #unlisted({ resource, schema }: ServedResource): JsonSchema {
    const metadata = this.#messageNamed(OBJECT_META)
    if (schema !== undefined) {
      const published = this.#published(schema.parsed)
      return { ...published, properties: { ...propertiesOf(published), metadata } }
    }
    const properties = resource.holds === 'values' ? { metadata, ...KEY_VALUE } : { metadata }
    return { type: 'object', 'x-kubernetes-preserve-unknown-fields': true, properties }
  }

  /** Returns a definition's schema, with standard keywords that express what its extensions imply. */
  #published(schema: JsonSchema): JsonSchema {
    // As in Go, a null member counts as absent.
    const published = Object.fromEntries(Object.entries(schema).filter(([, value]) => value !== null))
    const { items, additionalProperties } = schema
    if (isObject(schema['properties'])) {
      const properties = Object.entries(schema['properties'])
      published['properties'] = Object.fromEntries(
        properties.map(([name, one]) => [name, isObject(one) ? this.#published(one) : {}]),
      )
    }
    if (isObject(items)) published['items'] = this.#published(items)
    if (isObject(additionalProperties)) published['additionalProperties'] = this.#published(additionalProperties)
    if (schema['x-kubernetes-int-or-string'] === true && !isIntOrString(schema)) addIntOrString(published)
    if (schema['x-kubernetes-embedded-resource'] === true) {
      const metadata = this.#messageNamed(OBJECT_META)
      const required = Array.isArray(schema['required']) ? (schema['required'] as unknown[]) : []
      published['properties'] = { ...propertiesOf(published), apiVersion: API_VERSION, kind: KIND, metadata }
      published['required'] = [...required, ...['kind', 'apiVersion'].filter((name) => !required.includes(name))]
    }
    return published
  }

  #reference(message: Message): JsonSchema {
    const name = schemaNameOf(message.fullName)
    if (!Object.hasOwn(this.schemas, name)) {
      // Reserve the name first, so that the recursion ends here for a message that contains itself.
      this.schemas[name] = {}
      this.schemas[name] = this.#message(message)
    }
    return reference(name)
  }

  #message(message: Message): JsonSchema {
    const [only] = message.fields
    if (message.form === 'either') return { 'x-kubernetes-preserve-unknown-fields': true }
    if (message.form === 'items' && only !== undefined) return this.#field(only)
    const { properties: facts = {}, required, ...itself } = allFactsOf(message, this.#table)
    const members = membersOf(message, this.#table).filter(({ jsonName }) => facts[jsonName] !== null)
    const properties = {
      ...(message.isKind ? { apiVersion: API_VERSION, kind: KIND } : {}),
      ...Object.fromEntries(
        members.map((one) => [one.jsonName, this.#withFacts(this.#field(one), facts[one.jsonName] ?? {})]),
      ),
    }
    return {
      type: 'object',
      ...itself,
      ...(Array.isArray(required) && required.length > 0 ? { required: required as string[] } : {}),
      ...(Object.keys(properties).length === 0 ? {} : { properties }),
    }
  }

  #withFacts(schema: JsonSchema, facts: SchemaFacts): JsonSchema {
    const { $ref } = facts
    if (typeof $ref === 'string') {
      const name = $ref.slice(SCHEMAS.length)
      this.schemas[name] ??= factsOf(messageNameOf(name))
      return { $ref }
    }
    // OpenAPI ignores other keywords next to `$ref`.
    const isPlainReference = '$ref' in schema && Object.keys(facts).length > 0
    const merged: Record<string, unknown> = { ...(isPlainReference ? { allOf: [schema] } : schema), ...facts }
    for (const name of ['items', 'additionalProperties']) {
      if (isObject(facts[name])) merged[name] = this.#withFacts(isObject(schema[name]) ? schema[name] : {}, facts[name])
    }
    return merged
  }

  #field({ label, type, messageName }: Field): JsonSchema {
    const value = type === 'message' ? this.#messageNamed(messageName) : this.#scalar(type)
    if (label === 'repeated') return { type: 'array', items: value }
    return label === 'map' ? { type: 'object', additionalProperties: value } : value
  }

  #messageNamed(fullName: string): JsonSchema {
    const message = this.#table.message(fullName)
    if (message === undefined) return { type: 'object' }
    return message.form === 'object' ? this.#reference(message) : this.#message(message)
  }

  #scalar(type: string): JsonSchema {
    switch (type) {
      case 'bool':
        return { type: 'boolean' }
      case 'bytes':
        return { type: 'string', format: 'byte' }
      case 'time':
      case 'microtime':
        return { type: 'string', format: 'date-time' }
      case 'float':
      case 'double':
        return { type: 'number', format: type }
      case 'quantity':
        this.schemas[QUANTITY] ??= { oneOf: [{ type: 'string' }, { type: 'number' }] }
        return reference(QUANTITY)
      case 'intorstring':
        this.schemas[INT_OR_STRING] ??= { format: 'int-or-string', oneOf: [{ type: 'integer' }, { type: 'string' }] }
        return reference(INT_OR_STRING)
      case 'json':
        return { type: 'object', 'x-kubernetes-preserve-unknown-fields': true }
      case 'string':
      case 'enum':
      case 'duration':
        return { type: 'string' }
      default:
        return { type: 'integer', format: type.endsWith('64') ? 'int64' : 'int32' }
    }
  }
}

/** The members that `key-value-object.ts` writes. */
const KEY_VALUE: Record<string, JsonSchema> = {
  key: { type: 'string', description: 'The whole key in etcd.' },
  keyBytes: { type: 'string', format: 'byte', description: 'The whole key in base64, if it is not UTF-8.' },
  value: { 'x-kubernetes-preserve-unknown-fields': true, description: 'The value, if it is JSON (of any type).' },
  text: { type: 'string', description: 'The value, if it is text but not JSON.' },
  bytes: { type: 'string', format: 'byte', description: 'The value in base64, if it is not text.' },
  createRevision: { type: 'integer', format: 'int64', description: 'Revision at which the key was created.' },
  version: { type: 'integer', format: 'int64', description: 'Number of writes since the key was created.' },
  lease: { type: 'string', description: 'Lease that the key is attached to.' },
}

function propertiesOf(schema: JsonSchema): Record<string, JsonSchema> {
  const { properties } = schema
  return typeof properties === 'object' && properties !== null ? (properties as Record<string, JsonSchema>) : {}
}

const INT_OR_TEXT: readonly JsonSchema[] = [{ type: 'integer' }, { type: 'string' }]

/** Whether the schema itself says int-or-string, directly or in the first of `allOf`, as definitions may. */
function isIntOrString({ anyOf, allOf }: JsonSchema): boolean {
  const first: unknown = Array.isArray(allOf) ? allOf[0] : undefined
  const isUnion = (list: unknown): boolean => JSON.stringify(list) === JSON.stringify(INT_OR_TEXT)
  return isUnion(anyOf) || (isObject(first) && isUnion(first['anyOf']))
}

function addIntOrString(schema: Record<string, unknown>): void {
  const { anyOf, allOf } = schema
  if (anyOf === undefined) schema['anyOf'] = INT_OR_TEXT
  else schema['allOf'] = [{ anyOf: INT_OR_TEXT }, ...(Array.isArray(allOf) ? (allOf as unknown[]) : [])]
}

function reference(name: string): JsonSchema {
  return { $ref: SCHEMAS + name }
}

/** Turns `edge.example.com` into `com.example.edge`; the core group has a special name. */
function reversed(group: string): string {
  return group === '' ? 'io.k8s.api.core' : group.split('.').toReversed().join('.')
}
