/**
 * OpenAPI documents, as far as clients such as kubectl need them: the v3 index, one v3 document per group version
 * (`kubectl explain`), and a v2 document of everything (Argo CD).
 *
 * A document is made when it is first asked for, since the core group alone has hundreds of schemas. The hash in the
 * index is computed from the sources of the document, so that the index is cheap and a client's cache stays valid until
 * something changes.
 */
import { createHash } from 'node:crypto'

import { exactText } from '../codec/exact-json.js'
import { apiVersion } from '../model/resource.js'
import { documentOf, type Document, groupsOf } from './discovery.js'
import { openApiV2, type V2Document, type V3Part } from './openapi-v2.js'
import { v2Protobuf } from './openapi-v2-protobuf.js'
import { v3Protobuf } from './openapi-v3-protobuf.js'
import { type JsonSchema, SchemaCollector, type SchemaSource } from './openapi-schema.js'
import type { ResourceRegistry, ServedResource } from './resource-registry.js'

export interface OpenApiOptions {
  /** The fields of the built-in kinds. Without them, `explain` shows only a kind's metadata. */
  readonly schemas?: SchemaSource
  /**
   * Whether writes are served: kubectl looks here for `dryRun` and `fieldValidation` before it relies on them. Default
   * false.
   */
  readonly writable?: boolean
  /** A part of every hash, because another version of this project may make other documents. */
  readonly productVersion?: string
}

const INFO = { title: 'distributary', version: 'v1.32.0' }

export class OpenApi {
  readonly #registry: ResourceRegistry
  readonly #options: OpenApiOptions
  #documents = new Map<string, Document>()
  #generation = -1

  constructor(registry: ResourceRegistry, options: OpenApiOptions = {}) {
    this.#registry = registry
    this.#options = options
  }

  /** The document of `/openapi/v2`, in the negotiated form. */
  v2(encoding: 'json' | 'protobuf'): Document {
    if (encoding === 'protobuf') return this.#cached('v2 protobuf', () => documentOf(v2Protobuf(this.#v2())))
    return this.#cached('v2', () => document(this.#v2()))
  }

  /** The document of `/openapi/v3`. */
  index(): Document {
    return this.#cached('index', () => {
      const paths: Record<string, { serverRelativeURL: string }> = {}
      for (const { name, versions } of groupsOf(this.#registry.list())) {
        for (const version of versions) {
          const path = name === '' ? `api/${version.name}` : `apis/${name}/${version.name}`
          paths[path] = { serverRelativeURL: `/openapi/v3/${path}?hash=${this.#hash(version.resources)}` }
        }
      }
      return document({ paths })
    })
  }

  /** The document of `/openapi/v3/apis/{group}/{version}`, in the negotiated form; null when nothing of it is served. */
  groupVersion(group: string, version: string, encoding: 'json' | 'protobuf' = 'json'): Document | null {
    const found = this.#find(group, version)
    if (found === undefined) return null
    return this.#cached(`${apiVersion({ group, version })} ${encoding}`, () => {
      const { paths, schemas } = this.#partOf(found.resources)
      const content = { openapi: '3.0.0', info: INFO, paths, components: { schemas } }
      return encoding === 'protobuf' ? documentOf(v3Protobuf(content)) : document(content)
    })
  }

  #v2(): V2Document {
    const versions = groupsOf(this.#registry.list()).flatMap((group) => group.versions)
    return openApiV2(
      INFO,
      versions.map(({ resources }) => this.#partOf(resources)),
    )
  }

  #partOf(resources: readonly ServedResource[]): V3Part {
    const collector = new SchemaCollector(this.#options.schemas)
    const paths: Record<string, JsonSchema> = {}
    for (const served of resources) {
      const scaleName = served.subresources.scale === null ? null : collector.addScale()
      Object.assign(paths, pathsOf(served, collector.add(served), scaleName, this.#options.writable ?? false))
    }
    return { paths, schemas: collector.schemas }
  }

  /** The hash in the index, which changes whenever the document may have changed; null when nothing of it is served. */
  hash(group: string, version: string): string | null {
    const found = this.#find(group, version)
    return found === undefined ? null : this.#hash(found.resources)
  }

  #find(group: string, version: string) {
    return groupsOf(this.#registry.list())
      .find(({ name }) => name === group)
      ?.versions.find(({ name }) => name === version)
  }

  #hash(resources: readonly ServedResource[]): string {
    const { productVersion = '', schemas, writable = false } = this.#options
    const content = exactText([productVersion, schemas !== undefined, resources, writable])
    return createHash('sha256').update(content).digest('hex').toUpperCase()
  }

  #cached(path: string, make: () => Document): Document {
    if (this.#generation !== this.#registry.generation) {
      this.#documents = new Map()
      this.#generation = this.#registry.generation
    }
    let cached = this.#documents.get(path)
    if (cached === undefined) this.#documents.set(path, (cached = make()))
    return cached
  }
}

