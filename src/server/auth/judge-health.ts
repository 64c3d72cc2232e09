/**
 * Logs when a review server (an issuer, or an API server that authenticates or authorizes) fails. Callers get a 503
 * without details, and only the operator can fix the cause. While the failure lasts, at most one line a minute reports
 * it with its cause. Another line reports the recovery.
 */
import type { Ambient } from '../../support/ambient.js'
import type { Webhook } from '../metrics/request-metrics.js'
import { ServiceUnavailableError } from '../../kubernetes/model/status.js'
import { knownStatusOf } from '../../kubernetes/model/status-of.js'
import { errorMessage } from '../../support/error-message.js'

export interface JudgeHealthOptions extends Pick<Ambient, 'clock' | 'logger'> {
  readonly webhook: Webhook
}

const LOG_GAP_MS = 60_000
const MAX_REASONS = 5
/** A reason contains another server's response, which can be long. */
const MAX_REASON_CHARACTERS = 500

export class JudgeHealth {
  readonly webhook: Webhook
  /** The last failure; null after a success. */
  #failing: { readonly reason: string; readonly atMs: number } | null = null
  #loggedAtMs = -Infinity
  #isLogged = false
  /** Failures since the last log line. */
  #failures = 0

  constructor(private readonly options: JudgeHealthOptions) {
    this.webhook = options.webhook
  }

  /**
   * Why the last decision failed; null if it did not. It does not contain the server's response, because anyone may
   * read this text.
   */
  get problem(): string | null {
    if (this.#failing === null) return null
    const { reason, atMs } = this.#failing
    return `${reason} (${Math.round((this.options.clock.monotonic() - atMs) / 1000)} s ago)`
  }

  /** Records the outcome of judging one caller, and passes the outcome on. A refusal counts as a success. */
  async note<T>(judging: Promise<T>): Promise<T> {
    try {
      const judged = await judging
      this.#works()
      return judged
    } catch (error) {
      const known = knownStatusOf(error)
      if (known === null || known instanceof ServiceUnavailableError) this.#fails(error)
      else this.#works()
      throw error
    }
  }

  #works(): void {
    this.#failing = null
    if (!this.#isLogged) return
    this.#isLogged = false
    const { logger } = this.options
    logger.info({ webhook: this.webhook, failures: this.#failures }, 'the review server answers again')
    this.#failures = 0
  }

  #fails(error: unknown): void {
    const { clock, logger } = this.options
    const reasons = reasonsOf(error instanceof ServiceUnavailableError ? error.cause : error)
    this.#failing = { reason: reasons[0] ?? errorMessage(error), atMs: clock.monotonic() }
    this.#failures++
    if (clock.monotonic() - this.#loggedAtMs < LOG_GAP_MS) return
    this.#loggedAtMs = clock.monotonic()
    this.#isLogged = true
    const reason = reasons.join(': ').slice(0, MAX_REASON_CHARACTERS)
    logger.error(
      { webhook: this.webhook, reason, failures: this.#failures },
      'the review server fails; callers get 503',
    )
    this.#failures = 0
  }
}

/** Returns the messages of an error and of its causes. */
export function reasonsOf(error: unknown): readonly string[] {
  const reasons: string[] = []
  for (
    let at = error;
    at !== undefined && reasons.length < MAX_REASONS;
    at = at instanceof Error ? at.cause : undefined
  ) {
    reasons.push(errorMessage(at))
  }
  return reasons
}
