/**
 * Runs what a handler waits for, asks again, and only then lets the handler answer. While it waits, a handler has an
 * exchange with which it cannot answer, so none can forget to ask again.
 */
import type { Confirmable } from '../gate/caller.js'
import { afterWait } from '../gate/after-wait.js'
import type { Exchange } from '../exchange/exchange.js'

/** The exchange of a request that may no longer be allowed. */
export type PendingExchange = Omit<
  Exchange,
  'response' | 'writeHead' | 'send' | 'end' | 'sendTagged' | 'sendNotModified' | 'fail' | 'breakOff'
>

export interface PendingRequest {
  readonly exchange: PendingExchange
  readonly caller: Confirmable
  readonly verb: string
  /** The resource that is read; absent for a write. */
  readonly live?: { readonly cache: { readonly readiness: { assertReadable(isWhole: boolean): void } } }
}

/**
 * @param refused releases what the wait has acquired, if the request is no longer allowed.
 * @throws UnauthorizedError, ForbiddenError when the caller has lost its permission; StatusError when the resource
 * cannot be read, or no longer; whatever `wait` throws
 */
export async function waitFor<T>(
  { caller, verb, live }: PendingRequest,
  wait: () => T | Promise<T>,
  refused?: (waited: T) => void,
): Promise<T> {
  // A get or a list checks the part that it reads.
  const assertReadable = (): void => live?.cache.readiness.assertReadable(verb === 'watch')
  assertReadable()
  const confirm = async (): Promise<void> => {
    await caller.confirm()
    // The wait may have been for a value that turned out to be unreadable.
    assertReadable()
  }
  return await afterWait({ confirm }, wait, refused)
}

/**
 * Answers after a wait: see `waitFor`.
 * @param answer does not wait for anything before it answers, except in an `answerAfter` of its own.
 */
export async function answerAfter<T>(
  request: PendingRequest,
  wait: () => T | Promise<T>,
  answer: (exchange: Exchange, waited: T) => void | Promise<void>,
  refused?: (waited: T) => void,
): Promise<void> {
  const waited = await waitFor(request, wait, refused)
  await answer(request.exchange as Exchange, waited)
}
