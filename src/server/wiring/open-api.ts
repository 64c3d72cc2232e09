/**
 * Opens the API: the handler of its requests, with everything that the handlers of gets, lists, watches and writes
 * share.
 */
import { flagsResource } from '../config/relations.js'
import { ofrepHandler } from '../ofrep/ofrep-handler.js'
import { isOfReviews, reviewKinds } from '../auth/authz/reviews.js'
import { newHistory } from '../../engine/cache/state.js'
import { resourceId } from '../../kubernetes/model/api-resource.js'
import { kubernetesSchema } from '../../kubernetes/codec/protobuf/schema.js'
import { Discovery } from '../../kubernetes/dialect/discovery.js'
import { formatStripRules } from '../../kubernetes/dialect/stripped-fields.js'
import { OpenApi } from '../../kubernetes/dialect/openapi.js'
import type { DocumentThreads } from '../served/document-threads.js'
import type { KnownResources } from '../served/known-resources.js'
import type { ApiContext } from '../transports/api/api-context.js'
import { DescribedDocuments } from '../transports/api/described-documents.js'
import { type ApiHandler, apiHandler } from '../transports/api/api-handler.js'
import { ResourceForms } from '../transports/api/resource-forms.js'
import type { OffLoopWriter } from '../../kubernetes/writes/off-loop-writer.js'
import type { RequestGate } from '../transports/gate/request-gate.js'
import type { ApiServices } from '../transports/passthrough/api-services.js'
import type { Passthrough } from '../transports/passthrough/passthrough.js'
import type { ServerDeps } from './server-deps.js'
import type { Limits } from './open-limits.js'
import type { ResourceStage } from './open-resources.js'

export interface ApiParts {
  readonly version: string
  /** null if writes are disabled. */
  readonly writer: OffLoopWriter | null
  readonly stage: ResourceStage
  readonly known: KnownResources
  readonly documents: DocumentThreads
  readonly limits: Limits
  readonly gate: RequestGate
  readonly passthrough: Passthrough | null
  readonly apiServices: ApiServices | null
  readonly isDraining: () => boolean
}

export function openApi(deps: ServerDeps, parts: ApiParts): ApiHandler {
  const { config, clock, random, metrics, onInternalError } = deps
  const { version, stage, known, documents, limits, ...shared } = parts
  const { registry, resources, views, schema } = stage
  const product = { productVersion: version, writable: config.enableWrites }
  const remote = parts.apiServices === null ? {} : { remote: parts.apiServices }
  const caching = new Map(config.publicCaching.map(({ resource, ...seconds }) => [resource, seconds]))
  const context: ApiContext = {
    ...shared,
    ...limits,
    find: (group, version, plural) => resources.find(group, version, plural),
    hasGroup: (group, version) => isOfReviews(group, version) || registry.hasGroup(group, version),
    whyUnknown: (group) => (group === null ? known.problem : known.problemOf(group)),
    forms: new ResourceForms(views, clock),
    // Other processes may know more kinds through their own --proto-descriptors.
    release: schema === kubernetesSchema() ? version : `${version} ${newHistory()}`,
    strips: () => formatStripRules(registry.strips),
    publicCachingOf: (resource) => caching.get(resourceId(resource)) ?? null,
    clock,
    random,
    minRequestTimeoutMs: config.minRequestTimeout,
    requestTimeoutMs: config.requestTimeout,
    compressesWatches: config.compress,
    isAnyFieldSelectable: config.selectAnyField,
    schema,
    discovery: new Discovery(registry, { ...product, reviews: reviewKinds(product.writable), ...remote }),
    openApi: new OpenApi(registry, { ...product, make: (...document) => documents.makeOpenApi(...document) }),
    described: stage.server === null ? null : new DescribedDocuments(stage.server, clock),
    metrics: metrics.requests,
    onInternalError,
  }
  const api = apiHandler(context)
  const flags = config.ofrep === null ? undefined : flagsResource(config.ofrep, config.resources)
  return flags === undefined ? api : ofrepHandler(context, flags, api)
}
