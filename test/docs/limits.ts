/**
 * The limits of the server, for docs/reference/limits.md: what happens beyond each, how to see it, and the test that exceeds it.
 * The numbers come from the options and from the modules of fixed limits, which the code reads. A fixed limit without a
 * row does not compile, and `generated.test.ts` checks that the tests exist and that each counted limit has a row.
 */
import * as engine from '../../src/engine/model/limits.js'
import * as etcdApi from '../../src/etcd-api/limits.js'
import type * as fleet from '../../src/fleet/limits.js'
import type * as dialect from '../../src/kubernetes/model/limits.js'
import type { OptionName } from '../../src/server/config/options.js'
import * as server from '../../src/server/limits/fixed-limits.js'
import type { Limit } from '../../src/server/limits/limit.js'
import type * as support from '../../src/support/limits.js'

interface Row {
  /** The limited quantity. */
  readonly bound: string
  readonly beyond: string
  /** The label of `distributary_http_rejected_total`, if rejections are counted there. */
  readonly limit?: Limit
  /** Another metric that shows it. Default: the requests by response code. */
  readonly metric?: string
  /** Paths below test/, without `.test.ts`. */
  readonly tests: readonly string[]
}

interface Settable extends Row {
  readonly option: OptionName
  /** How the limit follows from the option, if it is not its value. */
  readonly share?: string
}

export interface Fixed extends Row {
  /** The limit in words. Default: the constant's value, in the unit that its name ends with. */
  readonly value?: string
}

/** By constant; null if the row before it covers the constant. */
export type FixedRows<Module> = { readonly [Name in keyof Module]: Fixed | null }

const percent = (share: number): string => `${share * 100}%`

/** Returns a number in the unit that its constant's name ends with. */
export function inUnits(name: string, value: number): string {
  const [unit, steps] = unitsOf(name)
  const [size, symbol] = steps.find(([step]) => value % step === 0) ?? [1, unit]
  return `${(value / size).toLocaleString('en-US')}${symbol}`
}

type Units = readonly [unit: string, steps: readonly (readonly [size: number, symbol: string])[]]

function unitsOf(name: string): Units {
  if (name.endsWith('_BYTES')) {
    return [
      ' bytes',
      [
        [2 ** 30, ' GiB'],
        [2 ** 20, ' MiB'],
        [2 ** 10, ' KiB'],
      ],
    ]
  }
  if (name.endsWith('_MS')) return [' ms', [[1_000, ' s']]]
  return [name.endsWith('_MB') ? ' MiB' : '', []]
}

