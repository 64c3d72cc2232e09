/**
 * The client for browsers: without any Node modules, for bundlers and for pages that import it directly. It contains
 * everything for list and watch, but no support for kubeconfig files and no transport with client certificates.
 */
export { bytesCodec, type BytesObject } from './reflector/bytes-codec.js'
export { jsonWire, sseWire, type EventWire } from './reflector/event-stream.js'
export { WatchFailure, type FailureKind, type StatusLike } from './reflector/watch-failure.js'
export { fetchTransport, type FetchTransportOptions } from './reflector/fetch-transport.js'
export type { Impersonation } from './reflector/impersonation-headers.js'
export { listPages, type ListOptions, type WholeList } from './reflector/list-pages.js'
export type { Bookmark, Change, ChangeType, DecodedEvent, DecodedList, ObjectCodec } from './reflector/object-codec.js'
export { Reflector, type ReflectorOptions, type ReflectorStore, type ReflectorStatus } from './reflector/reflector.js'
export type { Selection } from './reflector/requests.js'
export type { Transport, TransportRequest, TransportResponse } from './reflector/transport.js'
export { treeCodec, type KubeObject, type ObjectLike, type ObjectMetadata } from './reflector/tree-codec.js'
export { type ApiResource, discover, type RequestDiscovery, resourceNamed, resourceNameOf } from './discovery.js'
export { HandlerRegistration, type Handler, type HandlerOptions } from './handler-registration.js'
export { Indexer, type IndexerOptions, type IndexFunction } from './indexer.js'
export { keyName } from '../support/key-name.js'
export type { LabelSelectorObject } from '../kubernetes/model/label-requirements.js'
export { type ElectionOutcome, LeaderElection, type LeaderElectionOptions } from './leader-election.js'
export { labelMatcher, Lister, type ListerQuery, NAMESPACE_INDEX } from './lister.js'
export { type PollOptions, pollTransport } from './poll-transport.js'
export { indexedDbStore, type IndexedDbStoreOptions } from './indexed-db-store.js'
export { LiveList, type LiveListOptions } from './live-list.js'
export type { ListSnapshot, ObjectSnapshot, Shown } from './live-snapshot.js'
export {
  itemExponentialFailureRateLimiter,
  maxOfRateLimiter,
  bucketRateLimiter,
  type RateLimiter,
} from './rate-limiter.js'
export { type JsonRequest, requestJson } from './request-json.js'
export { type GroupKind, RestMapper, type RestMapperOptions } from './rest-mapper.js'
export { resourcePath, type ResourceName } from './resource-path.js'
export type { SavedStateOptions, StateStore } from './saved-state.js'
export { SharedInformer, type InformerEvent, type InformerOptions, type InformerStatus } from './shared-informer.js'
export { type FactoryInformerOptions, type FactoryOptions, SharedInformerFactory } from './shared-informer-factory.js'
export { ticketEvents, type TicketEventsOptions } from './ticket-events.js'
export { type InvalidObject, type ValueObject, withValue } from './values.js'
export { watch, watchDecoded, type DecodedWatchOptions, type WatchItem, type WatchOptions } from './watch.js'
export { WorkQueue, type WorkOptions, type WorkQueueOptions } from './work-queue.js'
