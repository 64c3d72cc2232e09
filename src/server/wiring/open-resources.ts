/** Opens the resources of this process as configured, from their sources to their watchers. */
import type { Pump } from '../../engine/broadcast/pump.js'
import { createIngest } from '../../kubernetes/codec/ingest.js'
import { ObjectViews } from '../../kubernetes/codec/object-views.js'
import { type Schema, kubernetesSchema } from '../../kubernetes/codec/protobuf/schema.js'
import type { Config } from '../config/load.js'
import { BASIC_RESOURCES } from '../../kubernetes/dialect/declared-resource.js'
import { keyValueObject } from '../../kubernetes/dialect/key-value-object.js'
import { ResourceRegistry, type ServedResource } from '../../kubernetes/dialect/resource-registry.js'
import type { OpenFeed } from '../../engine/feed/resource-feed.js'
import { type Key, keyFromText, keyToText } from '../../engine/model/event.js'
import { recentEntries } from '../../support/recent-entries.js'
import { type Resource, resourceId } from '../../engine/model/resource.js'
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
import type { Basis } from './basis.js'
import { chooseFeeds } from './choose-feeds.js'
import { openEncryption } from './open-encryption.js'
import { otherOf } from '../../kubernetes/dialect/other-etcds.js'
import type { OtherUpstream } from './open-upstream.js'
import { openRemoteApiServer } from './remote-api-server.js'

/**
 * The largest value that is accepted. By default etcd rejects such large requests itself; this limit also applies if
 * etcd's limit was raised.
 */
export const MAX_VALUE_BYTES = 8 * 1024 * 1024

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

export interface ResourceStage {
  readonly registry: ResourceRegistry
  readonly resources: Resources<ServedResource>
  /** An upstream that decrypts values when they are read, and encrypts them when they are written. */
  readonly upstream: Upstream
  readonly views: ServedViews
  readonly schema: Schema
  /** The resources that the server behind `--upstream` serves; null without one. */
  readonly remote: RemoteDiscovery | null
  /** Knows whether Kubernetes stores anything; null if that makes no difference. */
  readonly kubernetes: StoredKubernetes | null
}

export function openResources(basis: Basis, pump: Pump, sources: Sources): ResourceStage {
  const { config, live } = basis
  const schema = sources.schema ?? kubernetesSchema()
  const registry = new ResourceRegistry(config.leftOut)
  const objectViews = openViews(basis, schema)
  const views = new ServedViews(objectViews, registry, schema)
  const kubernetes = serveConfigured(basis, registry, sources.upstream)
  const server = config.upstream === null ? null : (sources.server ?? openRemoteApiServer(config, basis))
  const { etcdPrefix, resources: named } = config
  const encryption = openEncryption(config, basis)
  const transformOf = (resource: Resource): ValueTransform | null =>
    encryption === null || resource.holds !== 'kubernetes' ? null : encryption.atRest.transformOf(resource)
  const open = (upstream: Upstream): Upstream =>
    encryption === null ? upstream : new OpenedUpstream(upstream, byKey(registry, transformOf))
  const upstream = open(sources.upstream)
  const { others = [] } = sources
  const othersOpened = others.map((other) => ({ ...other, upstream: open(other.upstream) }))
  const remote = server === null ? null : new RemoteDiscovery({ ...basis, server, registry, etcdPrefix, named })
  const resources = new Resources(registry, {
    ...basis,
    pump,
    openFeed: sources.openFeed ?? chooseFeeds({ ...basis, upstream: sources.upstream, others, server }),
    jsonOf: (...what) => views.forSelectors(...what),
    ring: ringBounds(config),
    bookmarkIntervalMs: config.bookmarkInterval,
    ingestOf: (resource) => createIngest({ resource, maxValueBytes: MAX_VALUE_BYTES, wrap: keyValueObject }),
    historySize: historySizes(config),
    transformOf,
    directUpstream: (resource) =>
      server === null
        ? (otherOf(othersOpened, resource)?.upstream ?? upstream)
        : new HttpResource({ server, resource, random: basis.random }),
  })
  live.onChange((changed) => {
    objectViews.resize(changed.listCacheBytes)
    resources.setRingBounds(ringBounds(changed))
  })
  encryption?.atRest.onChange(() => void resources.reopen())
  basis.closing.add(() => encryption?.close())
  if (sources.server === undefined) basis.closing.add(() => server?.close())
  return { registry, resources, upstream, views, schema, remote, kubernetes }
}

/**
 * Registers the configured resources now, and again after every change of the configuration. With --upstream there are
 * none, because the other server determines what exists.
 * @returns the tracker that finds out whether Kubernetes' resources are included; null if that makes no difference.
 */
function serveConfigured(
  { config, live, clock, logger }: Basis,
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

/** The limits on the history of each cached resource that `--watch-cache-sizes` does not name. */
export function ringBounds({ defaultWatchCacheSize, watchCacheBytes, watchCacheAge }: Config): RingBounds {
  return { maxItems: defaultWatchCacheSize, maxBytes: watchCacheBytes, maxAgeMs: watchCacheAge }
}

/** The server logs each field that no schema knows once, for up to this many fields. */
const LOGGED_FIELDS = 1_000

function openViews({ config, metrics, logger }: Basis, schema: Schema): ObjectViews {
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
    onUnknownFields: ({ apiVersion, kind }, fields) => {
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
  transformOf: (resource: Resource) => ValueTransform | null,
): (key: Key) => ValueTransform | null {
  return (key) => {
    for (const { resource } of registry.list()) if (key.startsWith(resource.etcdPrefix)) return transformOf(resource)
    return null
  }
}

/** Combines `--watch-cache` and `--watch-cache-sizes`; returns null for a resource to which neither option applies. */
function historySizes({ watchCache, watchCacheSizes }: Config): (resource: Resource) => number | null {
  const named = new Map(watchCacheSizes.map(({ resource, batches }) => [resource, batches]))
  return (resource) => {
    const id = resourceId(resource)
    const size = named.get(id) ?? (watchCache ? null : 0)
    return size === 0 && BASIC_RESOURCES.has(id) ? null : size
  }
}