export const SETTABLE: readonly Settable[] = [
  {
    bound: 'watches',
    option: 'maxWatchers',
    beyond: '429 with `Retry-After`',
    limit: 'watchers',
    tests: ['integration/main-job', 'security/limits-of-workers'],
  },
  {
    bound: 'watches per client',
    option: 'maxWatchersPerClient',
    beyond: '429',
    limit: 'watchers-per-client',
    tests: ['integration/main-job', 'security/limits-of-workers'],
  },
  {
    bound: 'requests per second and identity',
    option: 'requestsPerSecond',
    beyond: '429',
    limit: 'requests',
    tests: ['security/limits', 'security/limits-of-workers'],
  },
  {
    bound: 'initial states being sent, uncached lists',
    option: 'maxInitialStates',
    beyond: 'waits for a fair turn, then 429',
    limit: 'initial-states',
    tests: ['security/limits'],
  },
  {
    bound: 'distinct lists being sent',
    option: 'maxInitialStates',
    beyond: 'waits for a fair turn, then 429',
    limit: 'lists',
    tests: ['server/transports/bodies/send-body'],
  },
  {
    bound: 'memory, shared by the processes',
    option: 'memoryTarget',
    beyond:
      'caches shrink; at the target, lists and watches begin in fair turns and writes get 429; at 105%, all three get 429, but for lists and polls of resources with at most 1,000 objects and 256 KiB',
    limit: 'memory',
    tests: ['fault/bounds', 'fault/large-objects', 'server/transports/limits/memory-pressure'],
  },
  {
    bound: 'host names in requests',
    option: 'allowedHosts',
    beyond: '403',
    limit: 'hosts',
    tests: ['server/transports/server/allowed-hosts'],
  },
  {
    bound: 'streams per HTTP/2 connection',
    option: 'http2MaxStreamsPerConnection',
    beyond: 'refused by the protocol',
    metric: 'distributary_broadcast_watchers',
    tests: ['server/transports/watch/stream-output'],
  },
  {
    bound: 'time for a response other than a watch',
    option: 'requestTimeout',
    beyond: 'the connection is closed',
    metric: 'distributary_http_request_duration_seconds',
    tests: ['server/transports/bodies/send-body'],
  },
  {
    bound: 'requests forwarded to the API server, and to each `--apiservice`',
    option: 'passthroughMaxRequests',
    beyond: '429',
    limit: 'passthrough',
    tests: ['server/transports/passthrough', 'server/transports/passthrough/api-services'],
  },
  {
    bound: 'requests of one client forwarded to one server',
    option: 'passthroughMaxRequests',
    beyond: '429 from 3/4 of them on',
    limit: 'passthrough-per-client',
    tests: ['server/transports/passthrough'],
  },
  {
    bound: 'history per resource: batches older than 75 s',
    option: 'defaultWatchCacheSize',
    beyond: 'drops the oldest; watchers behind it get 410',
    metric: 'distributary_cache_ring_batches',
    tests: ['engine/cache/ring-buffer'],
  },
  {
    bound: 'history per resource: bytes',
    option: 'watchCacheBytes',
    beyond: 'the same; counted and logged for history younger than 75 s',
    metric: 'distributary_cache_history_cut_total',
    tests: ['fault/large'],
  },
  {
    bound: 'history per resource: age',
    option: 'watchCacheAge',
    beyond: 'drops the oldest; watchers behind it get 410',
    metric: 'distributary_cache_ring_age_seconds',
    tests: ['engine/broadcast/dispatcher'],
  },
  {
    bound: 'framed events kept for groups',
    option: 'watchCacheBytes',
    share: 'a quarter of',
    beyond: 'lagging watchers continue from the history',
    metric: 'distributary_broadcast_log_bytes',
    tests: ['engine/broadcast/frame-log'],
  },
  {
    bound: 'encoded lists kept',
    option: 'listCacheBytes',
    beyond: 'drops the least recently used',
    metric: 'process_resident_memory_bytes',
    tests: ['server/transports/bodies/body-cache'],
  },
  {
    bound: 'revisions of history read back at a start',
    option: 'backfillRevisions',
    beyond: 'older ones are not read; watches from before get 410',
    metric: 'distributary_cache_floor_resource_version',
    tests: ['engine/feed/feed'],
  },
]

