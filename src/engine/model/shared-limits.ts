/**
 * Client limits that apply to the whole server, however many processes it has. If there are several processes, one of
 * them counts for all, and the others ask it (`fleet/workers/primary-limits.ts`). A single process counts for itself.
 */

/** Slots that clients hold while they use something. */
export interface IdentitySemaphore {
  /** The number of slots held by clients of this process. */
  readonly running: number
  /**
   * @returns a function that releases the slot. null if no slot is free, or if another process would have to be asked
   * first.
   */
  tryAcquire(identity: string): (() => void) | null
  /**
   * @returns a function that releases the slot.
   * @throws BusyError; the signal's reason when it aborts.
   */
  acquire(identity: string, signal?: AbortSignal): Promise<() => void>
  /**
   * Takes a slot that another process has granted, even if no slot is free here.
   * @returns a function that releases the slot.
   */
  hold(identity: string): () => void
}

export const SEMAPHORE_NAMES = [
  'watchers',
  'lists',
  'initial-states',
  'writes',
  'passthrough',
  'passthrough-per-client',
  'status-pages',
  'unknown-tokens',
] as const
export type SemaphoreName = (typeof SEMAPHORE_NAMES)[number]
export type IdentitySemaphores = Readonly<Record<SemaphoreName, IdentitySemaphore>>

/** The request rate of each identity. */
export interface Rates {
  /** Counts a request. @throws BusyError, synchronously or by rejecting. */
  countRequest(identity: string): void | Promise<void>
}

/** The request rates in the process that counts for all. */
export interface CountedRates extends Rates {
  /**
   * Draws requests on behalf of another process.
   * @returns how many requests it may accept, at least one.
   * @throws BusyError
   */
  drawRequests(identity: string, draw: Draw): number
}

/** A number of requests that a process draws at once. */
export interface Draw {
  /** The number of requests already waiting. */
  readonly needed: number
  /**
   * The number of requests wanted for later. They are granted as far as the other processes that serve this identity
   * can spare them.
   */
  readonly spare: number
  /** The number of requests that were granted earlier, were not used in time, and are now returned. */
  readonly unused: number
}

/** Clients, identified by network or identity, that are suspect for a while. */
export interface Resets {
  /** Counts streams that clients of another process reset immediately. */
  countOf(client: string, resets: number): void
  suspect(client: string): void
}

/** How a process counts its limits together with others. */
export interface SharedLimits {
  /** The number of processes with clients. A process that must decide alone grants up to an equal share. */
  readonly processes: number
  /** @param own counts the slots of this process, and decides within its share when the process is on its own. */
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
