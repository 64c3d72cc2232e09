/** The fixed limits of the server; see `engine/model/limits.ts`. */

/** The number of writes at once: as many as an API server allows by default (`--max-mutating-requests-inflight`). */
export const MAX_WRITES = 200
/** Each status page costs a connection, even in a forgotten tab. */
export const MAX_STATUS_PAGES = 50
/**
 * The number of requests that may wait for each slot. A waiting request holds only its connection. One identity may
 * have half of the waiting requests, which is enough for a DaemonSet of 500 nodes with four watches each.
 */
export const WAITING_PER_SLOT = 64
/**
 * The number of past states that a process rebuilds at once. To rebuild a state, the process walks through the history
 * on its event loop.
 */
export const PAST_STATES = 4
/**
 * The number of reads in a process that may wait for resources to load. Each of them holds only its connection or
 * stream. If identities are known, one identity may have half of them.
 */
export const LOADING_READS = 10_000
/** The number of write threads per process. If identities are known, one identity may use only one of them. */
export const WRITE_THREADS = 2
/** The number of lists and watches that may begin at once in a process whose memory exceeds its target. */
export const MEMORY_TURNS = 8
/** The share of the memory target for list bodies being sent, and the limit in bytes without a target. */
export const SENT_SHARE = 1 / 4
export const SENT_BYTES = 512 * 1024 * 1024
/**
 * The share of the memory target for connections of unknown clients, and the limit in bytes without a target. The waiting
 * connections of known clients have another share of the same size.
 */
export const IDLE_CONNECTIONS_SHARE = 1 / 4
export const IDLE_CONNECTIONS_BYTES = 1024 * 1024 * 1024
/** TokenReviews of tokens that were never accepted: the number at once, and the number that may wait. */
export const UNKNOWN_TOKENS_AT_ONCE = 3
export const MAX_UNKNOWN_TOKENS_WAITING = 256
/**
 * How many arrivals may wait before any are rejected. It is large because ten thousand nodes that reconnect at once are
 * not an attack.
 */
export const MOST_ARRIVALS_WAITING = 16_384
/** The time per iteration of the event loop for reading streams that have to wait. */
export const SESSION_READ_MS = 1
/** The allowed burst of resets, and the allowed sustained rate. Well-behaved clients reset a few requests an hour. */
export const RESETS_BURST = 200
export const RESETS_PER_SECOND = 20
/** File descriptors that no client connection may use: more than a server without connections has open. */
export const DESCRIPTOR_RESERVE = 64
/** The further share of the descriptors for what grows with the number of clients: forwarded requests, reviews. */
export const DESCRIPTOR_RESERVE_SHARE = 1 / 16
export const MAX_DESCRIPTOR_RESERVE = 1_024
/** Selectors travel in the URL, and kube-proxies and controllers write long ones. Node's default is 16 KB. */
export const MAX_HEADER_BYTES = 64 * 1024
/**
 * The time limit for the headers of a request, and for the first byte of a TLS handshake. It also limits how long a
 * slow-loris client holds a socket.
 */
export const HEADERS_TIMEOUT_MS = 20_000
/**
 * The memory limit of one HTTP/2 connection, in megabytes. It is enough for 250 watches with 128 KB each in flight. Beyond the
 * limit, new requests are rejected. Node's default of 10 MB would reject the requests of a client with a hundred busy
 * watches.
 */
export const MAX_SESSION_MEMORY_MB = 64
/** The gap between two PINGs of a connection with gRPC requests, and how many may come sooner. Both are etcd's. */
export const MIN_PING_GAP_MS = 5_000
export const MAX_PING_STRIKES = 2
/** From the first byte of a TLS handshake to its end, so that ten thousand half-open connections go away. */
export const HANDSHAKE_MS = 10_000
/** The most unanswered requests of one connection. Further requests are not started. */
export const MAX_PIPELINED = 100
/** The time for a client to read the last bytes of a response, before more time is given for many bytes. */
export const LINGER_MS = 30_000
/** The minimum rate for reading the last bytes. */
export const MIN_LINGER_BYTES_PER_SECOND = 16_000
/** How long the rest of a body may arrive after its request has been answered. Until then, bytes from the peer are ignored. */
export const UNREAD_BODY_MS = 5_000
/** The API server's limit. It is twice etcd's default, so etcd itself rejects an object that is too large for it. */
export const MAX_BODY_BYTES = 3 * 1024 * 1024
/** The body of a read has no meaning, and the API server ignores it. */
export const MAX_IGNORED_BYTES = 64 * 1024
/**
 * Once this many bytes are gathered, nothing more is read from the connection. Bytes that the last read has already
 * delivered are also kept.
 */
