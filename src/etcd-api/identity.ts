/**
 * The cluster in the headers of responses: etcd's own cluster id and term, as the last response from etcd
 * had them, and the id of the only member that clients see, which is this server.
 */
import { SingleFlight } from '../support/single-flight.js'
import type { Clock } from '../support/clock.js'
import type { RawUpstream } from '../engine/upstream/upstream.js'
import { readFields } from '../support/protobuf-fields.js'
import { safeInteger } from './requests.js'
import type { HeaderIdentity } from './responses.js'

const STATUS_PATH = '/etcdserverpb.Maintenance/Status'
/** The same for every replica, so that a client which moves between them sees one member. "distribu", in bytes. */
const MEMBER_ID = String(0x6469737472696275n)
/** After this time the identity is read again, because a restored etcd may have another one. */
const FRESH_MS = 10_000

export class Identity {
  readonly #clock: Clock
  readonly #flight: SingleFlight<void>
  #known: HeaderIdentity | null = null
  #learnedMs = Number.NEGATIVE_INFINITY

  constructor(raw: RawUpstream, clock: Clock) {
    this.#clock = clock
    this.#flight = new SingleFlight(async () => {
      this.learn(await raw.call(STATUS_PATH, new Uint8Array(0), { isRepeatable: true }))
    })
  }

  /** Waits only for the first answer of etcd. @throws RpcError, UpstreamError */
  async get(): Promise<HeaderIdentity> {
    if (this.#known !== null) {
      if (this.#clock.monotonic() - this.#learnedMs > FRESH_MS) {
        this.#learnedMs = this.#clock.monotonic()
        // The last identity stays in use while etcd does not answer.
        this.#flight.join().catch(() => {})
      }
      return this.#known
    }
    await this.#flight.join()
    return this.#known ?? { clusterId: '0', memberId: MEMBER_ID, raftTerm: '0' }
  }

  /** The identity as far as it is known; for a stream, after `get`. */
  get current(): HeaderIdentity {
    return this.#known ?? { clusterId: '0', memberId: MEMBER_ID, raftTerm: '0' }
  }

  /** Reads the header of any response from etcd. @returns its revision; 0 for none. */
  learn(response: Uint8Array): number {
    let clusterId = '0'
    let raftTerm = '0'
    let revision = 0
    readFields(response, {
      1: (reader) =>
        readFields(reader.bytes(), {
          1: (header) => (clusterId = String(header.uint64())),
          3: (header) => (revision = safeInteger(header)),
          4: (header) => (raftTerm = String(header.uint64())),
        }),
    })
    if (clusterId === '0') return revision
    this.#learnedMs = this.#clock.monotonic()
    const isNew = this.#known?.clusterId !== clusterId || this.#known.raftTerm !== raftTerm
    if (isNew) this.#known = { clusterId, memberId: MEMBER_ID, raftTerm }
    return revision
  }
}
