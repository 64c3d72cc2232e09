/**
 * An API server that reviews tokens and access. A refusal counts only if the server was ready before it was asked; an
 * acceptance always does.
 */
import type { Clock } from '../../support/clock.js'
import type { JsonAnswer, JsonClient } from './https-json.js'
import { ApiServerReadiness } from '../../support/api-server-readiness.js'

export type ReviewClient = Pick<JsonClient, 'get' | 'post' | 'close' | 'connections'>

export class ReviewServer {
  readonly #client: ReviewClient
  readonly #readiness: ApiServerReadiness

  constructor(client: ReviewClient, clock: Pick<Clock, 'monotonic'>) {
    this.#client = client
    this.#readiness = new ApiServerReadiness({
      connections: client.connections,
      readyz: async () => (await client.get('/readyz')).status,
      clock,
    })
  }

  /** @throws Error as `JsonClient.post`; also for a refusal of a server that is not ready. */
  async review(path: string, body: object, isRefused: (answer: JsonAnswer) => boolean): Promise<JsonAnswer> {
    const wasSure = this.#readiness.isSure
    const answer = await this.#client.post(path, body)
    if (!isRefused(answer)) {
      this.#readiness.accepted()
      return answer
    }
    const confirmed = this.#readiness.denied(wasSure)
    if (confirmed === null) return answer
    await confirmed
    return await this.#client.post(path, body)
  }

  close(): void {
    this.#client.close()
  }
}
