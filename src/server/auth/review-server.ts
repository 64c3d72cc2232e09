/**
 * Sends reviews of tokens or access to an API server. A refusal counts only if the server was known to be ready before
 * the request; an acceptance always counts.
 */
import { ServiceUnavailableError } from '../../kubernetes/model/status.js'
import { ApiServerReadiness } from '../../support/api-server-readiness.js'
import type { Clock } from '../../support/clock.js'
import { field } from '../../support/fields.js'
import { type JsonClient, type JsonResponse, refusal } from './https-json.js'
import type { JudgeHealth } from './judge-health.js'

export interface ReviewServerOptions {
  readonly client: Pick<JsonClient, 'get' | 'post' | 'close' | 'connections'>
  readonly clock: Clock
  /** Records the outcome of each review. Default: none. */
  readonly health?: Pick<JudgeHealth, 'note'>
}

interface Review {
  readonly kind: keyof typeof SUBJECTS
  /** Whether a status accepts the token or the access; null if the status does not say. */
  readonly accepts: (status: unknown) => boolean | null
}

const SUBJECTS = { TokenReview: 'authentication', SubjectAccessReview: 'authorization' } as const

export class ReviewServer {
  readonly #readiness: ApiServerReadiness

  constructor(private readonly options: ReviewServerOptions & Review) {
    const { client, clock } = options
    this.#readiness = new ApiServerReadiness({
      connections: client.connections,
      readyz: async () => (await client.get('/readyz')).status,
      clock,
    })
  }

  /** @param read gets the review's status. @throws ServiceUnavailableError without a response; any error of `read`. */
  async review<T>(spec: object, read: (status: unknown, isAccepted: boolean) => T): Promise<T> {
    const reviewing = this.#review(spec, read)
    return await (this.options.health?.note(reviewing) ?? reviewing)
  }

  close(): void {
    this.options.client.close()
  }

  /** Returns the error for when no review is possible. */
  unavailable(cause: unknown): ServiceUnavailableError {
    const message = `${SUBJECTS[this.options.kind]} is currently unavailable`
    return new ServiceUnavailableError(message, { cause, details: { retryAfterSeconds: 1 } })
  }

  async #review<T>(spec: object, read: (status: unknown, isAccepted: boolean) => T): Promise<T> {
    const response = await this.#post(spec).catch((error: unknown) => {
      throw this.unavailable(error)
    })
    const isAccepted = this.#outcomeOf(response)
    if (isAccepted === null) throw this.unavailable(refusal(this.options.kind, response))
    return read(field(response.body, 'status'), isAccepted)
  }

  async #post(spec: object): Promise<JsonResponse> {
    const { client, kind } = this.options
    const apiVersion = `${SUBJECTS[kind]}.k8s.io/v1`
    const path = `/apis/${apiVersion}/${kind.toLowerCase()}s`
    const body = { apiVersion, kind, spec }
    const wasSure = this.#readiness.isSure
    const response = await client.post(path, body)
    if (this.#outcomeOf(response) !== false) {
      this.#readiness.accepted()
      return response
    }
    const confirmed = this.#readiness.denied(wasSure)
    if (confirmed === null) return response
    await confirmed
    return await client.post(path, body)
  }

  #outcomeOf({ status, body }: JsonResponse): boolean | null {
    return status >= 200 && status <= 299 ? this.options.accepts(field(body, 'status')) : null
  }
}
