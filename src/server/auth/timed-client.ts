/** A client of a review server that reports the duration of each exchange to the metrics. */
import type { AccessMetrics, Webhook } from '../../engine/model/request-metrics.js'
import type { JsonAnswer, JsonClient } from './https-json.js'

export type TimedClient = Pick<JsonClient, 'get' | 'post' | 'close' | 'connections'>

export function timedClient(client: TimedClient, webhook: Webhook, metrics: AccessMetrics | undefined): TimedClient {
  if (metrics === undefined) return client
  const timed = async (asked: Promise<JsonAnswer>): Promise<JsonAnswer> => {
    const startedMs = performance.now()
    let code = 0
    try {
      const answer = await asked
      code = answer.status
      return answer
    } finally {
      metrics.asked(webhook, code, (performance.now() - startedMs) / 1000)
    }
  }
  return {
    connections: client.connections,
    get: (url, accept) => timed(client.get(url, accept)),
    post: (path, body) => timed(client.post(path, body)),
    close: () => client.close(),
  }
}
