/**
 * Opens the API: the handler of its requests, with everything that the handlers of gets, lists, watches and writes
 * share.
 */
import { isOfReviews, reviewKinds } from '../auth/authz/reviews.js'
import { newHistory } from '../../engine/cache/reads.js'
import { resourceId } from '../../engine/model/resource.js'
import { SERVES_NO_CLIENTS } from '../../fleet/stream/stream-feeds.js'
import { kubernetesSchema } from '../../kubernetes/codec/protobuf/schema.js'
import { Discovery } from '../../kubernetes/dialect/discovery.js'
import { OpenApi } from '../../kubernetes/dialect/openapi.js'
import type { DocumentThreads } from '../served/document-threads.js'
import type { KnownResources } from '../served/known-resources.js'
import type { ApiContext } from '../transports/api/api-context.js'
import { type ApiHandler, apiHandler } from '../transports/api/api-handler.js'
import { ResourceForms } from '../transports/api/resource-forms.js'
import type { OffLoopWriter } from '../../kubernetes/writes/off-loop-writer.js'
import type { RequestGate } from '../transports/limits/request-gate.js'
import type { ApiServices } from '../transports/passthrough/api-services.js'
import type { Passthrough } from '../transports/passthrough/passthrough.js'
import type { Basis } from './basis.js'
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

export function openApi(basis: Basis, parts: ApiParts): ApiHandler {
  const { config, clock, random, metrics, onInternalError } = basis
  const { version, stage, known, limits, documents, apiServices, gate, passthrough, writer, isDraining } = parts
  const { registry, resources, views, schema } = stage
  const writable = config.enableWrites
  const remote = apiServices === null ? {} : { remote: apiServices }
  const caching = new Map(config.publicCaching.map(({ resource, ...seconds }) => [resource, seconds]))
  const context: ApiContext = {
    find: (group, version, plural) => resources.find(group, version, plural),
    hasGroup: (group, version) => isOfReviews(group, version) || registry.hasGroup(group, version),
    whyUnknown: (group) => (group === null ? known.problem : known.problemOf(group)),
    // An origin follows the definitions for its own use, so without this it would also serve them to clients. Its feeds
    // refuse most other resources themselves.
    whyUnread: config.natsRole === 'origin' ? SERVES_NO_CLIENTS : null,
    forms: new ResourceForms(views, clock),
    // Other processes may know more kinds through their own --proto-descriptors.
    release: schema === kubernetesSchema() ? version : `${version} ${newHistory()}`,
    publicCachingOf: (resource) => caching.get(resourceId(resource)) ?? null,
    bodies: limits.bodies,
    pastStates: limits.pastStates,
    loadingReads: limits.loadingReads,
    initialStates: limits.initialStates,
    watchers: limits.watchers,
    memory: limits.memory,
    clock,
    random,
    minRequestTimeoutMs: config.minRequestTimeout,
    requestTimeoutMs: config.requestTimeout,
    compressesWatches: config.compress,
    isAnyFieldSelectable: config.selectAnyField,
    isDraining,
    gate,
    passthrough,
    apiServices,
    schema,
    discovery: new Discovery(registry, {
      productVersion: version,
      writable,
      reviews: reviewKinds(writable),
      ...remote,
    }),
    openApi: new OpenApi(registry, {
      productVersion: version,
      writable,
      make: (resources, form) => documents.makeOpenApi(resources, form),
    }),
    writer,
    writes: limits.writes,
    metrics: metrics.requests,
    onInternalError,
  }
  return apiHandler(context)
}