export const SERVER: FixedRows<typeof server> = {
  MAX_WRITES: {
    bound: 'concurrent writes',
    beyond: 'waits for a fair turn, then 429',
    limit: 'writes',
    tests: ['kubernetes/writes/writer'],
  },
  MAX_STATUS_PAGES: {
    bound: 'open status pages',
    beyond: '429',
    limit: 'status-pages',
    tests: ['server/ui/status-stream'],
  },
  WAITING_PER_SLOT: {
    bound: 'requests that wait for each slot of a limit with fair turns',
    beyond: '429',
    tests: ['security/limits'],
  },
  PAST_STATES: {
    bound: 'past states being built, for exact revisions and later pages; states being read for uncached watches',
    beyond: 'waits for a fair turn, then 429',
    limit: 'past-states',
    tests: ['engine/cache/watch-cache'],
  },
  LOADING_READS: {
    bound: 'reads waiting for a resource to load, for 3 s',
    beyond: '429 immediately',
    tests: ['server/transports/api/read-state'],
  },
  WRITE_THREADS: {
    bound: 'writes computed in threads: large ones, and all of definitions and custom resources',
    beyond: 'waits for a fair turn, then 429',
    limit: 'write-threads',
    tests: ['kubernetes/writes/off-loop-writer'],
  },
  MEMORY_TURNS: {
    bound: 'lists and watches that begin at once beyond `--memory-target`',
    beyond: 'waits for a fair turn, then 429',
    limit: 'memory',
    tests: ['server/transports/limits/memory-pressure'],
  },
  SENT_SHARE: {
    bound: 'bytes of distinct lists being sent',
    value: `${percent(server.SENT_SHARE)} of \`--memory-target\`, or ${inUnits('_BYTES', server.SENT_BYTES)} without one`,
    beyond: 'frees the parts that all readers have received; new lists wait, then 429',
    limit: 'list-bytes',
    tests: ['server/transports/bodies/body-cache'],
  },
  SENT_BYTES: null,
  IDLE_CONNECTIONS_SHARE: {
    bound: 'memory of connections whose clients are not known yet ([below](#notes))',
    value: `${percent(server.IDLE_CONNECTIONS_SHARE)} of \`--memory-target\`, or ${inUnits('_BYTES', server.IDLE_CONNECTIONS_BYTES)} without one`,
    beyond:
      'a connection of the address that holds the most is closed: the oldest that waits for its next request; if none does, the oldest, or the newest if all are younger than 5 s',
    limit: 'connections',
    tests: ['server/transports/limits/idle-connections', 'security/idle-connections'],
  },
  IDLE_CONNECTIONS_BYTES: {
    bound: "memory of known clients' connections that wait for a request ([below](#notes))",
    value: 'the same again',
    beyond: 'of the user that holds the most, the connection that has waited longest is closed',
    limit: 'connections',
    tests: ['server/transports/limits/idle-connections', 'security/idle-connections'],
  },
  UNKNOWN_TOKENS_AT_ONCE: {
    bound: 'TokenReviews of unknown tokens in progress; one of them per address',
    beyond: 'waits',
    metric: 'distributary_authentication_attempts_total',
    tests: ['server/auth/authn/token-review'],
  },
  MAX_UNKNOWN_TOKENS_WAITING: {
    bound: 'unknown tokens that wait for their TokenReview',
    beyond: '429',
    metric: 'distributary_authentication_attempts_total',
    tests: ['server/auth/authn/token-review'],
  },
  MOST_ARRIVALS_WAITING: {
    bound: 'connections and requests waiting to start',
    beyond:
      '429, or the connection is closed, for clients that use up their share; at twice the bound, for all clients',
    tests: ['server/transports/limits/arrival-line'],
  },
  SESSION_READ_MS: {
    bound: 'time per iteration of the event loop for reading HTTP/2 requests that have to wait',
    beyond: "the client's other connections are read in later iterations",
    tests: ['server/transports/limits/session-reads'],
  },
  RESETS_BURST: {
    bound: 'HTTP/2 requests that a client resets right after sending them ([below](#notes))',
    value: `${server.RESETS_BURST} at once, then ${server.RESETS_PER_SECOND} a second`,
    beyond: 'for 10 s, a connection gets `GOAWAY` (`ENHANCE_YOUR_CALM`) at its fifth reset',
    limit: 'resets',
    tests: ['security/rapid-reset', 'server/transports/limits/rapid-resets'],
  },
  RESETS_PER_SECOND: null,
  MIN_PING_GAP_MS: {
    bound: "PINGs of a connection with requests of etcd's API, while nothing is sent to it",
    value: `one in ${inUnits('_MS', server.MIN_PING_GAP_MS)}; ${server.MAX_PING_STRIKES} may come sooner`,
    beyond: 'the connection gets `GOAWAY` (`ENHANCE_YOUR_CALM`, `too_many_pings`) and is closed',
    limit: 'pings',
    tests: ['etcd-api/etcd-api/streams'],
  },
  MAX_PING_STRIKES: null,
  DESCRIPTOR_RESERVE: {
    bound: 'file descriptors that client connections leave free',
    value: `${server.DESCRIPTOR_RESERVE} and ${percent(server.DESCRIPTOR_RESERVE_SHARE)} of all, at most ${inUnits('', server.MAX_DESCRIPTOR_RESERVE)}`,
    beyond:
      'new connections are closed at once, with a log line a minute; open ones continue. The metrics port has a part of the reserve',
    limit: 'descriptors',
    tests: ['fault/process', 'server/transports/limits/descriptor-reserve'],
  },
  DESCRIPTOR_RESERVE_SHARE: null,
  MAX_DESCRIPTOR_RESERVE: null,
  MAX_HEADER_BYTES: { bound: 'size of URL and headers', beyond: '431', limit: 'headers', tests: ['fault/bounds'] },
  HEADERS_TIMEOUT_MS: {
    bound: 'time to receive headers, and until the first byte of a TLS handshake',
    beyond: '408, or the connection is closed',
    limit: 'request-time',
    tests: ['fault/slow-loris'],
  },
  HANDSHAKE_MS: {
    bound: 'time from the first byte of a TLS handshake to its end',
    beyond: 'the connection is closed',
    limit: 'handshake-time',
    tests: ['fault/slow-loris'],
  },
  MAX_SESSION_MEMORY_MB: {
    bound: 'memory per HTTP/2 connection',
    beyond: 'new streams are refused by the protocol',
    metric: 'distributary_broadcast_socket_bytes',
    tests: ['server/transports/watch/stream-output'],
  },
  MAX_PIPELINED: {
    bound: 'unanswered requests per HTTP/1.1 connection',
    beyond: 'answers those, then closes the connection',
    limit: 'pipelined',
    tests: ['server/transports/exchange/http-pipelining'],
  },
  LINGER_MS: {
    bound: 'time for a client to read the last bytes of a response',
    value: `${inUnits('_MS', server.LINGER_MS)}, and 1 s for every ${inUnits('_BYTES', server.MIN_LINGER_BYTES_PER_SECOND)}`,
    beyond: 'the stream is closed; over HTTP/1.1, the connection',
    tests: ['server/transports/exchange/exchange'],
  },
  MIN_LINGER_BYTES_PER_SECOND: null,
  UNREAD_BODY_MS: {
    bound: 'time for a client to stop sending a body whose request has been answered',
    beyond: 'the stream is closed; over HTTP/1.1, the connection',
    tests: ['server/transports/exchange/read-body'],
  },
  MAX_BODY_BYTES: { bound: 'size of a write body', beyond: '413', tests: ['kubernetes/writes/writer'] },
  MAX_IGNORED_BYTES: {
    bound: 'size of the body of a get, list or watch, which is ignored',
    beyond: '413',
    tests: ['server/transports/exchange/read-body'],
  },
  GATHERED_BYTES: {
    bound: 'body of a waiting request',
    beyond: 'stops reading the connection',
    metric: 'process_resident_memory_bytes',
    tests: ['server/transports/exchange/read-body'],
  },
  MIN_PIECES: {
    bound: 'pieces of a body: chunks, frames, packets',
    value: `${inUnits('', server.MIN_PIECES)}, and one for every ${server.PIECE_BYTES} bytes`,
    beyond: '400',
    tests: ['server/transports/exchange/read-body', 'security/unread-bodies'],
  },
  PIECE_BYTES: null,
  MAX_WEBSOCKET_MESSAGE_BYTES: {
    bound: 'message from a WebSocket client',
    beyond: 'closed with code 1009',
    metric: 'distributary_broadcast_watchers_ended_total',
    tests: ['server/transports/websocket'],
  },
  MAX_WEBSOCKET_FRAGMENTS: {
    bound: 'fragments per WebSocket message',
    beyond: 'closed with code 1008',
    metric: 'distributary_broadcast_watchers_ended_total',
    tests: ['server/transports/websocket'],
  },
  MAX_READS_PER_FRAME: {
    bound: 'reads from the socket per WebSocket frame',
    beyond: 'closed with code 1008',
    metric: 'distributary_broadcast_watchers_ended_total',
    tests: ['server/transports/websocket'],
  },
  MAX_FRAMES_PER_READ: {
    bound: 'WebSocket frames per read from the socket',
    beyond: 'closed with code 1008',
    metric: 'distributary_broadcast_watchers_ended_total',
    tests: ['server/transports/websocket'],
  },
  WEBSOCKET_MESSAGE_MS: {
    bound: 'time for a WebSocket message',
    beyond: 'the connection is closed',
    metric: 'distributary_broadcast_watchers_ended_total',
    tests: ['server/transports/websocket/message-deadline'],
  },
  WRITE_CPU_MS: {
    bound: 'CPU time of a write (wall time: six times that)',
    beyond: '504, and the thread is replaced',
    metric: 'distributary_write_threads_replaced_total',
    tests: ['support/thread-pool', 'kubernetes/writes/off-loop-writer'],
  },
  MAX_WRITE_HEAP_MB: {
    bound: 'memory of a write thread',
    value: `a quarter of \`--memory-target\`, between ${server.MIN_WRITE_HEAP_MB} and ${server.MAX_WRITE_HEAP_MB} MiB`,
    beyond: '413, and the thread is replaced',
    metric: 'distributary_write_threads_replaced_total',
    tests: ['support/thread-pool', 'kubernetes/writes/off-loop-writer', 'fault/large-writes'],
  },
  MIN_WRITE_HEAP_MB: null,
  DOCUMENT_CPU_MS: {
    bound: 'CPU time to read a definition or build an OpenAPI document',
    beyond: 'definition not served; 503 for the document',
    tests: ['server/served/definitions'],
  },
  DOCUMENT_HEAP_MB: {
    bound: 'memory of the thread that reads definitions and builds OpenAPI documents',
    beyond: 'definition not served; 503 for the document',
    tests: ['server/served/definitions'],
  },
  MAX_DEFINITION_BYTES: {
    bound: 'size of a definition read on the event loop',
    beyond: 'read in a thread',
    tests: ['server/served/definitions'],
  },
  MAX_VALUE_BYTES: {
    bound: 'size of an etcd value, and of a written object',
    beyond:
      '413 for a write; a stored Kubernetes object: 501 for its resource; a value of another prefix is left out, with a `Warning`',
    metric: 'distributary_cache_unservable_values',
    tests: ['engine/cache/watch-cache', 'kubernetes/writes/object-store'],
  },
  MAX_CONTEXT_BYTES: { bound: 'body of an OFREP evaluation', beyond: '413', tests: ['server/ofrep/ofrep-handler'] },
  MAX_FLAGS_BYTES: {
    bound: 'all flags of `--ofrep` together',
    beyond: '413',
    tests: ['server/ofrep/ofrep-handler'],
  },
  AUDIT_QUEUE_BYTES: {
    bound: 'lines queued for the access log',
    beyond: 'dropped, and counted in the log',
    tests: ['server/auth/audit-log'],
  },
  MAX_IDENTITIES: {
    bound: 'identities whose rates are counted',
    beyond: 'forgets the one seen longest ago',
    limit: 'requests',
    tests: ['support/recent-entries'],
  },
  MAX_RESETTING_CLIENTS: {
    bound: 'clients whose resets are counted',
    beyond: 'forgets the one seen longest ago',
    limit: 'resets',
    tests: ['support/recent-entries'],
  },
  MAX_TOKENS: {
    bound: 'remembered tokens: accepted ones, and as many refused ones',
    beyond: 'forgets the one used longest ago, and has it reviewed again',
    metric: 'distributary_authentication_attempts_total',
    tests: ['support/recent-entries'],
  },
  MAX_DECISIONS: {
    bound: 'remembered decisions of the Webhook mode',
    beyond: 'forgets the one used longest ago, and asks again',
    metric: 'distributary_authorization_attempts_total',
    tests: ['support/recent-entries'],
  },
  MAX_BOUND_OBJECTS: {
    bound: 'objects that tokens are bound to, and whose end is noticed',
    beyond: 'forgets the one used longest ago, and looks it up again',
    metric: 'distributary_authentication_attempts_total',
    tests: ['support/recent-entries'],
  },
}

