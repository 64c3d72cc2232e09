/**
 * Client limits that apply to the whole server. A single process counts for itself. With several processes, the primary
 * counts for all workers, and a worker uses its equal share of a limit only while the primary does not answer.
 */
import { unknownTokenSemaphore } from '../auth/authn/token-review.js'
import { trustedProxies } from '../auth/client-address.js'
import {
  FairSemaphore,
  type FairSemaphoreBounds,
  type FairSemaphoreOptions,
  type Full,
} from '../limits/fair-semaphore.js'
import { IdentityRateLimits } from '../limits/identity-rate-limits.js'
import type { Config } from '../config/load.js'
import { hasAuthenticator } from '../config/relations.js'
import type { Limit } from '../limits/limit.js'
import type { CountedRates, IdentitySemaphores, Rates, SharedLimits } from '../../engine/model/shared-limits.js'
import { RapidResets } from '../transports/limits/rapid-resets.js'
import type { ServerDeps } from './server-deps.js'
import { FORWARDED_AT_ONCE, FORWARDED_WATCHES, LARGE_REQUESTS_AT_ONCE, MAX_STREAMS } from '../../etcd-api/limits.js'
import { memoryTargetOf } from './memory-target.js'
import {
  MAX_STATUS_PAGES,
  MAX_WRITES,
  MEMORY_TURNS,
  PAST_STATES,
  WAITING_PER_SLOT,
  WRITE_THREADS,
} from '../limits/fixed-limits.js'

type LimitsDeps = Pick<ServerDeps, 'config' | 'live' | 'clock' | 'metrics'>

/** How long a client may wait for its slot. The API server lets a read wait this long for its state. */
export const SEMAPHORE_WAIT_MS = 3_000
/**
 * How long a large list or an initial state may wait for its slot. The API server queues a request for this long. After
 * a relist, all agents of a cluster list at once, and waiting serves them sooner than retries after a 429.
 */
const STATE_WAIT_MS = 15_000

/** Below this memory target, one write thread: two could take half of it. */
const MIN_TARGET_OF_WRITE_THREADS = 1.125 * 2 ** 30

/** A limit on how many requests of a kind are in progress. */
interface SlotLimit extends Pick<FairSemaphoreOptions, 'retryAfterSeconds'> {
  /** The message of the 429, which names the kind. */
  readonly message: NonNullable<FairSemaphoreOptions['message']>
  readonly slots: (config: Config) => number
  /** How many of the slots one identity may hold. Default: see `boundsOfSlots`. */
  readonly perIdentity?: (config: Config) => number
  /** How long a request may wait for a slot. 0: it does not wait. Default: `SEMAPHORE_WAIT_MS`. */
  readonly waitMs?: number
  /** The limit under which a rejection is counted. Default: the row's own name. */
  readonly countedAs?: (full: Full) => Limit
}

const STATES: SlotLimit = {
  slots: ({ maxInitialStates }) => maxInitialStates,
  waitMs: STATE_WAIT_MS,
  message: 'too many lists and initial states are being sent',
}

const SLOT_LIMITS = {
  watchers: {
    slots: ({ maxWatchers }) => maxWatchers,
    perIdentity: ({ maxWatchersPerClient }) => maxWatchersPerClient,
    waitMs: 0,
    message: (full, { slots, maxSlotsPerIdentity }) =>
      full === 'all'
        ? `too many watchers: the limit is ${slots} watchers in all`
        : `too many watchers: the limit is ${maxSlotsPerIdentity} watchers of one client`,
    retryAfterSeconds: 5,
    countedAs: (full) => (full === 'all' ? 'watchers' : 'watchers-per-client'),
  },
  lists: STATES,
  'initial-states': STATES,
  writes: { slots: () => MAX_WRITES, message: 'too many writes are in progress' },
  // The URL of a server is the identity here, so each server behind this one has its own number of slots.
  passthrough: {
    slots: () => Number.POSITIVE_INFINITY,
    perIdentity: ({ passthroughMaxRequests }) => passthroughMaxRequests,
    waitMs: 0,
    message: 'too many concurrent requests to the server behind this one (passthroughMaxRequests)',
  },
  // The identity is the URL and the caller, so that no caller holds all slots of a server.
  'passthrough-per-client': {
    slots: () => Number.POSITIVE_INFINITY,
    perIdentity: (config) =>
      isOpenToAll(config) ? config.passthroughMaxRequests : Math.ceil((config.passthroughMaxRequests * 3) / 4),
    waitMs: 0,
    message: 'too many concurrent requests of one client to the server behind this one (3/4 of passthroughMaxRequests)',
  },
  'status-pages': { slots: () => MAX_STATUS_PAGES, waitMs: 0, message: 'too many status pages are open' },
  memory: { slots: () => MEMORY_TURNS, message: 'too many requests wait, because memory is short' },
  'past-states': { slots: () => PAST_STATES, message: 'too many past states are being rebuilt' },
  'etcd-requests': { slots: () => LARGE_REQUESTS_AT_ONCE, message: 'too many large requests are being received' },
  'etcd-forwarded': { slots: () => FORWARDED_AT_ONCE, message: 'too many requests are being forwarded to etcd' },
  'etcd-watches': {
    slots: () => FORWARDED_WATCHES,
    perIdentity: (config) => (isOpenToAll(config) ? FORWARDED_WATCHES : FORWARDED_WATCHES / 4),
    waitMs: 0,
    message: 'too many watches are being forwarded to etcd',
  },
  'etcd-streams': {
    slots: () => MAX_STREAMS,
    perIdentity: (config) => (isOpenToAll(config) ? MAX_STREAMS : MAX_STREAMS / 4),
    waitMs: 0,
    message: 'too many streams of the etcd API are open',
  },
  'write-threads': {
    slots: (config) => ((memoryTargetOf(config) ?? Infinity) < MIN_TARGET_OF_WRITE_THREADS ? 1 : WRITE_THREADS),
    message: 'too many writes of large or custom objects are in progress',
  },
} as const satisfies Partial<Record<Limit, SlotLimit>>

