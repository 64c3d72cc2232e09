/** The fixed limits of a fleet and of `--workers`; see `engine/model/limits.ts`. */

/** The bytes queued for one worker: enough for a worker that reads nothing during one second of a busy cluster (100,000 events of 1 KiB). */
export const WORKER_QUEUE_BYTES = 128 * 1024 * 1024
/** A worker's unanswered requests to the primary process; further ones wait in the worker. */
export const WORKER_REQUESTS_AT_ONCE = 256
/**
 * The bytes queued for NATS. If the queue grows beyond this, the session ends, and the next session reads from etcd what this one could not hold.
 */
export const NATS_QUEUE_BYTES = 64 * 2 ** 20
/** The most publishers whose clocks are remembered; statuses from forgotten publishers are ignored. */
export const MOST_PUBLISHERS = 64
/**
 * The most statuses that wait for their messages (one arrives each second). Beyond this limit, each new status replaces
 * the one before it.
 */
export const MOST_WAITING_STATUSES = 64
/**
 * The bytes of a snapshot that is read from NATS. No state of one resource is larger than etcd's own default quota, which is for all of them.
 */
export const SNAPSHOT_BYTES = 2 * 2 ** 30
/** The number of pages that a publisher reads and encodes at once, which limits the memory for many edges. */
export const PAGES_AT_ONCE = 8
