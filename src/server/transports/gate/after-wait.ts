/** The one place that asks again, after a wait, whether a request is still allowed. */
import type { Confirmable } from './caller.js'

/**
 * Waits for something on behalf of a request that the gate has admitted, and then asks again, because the caller may
 * have lost its permission in the meantime.
 * @param refused releases what the wait has acquired, if the request is no longer allowed.
 * @throws UnauthorizedError, ForbiddenError, ServiceUnavailableError, and whatever the wait throws
 */
export async function afterWait<T>(
  caller: Confirmable,
  wait: () => T | Promise<T>,
  refused: (waited: T) => void = () => {},
): Promise<T> {
  const waited = await wait()
  try {
    await caller.confirm()
  } catch (error) {
    refused(waited)
    throw error
  }
  return waited
}
