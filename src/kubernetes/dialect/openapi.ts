/**
 * OpenAPI documents, to the extent that clients such as kubectl need them: the v3 index, one v3 document per group
 * version (`kubectl explain`), and a v2 document of everything (Argo CD).
 *
 * A document is built on first request, because the core group alone has hundreds of schemas. It is built in a
 * thread, because definitions can have schemas of any size. The hash in the index is computed from the sources of the
 * document, so the index is cheap and a client's cache stays valid until something changes.
 */
import { createHash } from 'node:crypto'

import { exactText } from '../codec/exact-json.js'
import type { Schema } from '../codec/protobuf/schema.js'
import { apiVersion } from '../model/api-resource.js'
import { documentOf, type Document, groupsOf, KUBERNETES_RELEASE } from './discovery.js'
import { openApiV2, type V3Part } from './openapi-v2.js'
import { openApiProtobuf } from './openapi-protobuf.js'
import { type JsonSchema, SchemaCollector } from './openapi-schema.js'
import { type ResourceRegistry, type ServedResource, valueOf } from './resource-registry.js'

export interface OpenApiOptions {
  /**
   * Whether writes are enabled. kubectl looks here for `dryRun` and `fieldValidation` before it relies on them.
   * Default false.
   */
  readonly writable?: boolean
  /** Included in every hash, because another version of this project may build different documents. */
  readonly productVersion?: string
  /** Builds a document like `makeOpenApi`. */
  readonly make: (resources: readonly ServedResource[], form: OpenApiForm) => Promise<Document>
}

export interface OpenApiForm {
  /** `v2`: everything; `v3`: one group version. */
  readonly version: 'v2' | 'v3'
  readonly encoding: 'json' | 'protobuf'
}

const SCALE = { group: 'autoscaling', kind: 'Scale', version: 'v1' }
const INFO = { title: 'Kubernetes', version: KUBERNETES_RELEASE.replace(/\.\d+$/, '') }
/** Every API server gives all definitions this title and version. */
const CUSTOM_INFO = { title: 'Kubernetes CRD Swagger', version: 'v0.1.0' }

export class OpenApi {
  readonly #registry: ResourceRegistry
  readonly #options: OpenApiOptions
  #documents = new Map<string, Promise<Document>>()
  #index: Document | null = null
  #generation = -1

  constructor(registry: ResourceRegistry, options: OpenApiOptions) {
    this.#registry = registry
    this.#options = options
  }

  /** The document of `/openapi/v2`, in the negotiated form. */
  async v2(encoding: OpenApiForm['encoding']): Promise<Document> {
    return await this.#cached('v2', this.#registry.list(), { version: 'v2', encoding })
  }

