/**
 * Encrypts and decrypts values with KMS v2. Each value carries its key, which the plugin has encrypted. Many values
 * share one key, so the plugin is called once per key, not once per value. Decrypted keys are kept in memory only.
 *
 * Source: k8s.io/apiserver 0.37 pkg/storage/value/encrypt/envelope/kmsv2, for the message `EncryptedObject`, the
 * limits, and when to create a key for writes.
 */
import { createHash, randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Clock } from '../../support/clock.js'
import { errorMessage } from '../../support/error-message.js'
import { readFields, writeFields } from '../../support/protobuf-fields.js'
import { aesGcm, aesGcmOfSeed, type Cipher, CipherError } from './ciphers.js'
import { type KeyService, readEntry, type SealedKey, writeEntries } from './key-service.js'

interface EncryptedObject extends SealedKey {
  readonly data: Buffer
  /** Whether the key is a seed, from which each value's own key is derived. */
  readonly isSeed: boolean
}

type Known = { readonly kind: 'open'; readonly cipher: Cipher } | Failed
interface Failed {
  readonly kind: 'failed'
  readonly error: CipherError
  readonly untilMs: number
}

interface WriteKey {
  readonly sealed: SealedKey
  readonly cipher: Cipher
  /** When the plugin last confirmed that this is the key for writes. */
  readonly confirmedMs: number
}

/** Far more keys than are in use. Each start of an API server and each new key of the plugin adds one. */
const MOST_KEYS = 10_000
const SEED_BYTES = 32
const MAX_KEY_BYTES = 1_024
/** If a key cannot be decrypted, the plugin is called at most once per interval, however many values share it. */
const FAILED_FOR_MS = 1_000
/** How often the plugin is asked for its key for writes. If it does not respond, the last key stays in use longer. */
const CONFIRM_EVERY_MS = 60_000
const WRITE_KEY_LASTS_MS = 180_000

export class KmsCipher {
  readonly #keys = new LRUCache<string, Known | Promise<Known>>({ max: MOST_KEYS })
  #writeKey: WriteKey | null = null
  #renewing: Promise<WriteKey> | null = null

  /** @param onFailure called for each value whose key could not be decrypted. A later attempt may succeed. */
  constructor(
    private readonly service: KeyService,
    private readonly clock: Clock,
    private readonly onFailure: () => void,
  ) {}

  /** @throws CipherError; the returned promise, if any, rejects with it instead. */
  open(data: Buffer, context: Buffer): Buffer | Promise<Buffer> {
    const object = readEncryptedObject(data)
    const name = nameOf(object)
    const known = this.#keys.get(name)
    const isUsable =
      known !== undefined &&
      (known instanceof Promise || known.kind === 'open' || known.untilMs > this.clock.monotonic())
    if (isUsable && !(known instanceof Promise)) return this.#openWith(known, object, context)
    const fetched = isUsable && known instanceof Promise ? known : this.#fetch(name, object)
    return fetched.then((key) => this.#openWith(key, object, context))
  }

  /** @throws Error when the plugin has not confirmed a key for too long. */
  async seal(value: Buffer, context: Buffer): Promise<Buffer> {
    const { sealed, cipher } = await this.#keyForWrites()
    return writeEncryptedObject({ ...sealed, data: cipher.seal(value, context), isSeed: true })
  }

  close(): void {
    this.service.close()
  }

  #openWith(key: Known, { data }: EncryptedObject, context: Buffer): Buffer {
    if (key.kind === 'open') return key.cipher.open(data, context)
    this.onFailure()
    throw key.error
  }

  #fetch(name: string, object: EncryptedObject): Promise<Known> {
    const fetched = this.service
      .decrypt(object)
      .then((key): Known => ({ kind: 'open', cipher: cipherOf(key, object.isSeed) }))
      .catch((cause: unknown): Known => {
        const error = new CipherError(`failed to decrypt DEK, error: ${errorMessage(cause)}`, { cause })
        return { kind: 'failed', error, untilMs: this.clock.monotonic() + FAILED_FOR_MS }
      })
    this.#keys.set(name, fetched)
    void fetched.then((known) => this.#keys.set(name, known))
    return fetched
  }

  async #keyForWrites(): Promise<WriteKey> {
    const key = this.#writeKey
    if (key !== null && this.clock.monotonic() - key.confirmedMs < CONFIRM_EVERY_MS) return key
    this.#renewing ??= this.#renew().finally(() => (this.#renewing = null))
    try {
      return await this.#renewing
    } catch (error) {
      if (key !== null && this.clock.monotonic() - key.confirmedMs < WRITE_KEY_LASTS_MS) return key
      throw error
    }
  }

  async #renew(): Promise<WriteKey> {
    const keyId = await this.service.currentKeyId()
    const confirmedMs = this.clock.monotonic()
    if (this.#writeKey?.sealed.keyId === keyId) return (this.#writeKey = { ...this.#writeKey, confirmedMs })
    const seed = randomBytes(SEED_BYTES)
    const sealed = await this.service.encrypt(seed)
    if (sealed.ciphertext.length === 0 || sealed.ciphertext.length > MAX_KEY_BYTES || sealed.keyId === '')
      throw new Error('the plugin returned a key that cannot be stored')
    return (this.#writeKey = { sealed, cipher: aesGcmOfSeed(seed), confirmedMs })
  }
}

function cipherOf(key: Buffer, isSeed: boolean): Cipher {
  if (isSeed ? key.length >= SEED_BYTES : [16, 24, 32].includes(key.length))
    return isSeed ? aesGcmOfSeed(key) : aesGcm(key)
  throw new Error(`invalid seed length ${key.length} used for key generation`)
}

/** Identifies a key by everything that the plugin receives. */
function nameOf({ ciphertext, keyId, annotations, isSeed }: EncryptedObject): string {
  const hash = createHash('sha256').update(JSON.stringify([isSeed, keyId, ciphertext.toString('base64')]))
  for (const name of [...annotations.keys()].sort()) {
    hash.update(JSON.stringify([name, annotations.get(name)!.toString('base64')]))
  }
  return hash.digest('base64')
}

/** @throws CipherError */
function readEncryptedObject(bytes: Buffer): EncryptedObject {
  let data: Buffer = Buffer.alloc(0)
  let ciphertext: Buffer = Buffer.alloc(0)
  let keyId = ''
  let type = 0
  const annotations = new Map<string, Buffer>()
  try {
    readFields(bytes, {
      1: (reader) => (data = Buffer.from(reader.bytes())),
      2: (reader) => (keyId = reader.string()),
      3: (reader) => (ciphertext = Buffer.from(reader.bytes())),
      4: (reader) => annotations.set(...readEntry(reader)),
      5: (reader) => (type = reader.int32()),
    })
  } catch (error) {
    throw new CipherError('proto: cannot parse invalid wire-format data', { cause: error })
  }
  if (type !== 0 && type !== 1) throw new CipherError(`unknown encryptedDEKSourceType: ${type}`)
  if (data.length === 0) throw new CipherError('encrypted data is empty')
  if (ciphertext.length === 0)
    throw new CipherError('failed to validate encrypted DEK source: encrypted DEK source is empty')
  if (keyId === '') throw new CipherError('failed to validate key id: keyID is empty')
  return { data, ciphertext, keyId, annotations, isSeed: type === 1 }
}

function writeEncryptedObject({ data, ciphertext, keyId, annotations, isSeed }: EncryptedObject): Buffer {
  const entries = writeEntries(annotations)
  return Buffer.from(writeFields({ 1: data, 2: keyId, 3: ciphertext, 4: entries, 5: isSeed ? 1 : undefined }))
}
