/** Opens the resources of this process as configured, from their sources to their watchers. */
import { statusOf } from '../../kubernetes/model/status-of.js'
import { PacedEndings } from '../../engine/broadcast/paced-endings.js'
import type { Pump } from '../../engine/broadcast/pump.js'
import { createIngest } from '../../kubernetes/codec/ingest.js'
import { ObjectViews } from '../../kubernetes/codec/object-views.js'
import { type Schema, kubernetesSchema } from '../../kubernetes/codec/protobuf/schema.js'
import type { Config } from '../config/load.js'
import { BASIC_RESOURCES } from '../../kubernetes/dialect/declared-resource.js'
import { leftOutOf } from '../../kubernetes/dialect/stripped-fields.js'
import { keyValueObject } from '../../kubernetes/dialect/key-value-object.js'
import { ResourceRegistry } from '../../kubernetes/dialect/resource-registry.js'
import type { OpenFeed } from '../../engine/feed/resource-feed.js'
import { type Key, keyFromText, keyToText } from '../../engine/model/event.js'
import { recentEntries } from '../../support/recent-entries.js'
import { type ApiResource, resourceId, sourceOf } from '../../kubernetes/model/api-resource.js'
import { Resources } from '../../engine/pipeline/resources.js'
import { RemoteDiscovery } from '../served/remote-discovery.js'
import { StoredKubernetes } from '../served/stored-kubernetes.js'
import { ServedViews } from '../served/served-views.js'
import { HttpResource } from '../../kubernetes/upstream/http-resource.js'
import type { RemoteApiServer } from '../../kubernetes/upstream/remote-api-server.js'
import type { Upstream } from '../../engine/upstream/upstream.js'
import { OpenedUpstream } from '../../engine/upstream/opened-upstream.js'
import type { ValueTransform } from '../../engine/model/value-transform.js'
import type { RingBounds } from '../../engine/cache/ring-buffer.js'
import type { ServerDeps } from './server-deps.js'
import { chooseFeeds, gapPolicies } from './choose-feeds.js'
import { openEncryption } from './open-encryption.js'
import { otherOf } from '../../kubernetes/dialect/other-etcds.js'
import type { OtherUpstream } from './open-upstream.js'
import { openRemoteApiServer } from './open-remote-api-server.js'
import { MAX_VALUE_BYTES } from '../limits/fixed-limits.js'

export interface Sources {
  readonly upstream: Upstream
  /** The etcds of the resources that are stored elsewhere. Default: none. */
  readonly others?: readonly OtherUpstream[]
  /** Opens the feeds of the resources. Default: as configured. */
  readonly openFeed?: OpenFeed
  /** The server behind `--upstream`. Default: as configured. */
  readonly server?: RemoteApiServer
  /** The kinds that can be stored as protobuf. Default: the kinds of Kubernetes. */
  readonly schema?: Schema
}

export type ResourceStage = Readonly<ReturnType<typeof openResources>>

export function openResources(deps: ServerDeps, pump: Pump, sources: Sources) {
  const { config, live } = deps
  const schema = sources.schema ?? kubernetesSchema()
  const registry = new ResourceRegistry(config.leftOut, config.strip)
  const objectViews = openViews(deps, schema)
  const views = new ServedViews(objectViews, registry, schema)
  /** Knows whether Kubernetes stores anything; null if that makes no difference. */
  const kubernetes = serveConfigured(deps, registry, sources.upstream)
  const server = config.upstream === null ? null : (sources.server ?? openRemoteApiServer(config, deps))
  const { etcdPrefix, resources: named } = config
  const encryption = openEncryption(config, deps)
  const transformOf = (resource: ApiResource): ValueTransform | null =>
    encryption === null || resource.holds !== 'kubernetes' ? null : encryption.atRest.transformOf(resource)
  const open = (upstream: Upstream): Upstream =>
    encryption === null ? upstream : new OpenedUpstream(upstream, byKey(registry, transformOf))
  /** Decrypts values when they are read, and encrypts them when they are written. */
  const upstream = open(sources.upstream)
  const { others = [] } = sources
  const othersOpened = others.map((other) => ({ ...other, upstream: open(other.upstream) }))
  /** The resources that the server behind `--upstream` serves; null without one. */
  const remote = server === null ? null : new RemoteDiscovery({ ...deps, server, registry, etcdPrefix, named })
  const resources = new Resources(registry, {
    ...deps,
    pump,
    endings: new PacedEndings(deps.clock),
    openFeed: sources.openFeed ?? chooseFeeds({ ...deps, upstream: sources.upstream, others, server }),
    sourceOf,
    factsOf: (resource) => views.factsOf(resource),
    ring: ringBounds(config),
    bookmarkIntervalMs: config.bookmarkInterval,
    ingestOf: (resource) =>
      createIngest({
        resource,
        maxValueBytes: MAX_VALUE_BYTES,
        wrap: keyValueObject,
        leftOut: leftOutOf(resource),
        keepsRaw: isEtcdPrefix(config, resource),
      }),
    historySize: historySizes(config),
    onGap: gapPolicies(config),
    transformOf,
    onUnencodable: (error) => {
      const status = statusOf(error)
      if (status.code === 500) deps.onInternalError(status)
    },
    directUpstream: (resource) =>
      server === null
        ? (otherOf(othersOpened, resource)?.upstream ?? upstream)
        : new HttpResource({ server, resource, random: deps.random }),
  })
  live.onChange((changed) => {
    objectViews.resize(changed.listCacheBytes)
    resources.setRingBounds(ringBounds(changed))
  })
  encryption?.atRest.onChange(() => void resources.reopen())
  deps.closing.add(() => encryption?.close())
  if (sources.server === undefined) deps.closing.add(() => server?.close())
  return { registry, resources, upstream, views, schema, server, remote, kubernetes }
}