  /** The document of `/openapi/v3`. */
  index(): Document {
    this.#forgetOld()
    if (this.#index !== null) return this.#index
    const paths: Record<string, { serverRelativeURL: string }> = {}
    for (const { name, versions } of groupsOf(this.#registry.list())) {
      for (const version of versions) {
        const path = name === '' ? `api/${version.name}` : `apis/${name}/${version.name}`
        paths[path] = { serverRelativeURL: `/openapi/v3/${path}?hash=${this.#hash(version.resources)}` }
      }
    }
    return (this.#index = document({ paths }))
  }

  /** The document of `/openapi/v3/apis/{group}/{version}`, in the negotiated form; null if nothing of it is served. */
  async groupVersion(
    group: string,
    version: string,
    encoding: OpenApiForm['encoding'] = 'json',
  ): Promise<Document | null> {
    const found = this.#find(group, version)
    if (found === undefined) return null
    return await this.#cached(apiVersion({ group, version }), found.resources, { version: 'v3', encoding })
  }

  /** The hash in the index, which changes whenever the document may have changed; null if nothing of it is served. */
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
    const { productVersion = '', writable = false } = this.#options
    const content = JSON.stringify([productVersion, resources.map(valueOf), writable])
    return createHash('sha256').update(content).digest('hex').toUpperCase()
  }

  /** Caches a document. If building it failed, the next request tries again. */
  #cached(name: string, resources: readonly ServedResource[], form: OpenApiForm): Promise<Document> {
    this.#forgetOld()
    const documents = this.#documents
    const key = `${name} ${form.encoding}`
    let making = documents.get(key)
    if (making === undefined) {
      documents.set(key, (making = this.#options.make(resources, form)))
      making.catch(() => documents.delete(key))
    }
    return making
  }

  #forgetOld(): void {
    if (this.#generation === this.#registry.generation) return
    this.#documents = new Map()
    this.#index = null
    this.#generation = this.#registry.generation
  }
}

/** @param resources for v3, only the resources of one group version. */
export function makeOpenApi(
  resources: readonly ServedResource[],
  { version, encoding }: OpenApiForm,
  schema: Schema,
  writable: boolean,
): Document {
  if (version === 'v3') {
    const { paths, schemas } = partOf(resources, schema, writable)
    const isCustom = resources.length > 0 && resources.every(({ origin }) => origin === 'custom')
    const content = { openapi: '3.0.0', info: isCustom ? CUSTOM_INFO : INFO, paths, components: { schemas } }
    return encoding === 'protobuf' ? documentOf(openApiProtobuf('v3', content)) : document(content)
  }
  const versions = groupsOf(resources).flatMap((group) => group.versions)
  const whole = openApiV2(
    INFO,
    versions.map((one) => partOf(one.resources, schema, writable)),
  )
  return encoding === 'protobuf' ? documentOf(openApiProtobuf('v2', whole)) : document(whole)
}

function partOf(resources: readonly ServedResource[], schema: Schema, writable: boolean): V3Part {
  const collector = new SchemaCollector(schema)
  const paths: Record<string, JsonSchema> = {}
  for (const served of resources) {
    const scaleName = served.subresources.scale === null ? null : collector.addScale()
    Object.assign(paths, pathsOf(served, collector.add(served), scaleName, writable))
  }
  return { paths, schemas: collector.schemas }
}

/** Keeps the digits of a default that has more of them than a JavaScript number. */
function document(content: object): Document {
  return documentOf(Buffer.from(exactText(content)))
}

/** Describes a resource's paths, by which kubectl finds its kind. */
function pathsOf(
  { resource, subresources, origin }: ServedResource,
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
  const own = { group, kind, version }
  const operation = (action: string, schema: string, returned = own): JsonSchema => ({
    get: {
      'x-kubernetes-action': action,
      'x-kubernetes-group-version-kind': returned,
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
  const patch = writable ? patchOperation(own, schemaName, origin === 'well-known') : {}
  return {
    ...(namespaced ? { [`${root}/${plural}`]: operation('list', listName) } : {}),
    [collection]: { ...operation('list', listName), parameters: inNamespace },
    [`${collection}/{name}`]: {
      ...operation('get', schemaName),
      ...patch,
      parameters: [...inNamespace, parameter('name')],
    },
    ...Object.fromEntries(
      [...(subresources.status ? ['status'] : []), ...subresources.readOnly].map((name) => [
        `${collection}/{name}/${name}`,
        { ...operation('get', schemaName), parameters: [...inNamespace, parameter('name')] },
      ]),
    ),
    ...(scaleName === null
      ? {}
      : {
          [`${collection}/{name}/scale`]: {
            ...operation('get', scaleName, origin === 'custom' ? own : SCALE),
            parameters: [...inNamespace, parameter('name')],
          },
        }),
  }
}

/**
 * kubectl reads this one operation, its parameters and its bodies before it writes a kind. Only built-in kinds accept
 * strategic merge patches.
 */
function patchOperation(kind: JsonSchema, schema: string, isBuiltIn: boolean): JsonSchema {
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
          ...(isBuiltIn ? { 'application/strategic-merge-patch+json': patch } : {}),
        },
      },
      responses: { 200: { description: 'OK', content: { 'application/json': patch } } },
    },
  }
}