export const DIALECT: FixedRows<typeof dialect> = {
  MAX_SELECTOR_LENGTH: { bound: 'length of a selector', beyond: '400', tests: ['fault/bounds'] },
  MAX_SELECTOR_TERMS: { bound: 'terms in a selector', beyond: '400', tests: ['fault/bounds'] },
  MAX_SELECTED_FIELDS: { bound: 'selected fields', beyond: '400', tests: ['fuzz/parsers'] },
  MAX_PAGE_TOKEN_LENGTH: { bound: 'length of a page token', beyond: '400', tests: ['fuzz/parsers'] },
  MAX_STRIP_LENGTH: {
    bound: 'length of all rules of strip',
    beyond: 'the server does not start; rules of an upstream beyond it are ignored',
    tests: ['server/config/relations'],
  },
  MAX_JSON_DEPTH: {
    bound: 'nesting of a stored object, including managed fields',
    beyond: '400',
    tests: ['kubernetes/writes/object-store'],
  },
  MAX_ALIASED_VALUES: {
    bound: 'values that YAML aliases expand to',
    beyond: '400',
    tests: ['kubernetes/codec/json-tree'],
  },
  MAX_BODY_MESSAGES: {
    bound: 'messages in a protobuf body',
    beyond: '413',
    tests: ['kubernetes/writes/object-body'],
  },
  MAX_LOOP_BODY_BYTES: {
    bound: 'write body handled on the event loop',
    beyond: 'handled in a thread; 413 for the options of some deletes ([below](#notes))',
    metric: 'distributary_write_job_seconds',
    tests: ['kubernetes/writes/off-loop-writer'],
  },
  MAX_KNOWN_RESOURCES: {
    bound: 'resources that a write thread remembers',
    beyond: 'forgets all of them and relearns',
    metric: 'distributary_write_job_seconds',
    tests: ['kubernetes/writes/off-loop-writer'],
  },
  MAX_PATTERN_LENGTH: {
    bound: 'length of a pattern in a definition',
    beyond: '422',
    tests: ['kubernetes/writes/pattern'],
  },
  MAX_PROBLEMS: {
    bound: 'problems reported per object',
    beyond: 'only the first are reported',
    tests: ['kubernetes/writes/custom-schema'],
  },
  MAX_PATCH_OPERATIONS: { bound: 'operations in a JSON Patch', beyond: '413', tests: ['kubernetes/writes/patch'] },
  MAX_COPIED_BYTES: { bound: 'bytes copied by a JSON Patch', beyond: '422', tests: ['kubernetes/writes/patch'] },
  MAX_PATCH_WORK: {
    bound: 'values visited or shifted by a JSON Patch',
    beyond: '413',
    tests: ['kubernetes/writes/patch'],
  },
  MAX_ADDED_BYTES: {
    bound: 'defaults added to a custom resource; what the versions of a v1beta1 definition share',
    beyond: 'the object counts as unreadable; 413 for a write',
    metric: 'distributary_codec_unreadable_objects_total',
    tests: ['kubernetes/codec/read-rules', 'kubernetes/codec/versions'],
  },
  MAX_DEFINITION_VERSIONS: {
    bound: 'versions of a definition',
    beyond: '422; a stored definition is not served',
    tests: ['kubernetes/dialect/crd'],
  },
}

