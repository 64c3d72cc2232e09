/** What is served and cached, and how long history and watches last. */
import { boolean, bytes, choice, duration, file, integer, list } from '../option.js'
import { watchCacheSize } from './values.js'
import { SECOND, MINUTE, HOUR, MiB, GiB } from './units.js'

export const watchingOptions = {
  // ── Resources ──────────────────────────────────────────────────────────────────────────────────────────────────────
  resource: list({
    flag: '--resource',
    group: 'Resources',
    default: [],
    commas: false,
    parseItem: (text) => text,
    doc: '"secrets" adds a known resource that is off by default; "flags=/config/flags/" serves an etcd prefix. Repeatable. The YAML key resources takes more detail.',
  }),
  protoDescriptors: file({
    flag: '--proto-descriptors',
    group: 'Resources',
    doc: 'FileDescriptorSet with the kinds of your own that are stored as protobuf. Without it those can be had as protobuf only.',
  }),

  // ── Watch cache ────────────────────────────────────────────────────────────────────────────────────────────────────
  watchCache: boolean({
    flag: '--watch-cache',
    group: 'Watch cache',
    default: true,
    doc: 'Off: every list is read from etcd and every watch is a watch on etcd, which is what this server is there to avoid.',
  }),
  watchCacheSizes: list({
    flag: '--watch-cache-sizes',
    group: 'Watch cache',
    default: [],
    parseItem: watchCacheSize,
    doc: 'Per resource, "pods#50000,deployments.apps#0": batches of history kept; 0 turns the cache of that resource off.',
  }),
  defaultWatchCacheSize: integer({
    flag: '--default-watch-cache-size',
    group: 'Watch cache',
    default: 8_192,
    min: 64,
    max: 1_048_576,
    unit: 'batches',
    doc: 'Batches of history kept per resource. Too few turn a short disconnect into a relist.',
  }),
  watchCacheBytes: bytes({
    flag: '--watch-cache-bytes',
    group: 'Watch cache',
    default: 64 * MiB,
    min: MiB,
    max: 64 * GiB,
    doc: 'Most memory for the history of one resource, encoded frames included. Too little turns a short disconnect into a relist.',
  }),
  watchCacheAge: duration({
    flag: '--watch-cache-age',
    group: 'Watch cache',
    default: HOUR,
    min: 10 * SECOND,
    max: 168 * HOUR,
    doc: 'Oldest history kept. Must outlast two bookmark intervals, or an idle client cannot resume.',
  }),
  backfillRevisions: integer({
    flag: '--backfill-revisions',
    group: 'Watch cache',
    default: 10_000,
    min: 0,
    max: 1_000_000,
    unit: 'revisions',
    doc: 'History read back from etcd at start, so that clients resume across our restart. Much of it is dear for etcd; 0 makes all relist.',
  }),
  onGap: choice({
    flag: '--on-gap',
    group: 'Watch cache',
    choices: ['expire', 'coalesce'],
    default: 'expire',
    doc: 'When etcd has compacted past us: end the watches with 410 as the API server would, or send the difference and stay connected.',
  }),

  // ── Watches ────────────────────────────────────────────────────────────────────────────────────────────────────────
  minRequestTimeout: duration({
    flag: '--min-request-timeout',
    group: 'Watches',
    default: 30 * MINUTE,
    min: SECOND,
    max: 24 * HOUR,
    doc: 'A watch that asks for no timeout ends after a random time between this and twice this. Short means many reconnects.',
  }),
  bookmarkInterval: duration({
    flag: '--bookmark-interval',
    group: 'Watches',
    default: MINUTE,
    min: SECOND,
    max: 10 * MINUTE,
    doc: 'How often a quiet watch is told how far it has come. Seldom means long replays on resume.',
  }),
  requestTimeout: duration({
    flag: '--request-timeout',
    group: 'Watches',
    default: MINUTE,
    min: SECOND,
    max: 10 * MINUTE,
    doc: 'Most time for a request that is not a watch.',
  }),
  shutdownGracePeriod: duration({
    flag: '--shutdown-grace-period',
    group: 'Watches',
    default: 30 * SECOND,
    min: SECOND,
    max: 10 * MINUTE,
    doc: 'Most time from SIGTERM to exit. Keep it below what the platform allows before it kills.',
  }),
  shutdownWatchTerminationGracePeriod: duration({
    flag: '--shutdown-watch-termination-grace-period',
    group: 'Watches',
    default: 10 * SECOND,
    min: 0,
    max: 10 * MINUTE,
    doc: 'Over this time after SIGTERM the running watches are ended one by one, so that clients do not all come back at once.',
  }),
} as const
