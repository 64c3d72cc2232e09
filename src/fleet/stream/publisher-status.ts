/** The status that a publisher sends every second, as JSON on a separate subject. */
export interface PublisherStatus {
  readonly epoch: number
  /**
   * When this publisher began to send statuses, in milliseconds of its wall clock. It distinguishes publishers with the
   * same epoch: a publisher that ends before it has written anything leaves its epoch to the next one, whose clock is a
   * different one.
   */
  readonly session: number
  /** The message up to which the stream is complete. */
  readonly sequence: number
  /** When this status was written, by a clock that only the publisher can read. */
  readonly at: number
  /**
   * The stream up to that message has everything that etcd had this many milliseconds ago; null if the publisher cannot
   * say.
   */
  readonly ageMs: number | null
  /**
   * Why etcd is unreachable; null while it is reachable. `isRefusal`: etcd has refused every attempt for a while, so the
   * watches of the resource end.
   */
  readonly trouble: { readonly reason: string; readonly isRefusal: boolean } | null
}

/** Parses a status; returns null for anything else, because anyone allowed to publish in NATS may use this subject. */
export function readPublisherStatus(data: Buffer): PublisherStatus | null {
  let value: Partial<Record<keyof PublisherStatus, unknown>> | null
  try {
    value = JSON.parse(data.toString('utf8')) as typeof value
  } catch {
    return null
  }
  if (typeof value !== 'object' || value === null) return null
  const { epoch, session, sequence, at, ageMs, trouble } = value
  const numbers = [epoch, session, sequence, at, ageMs === null ? 0 : ageMs]
  const areNumbers = numbers.every((number) => typeof number === 'number')
  return areNumbers && (trouble === null || isTrouble(trouble)) ? (value as unknown as PublisherStatus) : null
}

function isTrouble(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'reason' in value && typeof value.reason === 'string'
}
