/**
 * Follows the cached objects that determine what is served: definitions of custom resources, and group versions of
 * other servers.
 */
import { isOfReviews } from '../auth/authz/reviews.js'
import { Definitions } from '../served/definitions.js'
import type { DocumentThreads } from '../served/document-threads.js'
import { whenEmptied } from '../served/emptied.js'
import { followResource } from '../served/followed-objects.js'
import { KnownResources } from '../served/known-resources.js'
import { followApiServices } from '../served/named-services.js'
import type { ApiServices } from '../transports/passthrough/api-services.js'
import type { ServerDeps } from './server-deps.js'
import type { ResourceStage } from './open-resources.js'

/**
 * @returns the tracker that knows whether all resources are known yet.
 * @param services null if another server handles the aggregated APIs.
 */
export function followServed(
  { config, clock, logger }: ServerDeps,
  { registry, resources, views, remote, kubernetes }: ResourceStage,
  services: ApiServices | null,
  documents: DocumentThreads,
): KnownResources {
  const { etcdPrefix } = config
  let definitions: Definitions | null = null
  const reservedFor = (group: string, version: string): string | null => {
    if (isOfReviews(group, version)) return 'access reviews'
    return services?.find(group, version) === undefined ? null : 'the server that --apiservice names'
  }
  followResource(
    registry,
    () => resources.findLive('apiextensions.k8s.io', 'v1', 'customresourcedefinitions'),
    ({ served, cache }) =>
      (definitions = new Definitions({
        registry,
        whenEmptied: (gone) => {
          // The versions of a definition may share a cache.
          const caches = new Set(gone.flatMap(({ resource }) => [...resources.cachesOf(resource)]))
          return whenEmptied(caches, cache.revision)
        },
        etcdPrefix,
        reservedFor,
        areReadThere: remote !== null,
        clock,
        logger,
        jsonOf: (object) => views.json(served, object),
        readInThread: (object) => documents.readDefinition(object),
      })),
  )
  if (services !== null) {
    followResource(
      registry,
      () => resources.findLive('apiregistration.k8s.io', 'v1', 'apiservices'),
      ({ served }) => followApiServices(services, (object) => views.json(served, object)),
    )
  }
  return new KnownResources({
    registry,
    hasReadDefinitions: () => definitions?.isSettled ?? true,
    cacheOf: (group, version, plural) => resources.findLive(group, version, plural)?.cache,
    upstreamProblem: () => remote?.problem ?? kubernetes?.problem ?? null,
    followsApiServices: services !== null,
    logger,
  })
}