export const GATHERED_BYTES = 64 * 1024
/**
 * A body may have MIN_PIECES pieces, plus one for each PIECE_BYTES of the body. Each piece takes a few microseconds of
 * the event loop and hundreds of bytes of memory.
 */
export const MIN_PIECES = 2_048
export const PIECE_BYTES = 32
/** Messages of WebSocket clients are read and dropped; a larger one ends the connection (1009). */
export const MAX_WEBSOCKET_MESSAGE_BYTES = 64 * 1024
/**
 * The most fragments in a message; more end the connection (1008). Clients fragment only messages that are larger than
 * MAX_WEBSOCKET_MESSAGE_BYTES.
 */
export const MAX_WEBSOCKET_FRAGMENTS = 16
/**
 * The most reads from the socket that one frame may take; more end the connection (1008). In full packets, a frame
 * takes 46.
 */
export const MAX_READS_PER_FRAME = 128
/**
 * The most frames in one read from the socket; more end the connection (1008). The library parses a whole read at once,
 * which can contain ten thousand frames. Real clients only send a ping now and then.
 */
export const MAX_FRAMES_PER_READ = 256
/** The time limit for one message of a WebSocket client. */
export const WEBSOCKET_MESSAGE_MS = 30_000
/** How long a write may compute in its thread. The largest intended writes take a second or two. */
export const WRITE_CPU_MS = 10_000
/**
 * The heap of a write thread, and the least of it under a small memory target. An ordinary body of 3 MB takes 85 MB, including
 * its copies.
 */
export const MAX_WRITE_HEAP_MB = 256
export const MIN_WRITE_HEAP_MB = 128
/** The documents of a thousand large definitions take some seconds. */
export const DOCUMENT_CPU_MS = 60_000
export const DOCUMENT_HEAP_MB = 1_024
/**
 * The largest definition, in stored bytes, that is read on the event loop. Reading this much takes a few milliseconds at
 * most.
 */
export const MAX_DEFINITION_BYTES = 64 * 1024
/**
 * The largest value that is accepted. By default etcd rejects such large requests itself; this limit also applies if
 * etcd's limit was raised.
 */
export const MAX_VALUE_BYTES = 8 * 1024 * 1024
/** The body of an OFREP evaluation. A context holds a few attributes of a user. */
export const MAX_CONTEXT_BYTES = 64 * 1024
/** All flags of `--ofrep`. Every client gets all flags at once, so a larger set would be a mistake. */
export const MAX_FLAGS_BYTES = 8 * 1024 * 1024
/** Lines that the access log has not written yet, in bytes. */
export const AUDIT_QUEUE_BYTES = 4 * 2 ** 20
/** Identities whose rates are counted; beyond it, the count of the one seen longest ago starts again. */
export const MAX_IDENTITIES = 65_536
/** Clients whose resets are counted. */
export const MAX_RESETTING_CLIENTS = 16_384
/** Tokens whose verdicts are remembered. A user with many groups takes about 1 KB, so the cache takes 16 MB at most. */
export const MAX_TOKENS = 16_384
/** Decisions of the Webhook mode that are remembered. A decision takes about 300 bytes. */
export const MAX_DECISIONS = 65_536
/**
 * Objects that tokens are bound to. The limit is enough for all remembered tokens. Each token is bound to two objects: a service account and a pod. Each
 * object takes about 200 bytes.
 */
export const MAX_BOUND_OBJECTS = 32_768