type SlotLimitName = keyof typeof SLOT_LIMITS

/** The counters of one process. */
export interface OwnLimits {
  readonly semaphores: IdentitySemaphores
  readonly rates: CountedRates
  readonly resets: RapidResets
}

/** The limits on the clients of one process. */
export interface ClientLimits extends Pick<OwnLimits, 'resets'> {
  readonly semaphores: IdentitySemaphores
  /** The process's own counts, or the primary's. */
  readonly rates: Rates
}

/** Whether the server authenticates no one and allows everything. */
export function isOpenToAll(config: Config): boolean {
  return !hasAuthenticator(config) && config.authorizationMode.every((mode) => mode === 'AlwaysAllow')
}

export function openClientLimits(deps: LimitsDeps, shared: SharedLimits): ClientLimits {
  let notify: ReturnType<SharedLimits['resets']> | null = null
  const own = countedLimits(deps, shared.processes, { onCounted: (network, resets) => notify?.(network, resets) })
  notify = shared.resets(own.resets)
  const { resets, rates, semaphores } = own
  const sharedSemaphores = Object.fromEntries(
    Object.entries(semaphores).map(([name, semaphore]) => [
      name,
      shared.semaphore(name as keyof IdentitySemaphores, semaphore),
    ]),
  ) as unknown as IdentitySemaphores
  return { resets, rates: shared.rates(rates), semaphores: sharedSemaphores }
}

/**
 * @param processes the number of processes that share the limits; 1 in the process that counts for all.
 * @param onResets receives the counted resets.
 */
export function countedLimits(
  deps: LimitsDeps,
  processes: number,
  onResets: Pick<ConstructorParameters<typeof RapidResets>[0], 'onCounted' | 'onSuspected'>,
): OwnLimits {
  const { config, live, clock, metrics } = deps
  const semaphore = (name: SlotLimitName): FairSemaphore => openSemaphore(deps, name, processes)
  return {
    semaphores: {
      watchers: semaphore('watchers'),
      lists: semaphore('lists'),
      'initial-states': semaphore('initial-states'),
      writes: semaphore('writes'),
      passthrough: semaphore('passthrough'),
      'passthrough-per-client': semaphore('passthrough-per-client'),
      'status-pages': semaphore('status-pages'),
      'unknown-tokens': unknownTokenSemaphore(clock, processes),
    },
    rates: new IdentityRateLimits({
      clock,
      requestsPerSecond: () => Math.max(1, live.current.requestsPerSecond / processes),
    }),
    // Each worker counts with the whole allowance, because an attack from one address is a single attack however many
    // workers it reaches.
    resets: new RapidResets({
      ...onResets,
      clock,
      proxies: trustedProxies(config.trustedProxies),
      onRejected: () => metrics.requests.rejected('resets'),
    }),
  }
}

/** @param processes the number of processes that share the slots. */
export function openSemaphore({ live, clock, metrics }: LimitsDeps, name: SlotLimitName, processes = 1): FairSemaphore {
  const {
    slots,
    perIdentity,
    waitMs = SEMAPHORE_WAIT_MS,
    countedAs = () => name,
    ...rest
  }: SlotLimit = SLOT_LIMITS[name]
  const share = (most: number): number => Math.ceil(most / processes)
  const boundsOf = (config: Config): FairSemaphoreBounds => {
    const bounds = boundsOfSlots(share(slots(config)), waitMs, isOpenToAll(config))
    return perIdentity === undefined ? bounds : { ...bounds, maxSlotsPerIdentity: share(perIdentity(config)) }
  }
  const semaphore = new FairSemaphore({
    ...boundsOf(live.current),
    ...rest,
    maxWaitMs: waitMs,
    clock,
    onRejected: (full) => metrics.requests.rejected(countedAs(full)),
  })
  live.onChange((changed) => semaphore.setBounds(boundsOf(changed)))
  return semaphore
}

/**
 * Without authentication, one identity may have all slots, because thousands of clients may be behind one proxy or NAT.
 * The same holds for slots for which no request waits.
 */
function boundsOfSlots(slots: number, waitMs: number, isShared: boolean): FairSemaphoreBounds {
  if (waitMs === 0) return { slots, maxSlotsPerIdentity: slots, maxWaiting: 0, maxWaitingPerIdentity: 0 }
  const maxWaiting = WAITING_PER_SLOT * slots
  return {
    slots,
    maxWaiting,
    maxSlotsPerIdentity: isShared ? slots : Math.max(1, Math.floor((slots * 3) / 4)),
    maxWaitingPerIdentity: isShared ? maxWaiting : maxWaiting / 2,
  }
}