export const SUPPORT: FixedRows<typeof support> = {
  MAX_YAML_DEPTH: {
    bound: 'nesting of YAML, in bodies and in files',
    beyond: '400; a file is rejected',
    tests: ['support/yaml'],
  },
  MAX_ALIASES: { bound: 'aliases in one YAML text', beyond: '400; a file is rejected', tests: ['support/yaml'] },
}

export const ENGINE: FixedRows<typeof engine> = {
  STUCK_LIMIT_MS: {
    bound: 'how long a client may read nothing',
    beyond:
      "the connection is closed once the watcher has fallen out of the history; a stream of etcd's API with a watch on etcd, after 1 s more for every 64 KiB",
    metric: 'distributary_broadcast_watchers_ended_total',
    tests: ['engine/broadcast/dispatcher', 'etcd-api/etcd-api/forwarding'],
  },
  RETIRE_LIMIT_MS: {
    bound: 'time to deliver the last events of a resource that is no longer served',
    beyond: 'ends with an `ERROR`, 503',
    metric: 'distributary_broadcast_watchers_ended_total',
    tests: ['engine/broadcast/dispatcher'],
  },
  MIN_INITIAL_BYTES_PER_SECOND: {
    bound: 'minimum speed at which a client reads an initial state, after the first minute',
    value: `${inUnits('_BYTES', engine.MIN_INITIAL_BYTES_PER_SECOND)} a second`,
    beyond: 'the connection is closed',
    metric: 'distributary_broadcast_watchers_ended_total',
    tests: ['engine/broadcast/dispatcher'],
  },
  SLICE_BYTES: {
    bound: "bytes in one socket, beyond the kernel's buffer",
    beyond: 'the watcher waits until it drains',
    metric: 'distributary_broadcast_socket_bytes',
    tests: ['fault/bounds'],
  },
  REVISION_READ_GAP_MS: {
    bound: 'interval of etcd reads for watches from a future revision',
    beyond: 'watches wait for the next read',
    metric: 'distributary_broadcast_watchers_ended_total',
    tests: ['engine/broadcast/future-watchers'],
  },
  MAX_PATHS: {
    bound: 'selector labels and fields indexed per resource',
    beyond: 'read from each object every time',
    metric: 'distributary_broadcast_groups',
    tests: ['engine/broadcast/matcher', 'fault/bounds'],
  },
  MAX_PATHS_PER_IDENTITY: {
    bound: 'selector labels and fields indexed per identity, beyond those of kubelets and schedulers',
    beyond: 'read from each object every time',
    metric: 'distributary_broadcast_groups',
    tests: ['engine/broadcast/matcher'],
  },
  SHARED_ROWS_BYTES: {
    bound: 'indexed values of a resource that objects share',
    beyond: 'the object keeps its own copy',
    metric: 'process_resident_memory_bytes',
    tests: ['engine/broadcast/matcher'],
  },
  SHARED_ROW_BYTES: {
    bound: 'indexed values of an object that are shared',
    beyond: 'the object keeps its own copy',
    metric: 'process_resident_memory_bytes',
    tests: ['engine/broadcast/matcher'],
  },
  MAX_SHARD_NODES: {
    bound: 'index entries of a shard selector',
    beyond: 'coarser entries, so the selector is checked against more events',
    metric: 'distributary_broadcast_groups',
    tests: ['engine/broadcast/shard-index'],
  },
  MAX_HELD_BYTES: {
    bound: 'events held while two histories are compared',
    beyond: 'the watch restarts',
    metric: 'distributary_feed_reconnects_total',
    tests: ['engine/feed/feed'],
  },
  FIRST_PAGES_AT_ONCE: {
    bound: 'resources that read their first page from etcd at once',
    beyond: 'the others wait; longer lists also wait for one of eight slots',
    metric: 'distributary_feed_initialization_duration_seconds',
    tests: ['engine/feed/feed'],
  },
  LISTS_TOGETHER_MS: {
    bound: 'how long a finished list waits for the others, so that etcd reads its history once for all',
    beyond: 'its watch begins without them',
    metric: 'distributary_feed_initialization_duration_seconds',
    tests: ['engine/feed/feed'],
  },
  EARLIER_BYTES: {
    bound:
      'events, and values that they replaced, read back from an API server for one resource at a start; four resources are read at once',
    beyond: 'history reaches less far',
    metric: 'distributary_cache_floor_resource_version',
    tests: ['engine/feed/earlier-history'],
  },
  EARLIER_WAIT_MS: {
    bound: 'how long a watch from before the start waits until that history is read back',
    beyond: '410',
    metric: 'distributary_cache_read_wait_duration_seconds',
    tests: ['engine/cache/watch-cache'],
  },
  KEY_READS: {
    bound: 'objects being read from etcd for consistent gets, per cached resource',
    beyond: 'waits, at most 10 s, then 504',
    metric: 'distributary_etcd_request_duration_seconds',
    tests: ['engine/feed/upstream-freshness'],
  },
  MAX_UNWATCHED_PREFIXES: {
    bound: 'etcd prefixes that are read without being watched, and whose permissions are followed',
    beyond: 'a permission that is taken away from the prefix read first is not reported',
    metric: 'distributary_etcd_request_duration_seconds',
    tests: ['engine/upstream/etcd/readable-prefixes'],
  },
  MAX_SIZED_PREFIXES: {
    bound: 'etcd prefixes whose page size is remembered',
    beyond: 'the one read longest ago starts again with 100 keys',
    metric: 'distributary_etcd_request_duration_seconds',
    tests: ['engine/upstream/etcd/page-sizes'],
  },
}