/**
 * Registers the configured resources now, and again after every change of the configuration. With --upstream there are
 * none, because the other server determines what exists.
 * @returns the tracker that finds out whether Kubernetes' resources are included; null if that makes no difference.
 */
function serveConfigured(
  { config, live, clock, logger }: ServerDeps,
  registry: ResourceRegistry,
  upstream: Upstream,
): StoredKubernetes | null {
  if (config.upstream !== null) return null
  const kubernetes = config.awaitsKubernetes
    ? new StoredKubernetes({
        upstream,
        prefix: keyFromText(`${config.etcdPrefix}/`),
        clock,
        logger,
        onFound: () => serve(live.current),
      })
    : null
  const serve = ({ resources, awaitsKubernetes }: Config): void => {
    const isServed = !awaitsKubernetes || (kubernetes?.isFound ?? true)
    const served = isServed ? resources : resources.filter(({ origin }) => origin === 'declared')
    for (const { resource } of registry.set('configured', served))
      logger.warn(
        { resource: resourceId(resource) },
        'configured resource is not served: a custom resource has its name',
      )
  }
  serve(config)
  live.onChange(serve)
  return kubernetes
}

/** Whether the resource is a declared prefix that is also served in etcd's own API. */
export function isEtcdPrefix({ etcdApi }: Config, { plural, holds, namespaced }: ApiResource): boolean {
  return etcdApi.includes(plural) && holds === 'values' && !namespaced
}

/** The limits on the history of each cached resource that `--watch-cache-sizes` does not name. */
export function ringBounds({ defaultWatchCacheSize, watchCacheBytes, watchCacheAge }: Config): RingBounds {
  return { maxItems: defaultWatchCacheSize, maxBytes: watchCacheBytes, maxAgeMs: watchCacheAge }
}

/** The server logs each field that no schema knows once, for up to this many fields. */
const LOGGED_FIELDS = 1_000

function openViews({ config, metrics, logger }: ServerDeps, schema: Schema): ObjectViews {
  const loggedFields = recentEntries<string, true>(LOGGED_FIELDS)
  return new ObjectViews({
    schema,
    maxBytes: config.listCacheBytes,
    onUnreadable: (object, reason) => {
      metrics.process.unreadable()
      logger.warn(
        { key: keyToText(object.key), revision: object.modRevision, reason },
        'object cannot be converted to JSON',
      )
    },
    onUnknownFields: ({ schemaVersion: apiVersion, typeName: kind }, fields) => {
      metrics.process.unknownFields(fields.length)
      for (const field of fields) {
        const name = `${apiVersion} ${kind} ${field}`
        if (loggedFields.has(name)) continue
        loggedFields.set(name, true)
        logger.warn({ apiVersion, kind, field }, 'a stored field is newer than this release; JSON responses lack it')
      }
    },
  })
}

/** Finds the transform of a key's value, which is the transform of the resource to which the key belongs. */
function byKey(
  registry: ResourceRegistry,
  transformOf: (resource: ApiResource) => ValueTransform | null,
): (key: Key) => ValueTransform | null {
  return (key) => {
    for (const { resource } of registry.list()) if (key.startsWith(resource.etcdPrefix)) return transformOf(resource)
    return null
  }
}

/** Combines `--watch-cache` and `--watch-cache-sizes`; returns null for a resource to which neither option applies. */
function historySizes({ watchCache, watchCacheSizes }: Config): (resource: ApiResource) => number | null {
  const named = new Map(watchCacheSizes.map(({ resource, batches }) => [resource, batches]))
  return (resource) => {
    const id = resourceId(resource)
    const size = named.get(id) ?? (watchCache ? null : 0)
    return size === 0 && BASIC_RESOURCES.has(id) ? null : size
  }
}
