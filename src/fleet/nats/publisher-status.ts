/** The status that a publisher sends every second, as JSON on a subject of its own. */
export interface PublisherStatus {
  readonly epoch: number
  /** The stream has everything up to this message. */
  readonly sequence: number
  /** When this was written, by a clock that only the publisher knows. The first release does not say it. */
  readonly at?: number
  /**
   * All that etcd had so long ago is in the stream up to that message; null when the publisher cannot say. The first release
   * does not say it.
   */
  readonly ageMs?: number | null
  /** Why etcd is away; null while it is there. */
  readonly trouble: { readonly reason: string; readonly isRefusal: boolean } | null
}
