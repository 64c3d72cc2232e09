/**
 * The limits on clients, which hold for the whole server however many processes it has. A process of several asks the one that
 * counts for all of them (`fleet/workers/shared-limits.ts`); a process alone counts for itself.
 */

/** Slots that clients hold for as long as they use something. */
export interface IdentitySemaphore {
  /** The number of slots that clients of this process hold. */
  readonly running: number
  /** @returns a function that gives the slot back; null when none is free, or when that cannot be said at once. */
  tryAcquire(identity: string): (() => void) | null
  /**
   * @returns a function that gives the slot back.
   * @throws TooManyRequestsError; the signal's reason when it aborts.
   */
  acquire(identity: string, signal?: AbortSignal): Promise<() => void>
  /** Takes a slot that was granted elsewhere, whether one is free here or not. @returns a function that gives it back. */
  hold(identity: string): () => void
}

export const SEMAPHORE_NAMES = [
  'watchers',
  'lists',
  'initial-states',
  'writes',
  'passthrough',
  'status-pages',
  'unknown-tokens',
] as const
export type SemaphoreName = (typeof SEMAPHORE_NAMES)[number]
export type IdentitySemaphores = Readonly<Record<SemaphoreName, IdentitySemaphore>>

/** The rates of one identity, per second. */
export interface Rates {
  /** Counts a request. @throws TooManyRequestsError, at once or later. */
  countRequest(identity: string): void | Promise<void>
  /** Counts bytes of lists and initial states, which may go now. @returns the milliseconds to wait before sending more. */
  spendInitialBytes(identity: string, bytes: number): number
}

/** The rates as the process counts them that counts for all. */
export interface CountedRates extends Rates {
  /** Whether bytes are limited at all. */
  readonly limitsBytes: boolean
  /** Takes requests for a process. @returns how many it may make, at least one. @throws TooManyRequestsError */
  drawRequests(identity: string, draw: Draw): number
}

/** Requests that a process asks for at once. */
export interface Draw {
  /** The number that wait already. */
  readonly needed: number
  /** The number wanted for those to come; as many are granted as the identity's other processes can do without. */
  readonly spare: number
  /** The number granted before that were not used in time, and are given back. */
  readonly unused: number
}

/** The clients, by network or identity, that are suspect for a while. */
export interface Resets {
  /** Counts requests that clients of another process gave up at once. */
  countOf(client: string, resets: number): void
  suspect(client: string): void
}

/** How one process has its limits counted. */
export interface SharedLimits {
  /** The number of processes with clients. While a process has to decide alone, it grants its even share. */
  readonly processes: number
  /** @param own counts what this process holds, and decides alone with the share of one process. */
  semaphore(name: SemaphoreName, own: IdentitySemaphore): IdentitySemaphore
  rates(own: CountedRates): Rates
  /** @returns the function that reports resets counted here. */
  resets(own: Resets): (network: string, resets: number) => void
}

/** The limits of a process that is the whole server. */
export const UNSHARED: SharedLimits = {
  processes: 1,
  semaphore: (_name, own) => own,
  rates: (own) => own,
  resets: () => () => {},
}
