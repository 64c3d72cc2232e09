/** Calls functions of the user that are only notified. Their errors must not look like a failed request, or end a loop. */
import type { Logger } from '../../support/log.js'

/** Logs an error of the call, also if its promise rejects; to the console if there is no logger. */
export function notifyUser(name: string, logger: Pick<Logger, 'error'> | undefined, call: () => unknown): void {
  const failed = (err: unknown): void => (logger ?? console).error({ err }, `${name} failed`)
  try {
    const called = call()
    if (called instanceof Promise) called.catch(failed)
  } catch (error) {
    failed(error)
  }
}
