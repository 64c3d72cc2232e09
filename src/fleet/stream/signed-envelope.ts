/**
 * Signs what replicas exchange over NATS, so that access to NATS is not enough to forge it.
 *
 * The signature is an HMAC-SHA-256 with a key that all replicas have and NATS does not, so other users of NATS, or a
 * leaf node in between, cannot produce a signature. Ed25519 was rejected for two reasons. It would protect only against
 * edges, because every candidate can be elected and so needs the private key. It also costs about forty times as much
 * per message and edge.
 *
 *     magic 'S' │ format │ key id (4 bytes) │ HMAC-SHA-256 (32 bytes) │ data …
 *
 * The signature covers the kind of the data, the resource with its cluster, the place (for a message its sequence, for
 * a snapshot its name) and the data, which begins with epoch and revisions. So signed data is invalid in any other
 * place. A broker can still withhold data, but then the reported age grows, because the statuses that confirm the age
 * are signed too. Only a replica that holds nothing yet, or whose stream was recreated, accepts an old stream with its
 * old statuses. Leases are not signed, because a forged lease cannot harm the content, and anyone who can write leases
 * could stop the fleet anyway.
 *
 * Without keys nothing is signed, and signed data cannot be read.
 */
import type { Ambient } from '../../support/ambient.js'
import { oncePer } from '../../support/memo.js'
import { createHash, createHmac, timingSafeEqual } from 'node:crypto'

/**
 * Keys that may change at run time. The first key signs, and signatures by any of the keys are accepted. If the list is
 * empty, nothing is signed.
 */
export interface SigningKeys {
  readonly value: readonly Buffer[]
  /** @returns a function that removes the listener. */
  onChange(listener: () => void): () => void
}

export const noSigningKeys: SigningKeys = { value: [], onChange: () => () => {} }

export type Sealed = 'message' | 'snapshot' | 'index' | 'status' | 'question' | 'answer'

export interface EnvelopeOptions extends Pick<Ambient, 'clock' | 'logger'> {
  readonly keys: SigningKeys
  /** The subject of the resource's log, which names the cluster and the resource. */
  readonly subject: string
  /** Called for everything that is rejected. */
  readonly onRefused: () => void
}

const MAGIC = 0x53
const FORMAT = 1
const KEY_ID_BYTES = 4
const MAC_BYTES = 32
const HEADER_BYTES = 2 + KEY_ID_BYTES + MAC_BYTES
/** At most one log line per interval, so that a forger cannot fill the log. */
const LOG_GAP_MS = 3_600_000

const idOf = oncePer((key: Buffer): Buffer =>
  createHash('sha256').update('distributary signing key').update(key).digest().subarray(0, KEY_ID_BYTES),
)

export class Envelope {
  #loggedMs = Number.NEGATIVE_INFINITY

  constructor(private readonly options: EnvelopeOptions) {}

  get isSigning(): boolean {
    return this.options.keys.value.length > 0
  }

  /** The bytes added by a signature. */
  get overheadBytes(): number {
    return this.isSigning ? HEADER_BYTES : 0
  }

  /** @returns a function that removes the listener. */
  onKeysChanged(listener: () => void): () => void {
    return this.options.keys.onChange(listener)
  }

  seal(kind: Sealed, place: string | number, data: Buffer): Buffer {
    const [key] = this.options.keys.value
    return key === undefined ? data : Buffer.concat([this.#header(key, kind, place, [data]), data])
  }

  /** Signs data in pieces, without joining them. */
  sealChunks(kind: Sealed, place: string | number, chunks: readonly Buffer[]): readonly Buffer[] {
    const [key] = this.options.keys.value
    return key === undefined ? chunks : [this.#header(key, kind, place, chunks), ...chunks]
  }

  /** @returns the data; null for data that must not be used, which is counted and logged. */
  open(kind: Sealed, place: string | number, bytes: Buffer): Buffer | null {
    const { keys } = this.options
    if (keys.value.length === 0) return bytes
    const reason = 'its signature matches no key of --nats-signing-key-file'
    if (bytes.length < HEADER_BYTES || bytes[0] !== MAGIC || bytes[1] !== FORMAT) {
      return this.#refuse(kind, 'it is not signed')
    }
    const id = bytes.subarray(2, 2 + KEY_ID_BYTES)
    const key = keys.value.find((each) => idOf(each).equals(id))
    if (key === undefined) return this.#refuse(kind, reason)
    const data = bytes.subarray(HEADER_BYTES)
    const mac = this.#mac(key, kind, place, [data])
    if (!timingSafeEqual(mac, bytes.subarray(2 + KEY_ID_BYTES, HEADER_BYTES))) return this.#refuse(kind, reason)
    return data
  }

  #header(key: Buffer, kind: Sealed, place: string | number, chunks: readonly Buffer[]): Buffer {
    return Buffer.concat([Buffer.from([MAGIC, FORMAT]), idOf(key), this.#mac(key, kind, place, chunks)])
  }

  /**
   * The input is unambiguous: neither the kind nor the subject contains a line feed, and no place contains the NUL that
   * ends it.
   */
  #mac(key: Buffer, kind: Sealed, place: string | number, chunks: readonly Buffer[]): Buffer {
    const mac = createHmac('sha256', key).update(`${kind}\n${this.options.subject}\n${place}\0`)
    for (const chunk of chunks) mac.update(chunk)
    return mac.digest()
  }

  #refuse(kind: Sealed, reason: string): null {
    const { clock, logger, subject, onRefused } = this.options
    onRefused()
    if (clock.monotonic() - this.#loggedMs < LOG_GAP_MS) return null
    this.#loggedMs = clock.monotonic()
    logger.error({ subject, kind, reason }, 'refused data from NATS without a valid signature')
    return null
  }
}

/** Whether bytes are signed, for the error message of a replica without keys. */
export function isSealed(bytes: Buffer): boolean {
  return bytes.length >= HEADER_BYTES && bytes[0] === MAGIC && bytes[1] === FORMAT
}

/** The most keys at once: the signing key, and the previous or next one. */
const MOST_KEYS = 2
const KEY_BYTES = 32

/**
 * Parses a file of signing keys: one or two lines of base64, each of at least 32 bytes. Empty lines and lines that
 * begin with `#` are ignored.
 *
 * @throws Error for anything else.
 */
export function parseSigningKeys(file: Buffer): readonly Buffer[] {
  const lines = file
    .toString('utf8')
    .split(/\r?\n/)
    .map((line) => line.trim())
  const texts = lines.filter((line) => line !== '' && !line.startsWith('#'))
  if (texts.length === 0 || texts.length > MOST_KEYS) {
    throw new Error(`--nats-signing-key-file: ${texts.length} keys; at most two are allowed, and the first one signs`)
  }
  return texts.map((text, i) => {
    const key = Buffer.from(text, 'base64')
    const isBase64 = /^[A-Za-z0-9+/]+=*$/.test(text)
    if (!isBase64 || key.length < KEY_BYTES) {
      throw new Error(`--nats-signing-key-file: key ${i + 1} is not base64 of at least ${KEY_BYTES} bytes`)
    }
    return key
  })
}
