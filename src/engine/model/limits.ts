/**
 * The fixed limits of the engine. `docs/reference/limits.md` is generated from them and from `test/docs/limits.ts`, which says what
 * happens beyond each of them.
 */

/**
 * The server cuts off a peer that has read nothing for this long if the ring no longer holds its next events. Its full
 * socket could not even take an error.
 */
export const STUCK_LIMIT_MS = 30_000
/** When a resource is no longer served, its watchers have this long to receive their last events. */
export const RETIRE_LIMIT_MS = 60_000
/**
 * The slowest that a client may read an initial state: half a megabit per second on average. A slower reader could hold its
 * initial-state slot forever.
 */
export const MIN_INITIAL_BYTES_PER_SECOND = 64 * 1024
/** The bytes of one write to a watcher. Copying this much for one write takes about 20 µs, and a slow socket needs a while to send it. */
export const SLICE_BYTES = 128 * 1024
/** The gap between two reads of etcd's revision for watches from a future revision, however many of them arrive. */
export const REVISION_READ_GAP_MS = 200
/**
 * Paths of selectors that are indexed. The controllers of a busy cluster use about twenty paths. At this limit, an object with its own row takes 2 KB more.
 */
export const MAX_PATHS = 256
/** The paths of one identity, so that others have room. */
export const MAX_PATHS_PER_IDENTITY = MAX_PATHS / 4
/**
 * Byte budget for one resource's shared rows, enough for a few thousand nodes. Beyond it, the least recently used rows
 * are no longer shared with new objects.
 */
export const SHARED_ROWS_BYTES = 1024 * 1024
/** Rows longer than this are unlikely to be shared. */
export const SHARED_ROW_BYTES = 4 * 1024
/**
 * A shard that would need more nodes, because it has many scattered ranges, is entered with larger cells and so tried
 * more often.
 */
export const MAX_SHARD_NODES = 512
/**
 * Events held while two histories are compared. The buffer needs a bound because a comparison may take as long as a read, and any amount of data may arrive in that
 * time.
 */
export const MAX_HELD_BYTES = 64 * 1_048_576
/**
 * How many resources read their first page at once. With `FIRST_KEYS` of the largest values that etcd accepts, these
 * pages take about as much memory as eight lists.
 */
export const FIRST_PAGES_AT_ONCE = 64
/** The longest time that a finished list waits for the other lists. */
export const LISTS_TOGETHER_MS = 1_000
/**
 * The events, and the values that they replaced, that are read back for one resource from before the start, where an API server is the source. Beyond it,
 * history reaches less far. Four resources are read at once.
 */
export const EARLIER_BYTES = 8 * 1_048_576
/** How long a watch from before the start waits for that history. */
export const EARLIER_WAIT_MS = 20_000
/** How many objects of one resource are read from etcd at once, because some are larger than a megabyte. */
export const KEY_READS = 32
/** The prefixes whose permissions are followed although they are read without being watched. Another one takes the place of the one that was read first. */
export const MAX_UNWATCHED_PREFIXES = 100
/**
 * The prefixes whose page size is remembered. A configuration has hundreds at most; the limit is for callers that read
 * arbitrary prefixes.
 */
export const MAX_SIZED_PREFIXES = 1_000