export const FLEET: FixedRows<typeof fleet> = {
  WORKER_QUEUE_BYTES: {
    bound: 'bytes queued for a worker',
    beyond: 'the worker is replaced',
    metric: 'distributary_worker_queue_bytes',
    tests: ['fleet/workers/worker-link'],
  },
  WORKER_REQUESTS_AT_ONCE: {
    bound: "a worker's open requests to the primary, apart from those about limits",
    beyond: 'the others wait in the worker',
    tests: ['fleet/workers/worker-limits'],
  },
  NATS_QUEUE_BYTES: {
    bound: 'bytes queued for NATS',
    beyond: 'the session ends; the next one reads etcd',
    metric: 'distributary_fleet_publisher_queue_bytes',
    tests: ['fleet/stream/publisher'],
  },
  MOST_PUBLISHERS: {
    bound: 'publishers whose clocks a replica remembers',
    beyond: 'statuses of the oldest publishers are ignored',
    metric: 'process_resident_memory_bytes',
    tests: ['fleet/stream/confirmations'],
  },
  MOST_WAITING_STATUSES: {
    bound: 'statuses of publishers that wait for their messages',
    beyond: 'a new status replaces the one before it',
    metric: 'process_resident_memory_bytes',
    tests: ['fleet/stream/confirmations'],
  },
  SNAPSHOT_BYTES: {
    bound: 'bytes of a snapshot that a replica reads from NATS',
    beyond: 'the snapshot counts as corrupt',
    metric: 'distributary_fleet_snapshots_unusable_total',
    tests: ['fleet/nats/nats-bucket'],
  },
  PAGES_AT_ONCE: {
    bound: 'concurrent page reads of a publisher for edges',
    beyond: 'the others wait, up to 10 s',
    metric: 'process_resident_memory_bytes',
    tests: ['fleet/stream/remote-reader'],
  },
}

