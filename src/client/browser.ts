/**
 * The client without anything of Node, for bundlers and for pages that import it directly. It has all of list and
 * watch, but not kubeconfig files and the transport with client certificates.
 */
export { bytesCodec, type BytesObject } from '../reflector/bytes-codec.js'
export { jsonWire, sseWire, type EventWire } from '../reflector/event-stream.js'
export { WatchFailure, type FailureKind, type StatusLike } from '../reflector/failure.js'
export { fetchTransport, type FetchTransportOptions } from '../reflector/fetch-transport.js'
export { listPages, type ListOptions, type WholeList } from '../reflector/list-pages.js'
export type { Bookmark, Change, ChangeType, DecodedEvent, DecodedList, ObjectCodec } from '../reflector/object-codec.js'
export { Reflector, type ReflectorOptions, type ReflectorSink, type ReflectorStatus } from '../reflector/reflector.js'
export type { Selection } from '../reflector/requests.js'
export type { Transport, TransportRequest, TransportResponse } from '../reflector/transport.js'
export { treeCodec, type KubeObject, type ObjectLike, type ObjectMetadata } from '../reflector/tree-codec.js'
export { DeltaFifo, type Delta, type KeyedDeltas, type KnownObjects } from './delta-fifo.js'
export { HandlerRegistration, type Handler, type HandlerOptions } from './handler-registration.js'
export { Indexer, type IndexerOptions, type IndexFunction } from './indexer.js'
export type { LabelSelectorObject } from '../model/label-requirements.js'
export { labelMatcher, Lister, type ListerQuery, NAMESPACE_INDEX } from './lister.js'
export { exponentialPerKey, longestOf, tokenBucket, type RateLimiter } from './rate-limiter.js'
export { resourcePath, type ResourceName } from './resource-path.js'
export { SharedInformer, type InformerEvent, type InformerOptions } from './shared-informer.js'
export { watch, watchDecoded, type DecodedWatchOptions, type WatchItem, type WatchOptions } from './watch.js'
export { WorkQueue, type WorkOptions, type WorkQueueOptions } from './work-queue.js'
