/** Options that limit what one client and one process may use. */
import { bytes, integer, list } from '../option.js'
import { addressRange } from './values.js'
import { MiB, GiB } from './units.js'

export const limitsOptions = {
  maxWatchers: integer({
    default: 50_000,
    min: 1,
    max: 10_000_000,
    unit: 'watches',
    doc: 'Maximum number of watches, over all --workers; further watches get 429. Allow 12 KB of memory for each, 45 KB over TLS.',
  }),
  maxWatchersPerClient: integer({
    default: 20_000,
    min: 1,
    max: 10_000_000,
    unit: 'watches',
    doc: 'Maximum number of watches of one identity, or of one address if the server does not authenticate callers; further watches get 429.',
  }),
  maxInitialStates: integer({
    default: 64,
    min: 1,
    max: 100_000,
    unit: 'responses',
    doc: 'Maximum number of large lists and initial states being sent at once. Further ones wait, with identities taking turns, and then get 429.',
  }),
  listCacheBytes: bytes({
    default: 64 * MiB,
    min: 0,
    max: 64 * GiB,
    isFileOnly: true,
    doc: 'Memory for encoded lists that clients with equal requests share. With 0 the server encodes each list again.',
  }),
  memoryTarget: bytes({
    default: null,
    min: 128 * MiB,
    max: 1_024 * GiB,
    doc: 'Resident memory above which new lists and watches take turns; from 105% of it they get 429, and above 85% of it the caches shrink. The processes of --workers get equal shares. Set it below the container limit. Default: 85% of the container limit; none without such a limit.',
  }),
  requestsPerSecond: integer({
    default: 400,
    min: 1,
    max: 1_000_000,
    unit: 'requests/s',
    doc: 'Sustained request rate of one identity; bursts may be ten times as large. Further requests get 429 with Retry-After.',
  }),
  trustedProxies: list({
    default: [],
    parseItem: addressRange,
    doc: 'Addresses or ranges (10.0.0.0/8) whose X-Forwarded-For headers the server trusts. It ignores the header from other addresses.',
  }),
} as const