/** A default may have more digits than a number of JavaScript. */
function document(content: object): Document {
  return documentOf(Buffer.from(exactText(content)))
}

/** kubectl finds the kind of a resource by its paths. */
function pathsOf(
  { resource, subresources }: ServedResource,
  schemaName: string,
  scaleName: string | null,
  writable: boolean,
): Record<string, JsonSchema> {
  const { group, version, kind, plural, namespaced } = resource
  const root = group === '' ? `/api/${version}` : `/apis/${group}/${version}`
  const collection = namespaced ? `${root}/namespaces/{namespace}/${plural}` : `${root}/${plural}`
  const parameter = (name: string): JsonSchema => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string', uniqueItems: true },
  })
  const operation = (action: string, schema: string): JsonSchema => ({
    get: {
      'x-kubernetes-action': action,
      'x-kubernetes-group-version-kind': { group, kind, version },
      responses: {
        200: {
          description: 'OK',
          content: { 'application/json': { schema: { $ref: `#/components/schemas/${schema}` } } },
        },
      },
    },
  })
  const listName = schemaName.slice(0, -kind.length) + resource.listKind
  const inNamespace = namespaced ? [parameter('namespace')] : []
  const patch = writable ? patchOperation({ group, kind, version }, schemaName) : {}
  return {
    ...(namespaced ? { [`${root}/${plural}`]: operation('list', listName) } : {}),
    [collection]: { ...operation('list', listName), parameters: inNamespace },
    [`${collection}/{name}`]: {
      ...operation('get', schemaName),
      ...patch,
      parameters: [...inNamespace, parameter('name')],
    },
    ...(subresources.status
      ? {
          [`${collection}/{name}/status`]: {
            ...operation('get', schemaName),
            parameters: [...inNamespace, parameter('name')],
          },
        }
      : {}),
    ...(scaleName === null
      ? {}
      : {
          [`${collection}/{name}/scale`]: {
            ...operation('get', scaleName),
            parameters: [...inNamespace, parameter('name')],
          },
        }),
  }
}

/**
 * kubectl reads this one operation and its parameters before it writes a kind. The bodies do not name strategic merge
 * patches: their merge keys are not in these schemas, and kubectl knows those of the built-in kinds itself.
 */
function patchOperation(kind: JsonSchema, schema: string): JsonSchema {
  const query = (name: string, type: string): JsonSchema => ({ name, in: 'query', schema: { type, uniqueItems: true } })
  const patch = { schema: { $ref: `#/components/schemas/${schema}` } }
  return {
    patch: {
      'x-kubernetes-action': 'patch',
      'x-kubernetes-group-version-kind': kind,
      parameters: [
        query('dryRun', 'string'),
        query('fieldManager', 'string'),
        query('fieldValidation', 'string'),
        query('force', 'boolean'),
      ],
      requestBody: {
        content: {
          'application/apply-patch+yaml': patch,
          'application/json-patch+json': { schema: { type: 'array' } },
          'application/merge-patch+json': patch,
        },
      },
      responses: { 200: { description: 'OK', content: { 'application/json': patch } } },
    },
  }
}
