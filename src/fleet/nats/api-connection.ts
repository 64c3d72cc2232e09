/**
 * A connection on which only leaders answer requests to JetStream's API.
 *
 * Every server of a cluster gets such a request. The leader answers, and the others stay silent unless they see no
 * leader, of the cluster or of the stream. Then they say so at once, or describe their own part of the stream. A server
 * that has lost others sees no leader while the rest work well, and its answer usually comes first. The library takes
 * the first.
 */
import { ErrorCode, type Msg, type NatsConnection, NatsError, type QueuedIterator } from 'nats'
import type { Clock, Timer } from '../../support/clock.js'
import { NO_LEADER } from './nats-error.js'

const API = '$JS.API.'
const REQUEST_TIMEOUT_MS = 1_000
/** How long to wait for the leader after an answer from a server that sees none. */
const LEADER_MS = 1_000
/** Larger answers contain a message, which only leaders send, or subjects; they are not searched for leader errors. */
const LEADERLESS_BYTES = 16_384

interface ApiAnswer {
  readonly error?: { readonly err_code?: number }
  /** The cluster of a stream or a consumer. */
  readonly cluster?: { readonly leader?: string }
}

/** Returns the same connection, except that JetStream API requests reject when no leader has answered. */
export function apiConnection(connection: NatsConnection, clock: Clock): NatsConnection {
  const request: NatsConnection['request'] = (subject, data, options) => {
    if (!subject.startsWith(API)) return connection.request(subject, data, options)
    return answerOfLeader(connection, subject, data, options?.timeout ?? REQUEST_TIMEOUT_MS, clock)
  }
  // The library's managers, built upon a connection, send through its `request`.
  return Object.create(connection, { request: { value: request } }) as NatsConnection
}

/** @throws NatsError `503` when only others have answered. */
async function answerOfLeader(
  connection: NatsConnection,
  subject: string,
  data: RequestData,
  timeoutMs: number,
  clock: Clock,
): Promise<Msg> {
  const answers = (await connection.requestMany(subject, data, { maxWait: timeoutMs })) as QueuedIterator<Msg>
  let timer: Timer | null = null
  try {
    for await (const answer of answers) {
      if (!isLeaderless(answer)) return answer
      timer ??= clock.setTimer(LEADER_MS, () => answers.stop())
    }
  } finally {
    timer?.cancel()
  }
  if (timer === null) throw NatsError.errorForCode(ErrorCode.Timeout)
  throw new NatsError('only servers that see no leader have answered', ErrorCode.NoResponders)
}

type RequestData = Parameters<NatsConnection['request']>[1]

function isLeaderless(answer: Msg): boolean {
  if (answer.data.length > LEADERLESS_BYTES) return false
  const { error, cluster } = answer.json<ApiAnswer>()
  if (error !== undefined) return error.err_code === NO_LEADER
  return cluster !== undefined && (cluster.leader ?? '') === ''
}
