/**
 * Client limits that apply to the whole server. A single process counts for itself. With several processes, the primary
 * counts for all workers, and a worker uses its equal share of a limit only while the primary does not answer.
 */
import { unknownTokenSemaphore } from '../auth/authn/token-review.js'
import { trustedProxies } from '../auth/client-address.js'
import { FairSemaphore, type FairSemaphoreBounds, type FairSemaphoreOptions } from '../auth/fair-semaphore.js'
import { IdentityRateLimits } from '../auth/identity-rate-limits.js'
import type { Config } from '../config/load.js'
import { hasAuthenticator } from '../config/relations.js'
import type { Limit } from '../../engine/model/limit.js'
import type { CountedRates, IdentitySemaphores, SharedLimits } from '../../engine/model/shared-limits.js'
import { RapidResets } from '../transports/limits/rapid-resets.js'
import type { Basis } from './basis.js'

type LimitsBasis = Pick<Basis, 'config' | 'live' | 'clock' | 'metrics'>

/** The number of writes at once: as many as an API server allows by default (`--max-mutating-requests-inflight`). */
const MAX_WRITES = 200
/** Each status page costs a connection, even in a forgotten tab. */
const MAX_PAGES = 50
/** How long a client may wait for its slot. The API server lets a read wait this long for its state. */
export const SEMAPHORE_WAIT_MS = 3_000
/**
 * How long a large list or an initial state may wait for its slot. The API server queues a request for this long. After
 * the server has had to relist, all agents of a cluster list at once. They are served sooner if they wait than if they
 * retry after a 429.
 */
const STATE_WAIT_MS = 15_000
/**
 * The number of requests that may wait for each slot. A waiting request holds only its connection. One identity may
 * have half of the waiting requests, which is enough for a DaemonSet of 500 nodes with four watches each.
 */
const WAITING_PER_SLOT = 64

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
  readonly rates: Pick<CountedRates, 'countRequest' | 'spendInitialBytes'>
}

/** Whether the server authenticates no one and allows everything. */
export function isOpenToAll(config: Config): boolean {
  return !hasAuthenticator(config) && config.authorizationMode.every((mode) => mode === 'AlwaysAllow')
}

export function openClientLimits(basis: LimitsBasis, shared: SharedLimits): ClientLimits {
  let notify: ReturnType<SharedLimits['resets']> | null = null
  const own = countedLimits(basis, shared.processes, { onCounted: (network, resets) => notify?.(network, resets) })
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
  basis: LimitsBasis,
  processes: number,
  onResets: Pick<ConstructorParameters<typeof RapidResets>[0], 'onCounted' | 'onSuspected'>,
): OwnLimits {
  const { config, live, clock, metrics } = basis
  const share = (most: number): number => Math.ceil(most / processes)
  const states = {
    boundsOf: ({ maxInitialStates }: Config) => withQueue(config, share(maxInitialStates)),
    maxWaitMs: STATE_WAIT_MS,
  }
  const watcherBounds = ({ maxWatchers, maxWatchersPerClient }: Config): FairSemaphoreBounds =>
    withoutQueue(share(maxWatchers), share(maxWatchersPerClient))
  return {
    semaphores: {
      watchers: openSemaphore(basis, 'watchers', {
        boundsOf: watcherBounds,
        message: (full) => {
          const { slots, maxSlotsPerIdentity } = watcherBounds(live.current)
          const most = full === 'all' ? `${slots} watchers in all` : `${maxSlotsPerIdentity} watchers of one client`
          return `too many watchers: the limit is ${most}`
        },
        retryAfterSeconds: 5,
        onRejected: (full) =>
          full === 'all' ? metrics.requests.rejected('watchers') : metrics.requests.rejected('watchers-per-client'),
      }),
      lists: openSemaphore(basis, 'lists', states),
      'initial-states': openSemaphore(basis, 'initial-states', states),
      writes: openSemaphore(basis, 'writes', { boundsOf: () => withQueue(config, share(MAX_WRITES)) }),
      // The URL of a server is the identity here, so each server behind this one has its own number of slots. Requests
      // do not wait for them.
      passthrough: openSemaphore(basis, 'passthrough', {
        boundsOf: ({ passthroughMaxRequests }) => withoutQueue(Number.POSITIVE_INFINITY, share(passthroughMaxRequests)),
        message: 'too many concurrent requests to the server behind this one (--passthrough-max-requests)',
      }),
      'status-pages': openSemaphore(basis, 'status-pages', {
        boundsOf: () => withoutQueue(share(MAX_PAGES)),
        message: 'too many status pages are open',
      }),
      'unknown-tokens': unknownTokenSemaphore(clock, processes),
    },
    rates: new IdentityRateLimits({
      clock,
      requestsPerSecond: () => Math.max(1, live.current.requestsPerSecond / processes),
      initialBytesPerSecond: () => {
        const { initialBytesPerSecond } = live.current
        return initialBytesPerSecond === null ? null : initialBytesPerSecond / processes
      },
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

interface SemaphoreOptions extends Partial<FairSemaphoreOptions> {
  /** Returns the bounds, also after each change of the configuration. */
  readonly boundsOf: (config: Config) => FairSemaphoreBounds
}

export function openSemaphore(
  { live, clock, metrics }: LimitsBasis,
  limit: Limit,
  { boundsOf, ...options }: SemaphoreOptions,
): FairSemaphore {
  const semaphore = new FairSemaphore({
    ...boundsOf(live.current),
    maxWaitMs: SEMAPHORE_WAIT_MS,
    clock,
    onRejected: () => metrics.requests.rejected(limit),
    ...options,
  })
  live.onChange((changed) => semaphore.setBounds(boundsOf(changed)))
  return semaphore
}

export function withoutQueue(slots: number, maxSlotsPerIdentity = slots): FairSemaphoreBounds {
  return { slots, maxSlotsPerIdentity, maxWaiting: 0, maxWaitingPerIdentity: 0 }
}

/**
 * Without authentication, one identity may have all slots, because thousands of clients may be behind one proxy or NAT.
 */
export function withQueue(config: Config, slots: number): FairSemaphoreBounds {
  const isShared = isOpenToAll(config)
  const maxWaiting = WAITING_PER_SLOT * slots
  return {
    slots,
    maxWaiting,
    maxSlotsPerIdentity: isShared ? slots : Math.max(1, Math.floor((slots * 3) / 4)),
    maxWaitingPerIdentity: isShared ? maxWaiting : maxWaiting / 2,
  }
}
