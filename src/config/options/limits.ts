/** What one client and one process may use. */
import { bytes, integer, list } from '../option.js'
import { addressRange } from './values.js'
import { MiB, GiB } from './units.js'

export const limitsOptions = {
  maxWatchers: integer({
    flag: '--max-watchers',
    group: 'Limits',
    default: 50_000,
    min: 1,
    max: 10_000_000,
    unit: 'watches',
    doc: 'Running watches in one process; beyond it 429. Count 12 KB of memory for each, 45 KB over TLS.',
  }),
  maxWatchersPerClient: integer({
    flag: '--max-watchers-per-client',
    group: 'Limits',
    default: 20_000,
    min: 1,
    max: 10_000_000,
    unit: 'watches',
    doc: 'Running watches of one identity, or of one address where nobody authenticates; beyond it 429.',
  }),
  maxInitialStates: integer({
    flag: '--max-initial-states',
    group: 'Limits',
    default: 64,
    min: 1,
    max: 100_000,
    unit: 'responses',
    doc: 'Large lists and initial states on their way at one time; beyond it they wait their turn, fairly between identities, then 429.',
  }),
  listCacheBytes: bytes({
    flag: '--list-cache-bytes',
    group: 'Limits',
    default: 64 * MiB,
    min: 0,
    max: 64 * GiB,
    doc: 'Memory for encoded lists shared by clients that ask for the same. 0 encodes each anew.',
  }),
  memoryTarget: bytes({
    flag: '--memory-target',
    group: 'Limits',
    default: null,
    min: 128 * MiB,
    max: 1_024 * GiB,
    doc: 'Resident memory of a process at which new lists and watches are refused with 429; caches shrink from 85 % of it. Set it below the container limit. Default: none.',
  }),
  requestsPerSecond: integer({
    flag: '--requests-per-second',
    group: 'Limits',
    default: 400,
    min: 1,
    max: 1_000_000,
    unit: 'requests/s',
    doc: 'Sustained requests of one identity, with bursts of ten times that; beyond it 429 with Retry-After.',
  }),
  initialBytesPerSecond: bytes({
    flag: '--initial-bytes-per-second',
    group: 'Limits',
    default: null,
    min: 64 * 2 ** 10,
    max: 1_024 * GiB,
    doc: 'Bytes of lists and initial states sent to one identity each second. Default: none.',
  }),
  trustedProxies: list({
    flag: '--trusted-proxies',
    group: 'Limits',
    default: [],
    parseItem: addressRange,
    doc: 'Addresses or ranges (10.0.0.0/8) whose X-Forwarded-For is believed. From anyone else it is ignored.',
  }),
} as const
