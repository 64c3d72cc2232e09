/**
 * Client limits that apply to the whole server however many processes it has. With several processes, each asks the one
 * that counts for all (`fleet/workers/primary-limits.ts`); a single process counts for itself.
 */

/** Slots that clients hold while they use something. */
export interface IdentitySemaphore {
  /** The number of slots held by clients of this process. */
  readonly running: number
  /**
   * @returns a function that releases the slot; null when none is free, or when finding out takes a message to another
   * process.
   */
  tryAcquire(identity: string): (() => void) | null
  /**
   * @returns a function that releases the slot.
   * @throws TooManyRequestsError; the signal's reason when it aborts.
   */
  acquire(identity: string, signal?: AbortSignal): Promise<() => void>
  /** Takes a slot that was granted elsewhere, even if none is free here. @returns a function that releases it. */
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
  /** Counts a request. @throws TooManyRequestsError, synchronously or later. */
  countRequest(identity: string): void | Promise<void>
  /**
   * Counts bytes of lists and initial states that are about to be sent. @returns milliseconds to wait before sending
   * more.
   */
  spendInitialBytes(identity: string, bytes: number): number
}

/** The rates in the process that counts for all. */
export interface CountedRates extends Rates {
  /** Whether there is a byte limit at all. */
  readonly limitsBytes: boolean
  /** Takes requests for another process. @returns how many it may make, at least one. @throws TooManyRequestsError */
  drawRequests(identity: string, draw: Draw): number
}

/** A number of requests that a process draws at once. */
export interface Draw {
  /** The number of requests already waiting. */
  readonly needed: number
  /** Requests wanted for later; granted as far as the identity's other processes can spare them. */
  readonly spare: number
  /** The number granted earlier that were not used in time and are returned. */
  readonly unused: number
}

/** Clients, by network or identity, that are suspect for a while. */
export interface Resets {
  /** Counts streams that clients of another process reset at once. */
  countOf(client: string, resets: number): void
  suspect(client: string): void
}

/** How a process counts its limits together with others. */
export interface SharedLimits {
  /** The number of processes with clients. A process that must decide alone grants its equal share. */
  readonly processes: number
  /** @param own counts what this process holds, and decides alone within one process's share. */
  semaphore(name: SemaphoreName, own: IdentitySemaphore): IdentitySemaphore
  rates(own: CountedRates): Rates
  /** @returns a function that reports resets counted here. */
  resets(own: Resets): (network: string, resets: number) => void
}

/** The limits of a single-process server. */
export const UNSHARED: SharedLimits = {
  processes: 1,
  semaphore: (_name, own) => own,
  rates: (own) => own,
  resets: () => () => {},
}