/** Limits that no number states. */
export const OTHER: readonly Fixed[] = [
  {
    bound: 'requested consistency checks',
    value: 'one at a time',
    beyond: "later requests get the running check's report",
    metric: 'distributary_consistency_checks_total',
    tests: ['integration/consistency-check'],
  },
]

const ETCD_API_REQUESTS = 'distributary_etcd_api_requests_total'
const ETCD_API_STREAMS = 'distributary_etcd_api_streams'

export const ETCD_API: FixedRows<typeof etcdApi> = {
  MAX_REQUEST_BYTES: {
    bound: "size of a request of etcd's API",
    beyond: '`request is too large`',
    metric: ETCD_API_REQUESTS,
    tests: ['etcd-api/etcd-api/limits'],
  },
  SMALL_REQUEST_BYTES: {
    bound: "size of a request of etcd's API that is received without a slot",
    beyond: 'takes a slot',
    limit: 'etcd-requests',
    tests: ['etcd-api/grpc-call'],
  },
  LARGE_REQUESTS_AT_ONCE: {
    bound: "larger requests of etcd's API that are received at once",
    beyond: 'waits for a fair turn, then `too many requests`',
    limit: 'etcd-requests',
    tests: ['etcd-api/etcd-api/limits'],
  },
  LARGE_REQUEST_MS: {
    bound: "time to send a larger request of etcd's API",
    beyond: '`request timed out`, and its slot is free again',
    metric: ETCD_API_REQUESTS,
    tests: ['etcd-api/grpc-call'],
  },
  MAX_TXN_DEPTH: {
    bound: 'depth of a transaction',
    beyond: '`too many operations in txn request`',
    metric: ETCD_API_REQUESTS,
    tests: ['etcd-api/access'],
  },
  MAX_TXN_OPERATIONS: {
    bound: 'compares and operations of a transaction',
    beyond: '`too many operations in txn request`',
    metric: ETCD_API_REQUESTS,
    tests: ['etcd-api/etcd-api/limits'],
  },
  MAX_CACHED_TXN_OPERATIONS: {
    bound: 'compares, or operations of a branch, in a transaction that the cache answers',
    beyond: 'forwarded to etcd',
    metric: 'distributary_etcd_api_forwarded_total',
    tests: ['etcd-api/read-transaction'],
  },
  MAX_CACHED_TXN_KEYS: {
    bound: 'keys that a transaction reads from the cache',
    beyond: 'forwarded to etcd',
    metric: 'distributary_etcd_api_forwarded_total',
    tests: ['etcd-api/read-transaction'],
  },
  MAX_SORTED_KEYS: {
    bound: 'keys of a range that is sorted by anything but the key',
    beyond: 'forwarded to etcd',
    metric: 'distributary_etcd_api_forwarded_total',
    tests: ['etcd-api/etcd-api/limits'],
  },
  MAX_RIGHTS: {
    bound: 'different permissions that a transaction needs, and leases that it attaches keys to',
    beyond: '`too many operations in txn request`',
    metric: ETCD_API_REQUESTS,
    tests: ['etcd-api/etcd-api/limits', 'etcd-api/etcd-api/forwarding'],
  },
  FORWARDED_AT_ONCE: {
    bound: "requests of etcd's API forwarded to etcd at once",
    beyond: 'waits for a fair turn, then `too many requests`',
    limit: 'etcd-forwarded',
    tests: ['etcd-api/etcd-api/limits'],
  },
  FORWARDED_WATCHES: {
    bound: "watches on etcd for clients of etcd's API whose keys are not cached",
    beyond: 'the watch is cancelled: `too many requests`',
    limit: 'etcd-watches',
    tests: ['etcd-api/etcd-api/limits'],
  },
  WATCH_ANSWER_MS: {
    bound: 'time for etcd to answer the create of such a watch',
    beyond: 'the stream ends: `request timed out`',
    metric: ETCD_API_REQUESTS,
    tests: ['etcd-api/etcd-api/forwarding'],
  },
  MAX_BRIDGES: {
    bound: 'watches on etcd from below the history, per prefix',
    beyond: 'further watches wait for one of them to end',
    metric: 'distributary_etcd_api_watches',
    tests: ['etcd-api/watch/watch-stream'],
  },
  MAX_STREAMS_PER_CONNECTION: {
    bound: "streams per HTTP/2 connection of a known client of etcd's API, if that is more than others may have",
    beyond: 'refused by the protocol',
    metric: ETCD_API_STREAMS,
    tests: ['etcd-api/etcd-api/limits'],
  },
  MAX_STREAMS: {
    bound: "streams of watches and keepalives of etcd's API; a quarter for one client, if identities are known",
    beyond: '`too many requests`',
    limit: 'etcd-streams',
    tests: ['etcd-api/etcd-api/streams'],
  },
  LARGE_RESPONSE_MS: {
    bound: "time to take a large response of etcd's API",
    value: `${inUnits('_MS', etcdApi.LARGE_RESPONSE_MS)}, and what it takes at ${inUnits('_BYTES', engine.MIN_INITIAL_BYTES_PER_SECOND)} a second`,
    beyond: 'the stream is reset, and its slot among distinct lists, or writes, is free again',
    metric: ETCD_API_REQUESTS,
    tests: ['etcd-api/grpc-call'],
  },
  MAX_WATCHES_PER_STREAM: {
    bound: "watches per stream of etcd's API",
    beyond: 'the watch is cancelled: `too many requests`',
    metric: 'distributary_etcd_api_watches',
    tests: ['etcd-api/etcd-api/limits'],
  },
  MAX_WAITING_REQUESTS: {
    bound: "requests of a stream of etcd's API that wait for the one before, or for etcd's answer",
    beyond: 'the stream is not read',
    metric: ETCD_API_STREAMS,
    tests: ['etcd-api/etcd-api/limits', 'etcd-api/keep-alive-stream'],
  },
  MAX_LEASES: {
    bound: "leases granted to one client of etcd's API",
    beyond: '`too many requests`',
    metric: ETCD_API_REQUESTS,
    tests: ['etcd-api/write-rights'],
  },
}
