/**
 * Repeats a request to NATS until one copy is answered. A stream that is changing its leader loses the requests sent to
 * it, and may have a leader again a moment later. The pauses grow, so that the copies do not overload a slow NATS. A
 * shorter timeout for each copy was rejected, because the responses of a slow NATS would then always come too late.
 */
import type { Clock } from '../../support/clock.js'
import { withDeadline } from '../../support/deadline.js'
import { BrokerError } from '../broker.js'
import { asBrokerError, isNoResponder, isNoResponse } from './nats-error.js'

export interface RetryOptions {
  readonly clock: Clock
  readonly signal?: AbortSignal
  /** Called each time a copy is sent after a second or more, and when no copy was answered. */
  readonly onNoResponse: () => void
}

/** A request that is not answered within this time has failed. */
export const RESPONSE_TIMEOUT_MS = 5_000
const AGAIN_MS = 1_000
/** The pause after NATS has reported that nothing listens for the request. */
const NOBODY_AGAIN_MS = 200

/**
 * @param send sends a copy; resolves to null if the response to this copy says nothing about the other copies.
 * @throws BrokerError; the signal's reason when it aborts.
 */
export async function retryRequest<T>(
  send: () => Promise<T | null>,
  { clock, signal, onNoResponse }: RetryOptions,
): Promise<T> {
  let reason = `no answer within ${RESPONSE_TIMEOUT_MS} ms`
  let isOver = false
  let cancel = (): void => {}
  const late = (): Error => {
    onNoResponse()
    return new BrokerError('unavailable', reason)
  }
  const sentMs = clock.monotonic()
  const responded = (): Promise<T> =>
    new Promise((resolve, reject) => {
      const sendIn = (delayMs: number, gapMs: number): void => {
        cancel()
        const timer = clock.setTimer(delayMs, () => {
          if (clock.monotonic() - sentMs >= AGAIN_MS) onNoResponse()
          sendNow(gapMs)
        })
        cancel = () => timer.cancel()
      }
      const sendNow = (gapMs: number): void => {
        sendIn(gapMs, gapMs * 2)
        send().then(
          (response) => response !== null && resolve(response),
          (error: unknown) => {
            if (isOver) return
            const failure = asBrokerError(error)
            if (isNoResponder(failure)) {
              reason = 'no stream accepts messages on this subject'
              sendIn(NOBODY_AGAIN_MS, gapMs)
            } else if (!isNoResponse(failure)) reject(failure)
          },
        )
      }
      sendNow(AGAIN_MS)
    })
  try {
    return await withDeadline(clock, RESPONSE_TIMEOUT_MS, signal, late, responded)
  } finally {
    isOver = true
    cancel()
  }
}
