/** The fixed limits of etcd's own API; see `engine/model/limits.ts`. */

/** etcd's limit of 1.5 MiB for a request, and its allowance for what surrounds it. */
export const MAX_REQUEST_BYTES = 2 * 1024 * 1024
/** The size up to which a request is received without a slot, as any body is before its caller is known. */
export const SMALL_REQUEST_BYTES = 64 * 1024
/** Larger requests that are received at once. They take their memory before their callers are known. */
export const LARGE_REQUESTS_AT_ONCE = 32
/** How long a client may take to send a larger request. */
export const LARGE_REQUEST_MS = 30_000
/** Transactions within transactions. etcd accepts any depth within the size of a request; nobody needs more than a few levels. */
export const MAX_TXN_DEPTH = 16
/** Compares and operations of one request. etcd's limit for each list of operations is 128 by default. */
export const MAX_TXN_OPERATIONS = 10_000
/** Compares, or operations of a branch, in a transaction that the cache answers. etcd accepts as many by default. */
export const MAX_CACHED_TXN_OPERATIONS = 128
/**
 * Keys that a transaction reads from the cache, counted again whenever it names them again. Without a bound, one small
 * request could read the whole cache many times.
 */
export const MAX_CACHED_TXN_KEYS = 10_000
/** Keys that a range sorts by anything but the key. Sorting is one step, and holds up everybody else. */
export const MAX_SORTED_KEYS = 10_000
/** Different permissions that one request needs, and leases that it attaches keys to. More take too long to decide. */
export const MAX_RIGHTS = 1_000
/** Requests that are forwarded to etcd at once. */
export const FORWARDED_AT_ONCE = 64
/** Watches on etcd for clients whose keys are not cached. If identities are known, one may have a quarter of them. */
export const FORWARDED_WATCHES = 1_000
/** How long etcd may take to answer the create of such a watch, for which all later requests of its stream wait. */
export const WATCH_ANSWER_MS = 10_000
/** Watches on etcd for one prefix, for watches from below the history. */
export const MAX_BRIDGES = 4
/**
 * Streams of an HTTP/2 connection, once a caller of etcd's API is known on it. Such clients have one connection, and a
 * stream for each watch that they configure differently, each keepalive and each request.
 */
export const MAX_STREAMS_PER_CONNECTION = 1_000
/** Streams of watches and keepalives. If identities are known, one may have a quarter of them. */
export const MAX_STREAMS = 20_000
/** How long a client may take for a large response, in addition to the time at its minimum speed. */
export const LARGE_RESPONSE_MS = 60_000
/** An API server has a few hundred. */
export const MAX_WATCHES_PER_STREAM = 10_000
/** Requests of a stream that wait while one is handled, and keepalives that etcd has not answered. */
export const MAX_WAITING_REQUESTS = 64
/** Leases that one client has been granted here. Each costs etcd memory for as long as it is kept alive. */
export const MAX_LEASES = 1_000
