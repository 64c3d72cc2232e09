/**
 * Calls a KMS v2 plugin, which is a gRPC service on a Unix socket. The plugin encrypts and decrypts the keys of values,
 * never the values themselves.
 *
 * Source: k8s.io/kms 0.37 apis/v2/api.proto, which defines the messages.
 */
import type { BinaryReader } from '@bufbuild/protobuf/wire'
import { randomUUID } from 'node:crypto'
import { GrpcEndpoint } from '../../engine/upstream/etcd/grpc-endpoint.js'
import { readFields, writeFields } from '../../support/protobuf-fields.js'

/** A key that the plugin has encrypted. */
export interface SealedKey {
  readonly ciphertext: Buffer
  /** The name of the plugin's own key. */
  readonly keyId: string
  readonly annotations: ReadonlyMap<string, Buffer>
}

export interface KeyService {
  /**
   * @returns the name of the plugin's key for writes.
   * @throws Error, also when the plugin reports itself as unhealthy.
   */
  currentKeyId(): Promise<string>
  /** @throws Error */
  encrypt(plaintext: Buffer): Promise<SealedKey>
  /** @throws Error */
  decrypt(sealed: SealedKey): Promise<Buffer>
  close(): void
}

const SERVICE = '/v2.KeyManagementService/'
/** The largest response consists of a key and 32 KiB of annotations. */
const MAX_RESPONSE_BYTES = 256 * 1024
const KEEP_ALIVE_MS = 10_000

/** Connects at the first call. */
export function openKeyService(endpoint: string, timeoutMs: number): KeyService {
  const grpc = new GrpcEndpoint({
    url: endpoint,
    keepAliveTimeMs: KEEP_ALIVE_MS,
    keepAliveTimeoutMs: KEEP_ALIVE_MS,
    maxReceivedBytes: MAX_RESPONSE_BYTES,
  })
  const call = async (method: string, request: Parameters<typeof writeFields>[0]): Promise<Buffer> =>
    await grpc.unary(`${SERVICE}${method}`, writeFields(request), { metadata: {}, timeoutMs })
  return {
    async currentKeyId() {
      const { healthz, keyId } = readStatus(await call('Status', {}))
      if (healthz !== 'ok') throw new Error(`the plugin reports ${JSON.stringify(healthz.slice(0, 200))}`)
      if (keyId === '') throw new Error('the plugin has no key for writes')
      return keyId
    },
    async encrypt(plaintext) {
      return readSealedKey(await call('Encrypt', { 1: plaintext, 2: randomUUID() }))
    },
    async decrypt({ ciphertext, keyId, annotations }) {
      const request = { 1: ciphertext, 2: randomUUID(), 3: keyId, 4: writeEntries(annotations) }
      return readPlaintext(await call('Decrypt', request))
    },
    close: () => grpc.close(),
  }
}

export function writeEntries(map: ReadonlyMap<string, Buffer>): readonly Uint8Array[] {
  return [...map].map(([name, value]) => writeFields({ 1: name, 2: value }))
}

/** Reads the map entry at the reader's position. */
export function readEntry(reader: BinaryReader): [name: string, value: Buffer] {
  let name = ''
  let value: Buffer = Buffer.alloc(0)
  readFields(reader.bytes(), {
    1: (entry) => (name = entry.string()),
    2: (entry) => (value = Buffer.from(entry.bytes())),
  })
  return [name, value]
}

function readStatus(bytes: Buffer): { healthz: string; keyId: string } {
  let [healthz, keyId] = ['', '']
  readFields(bytes, { 2: (reader) => (healthz = reader.string()), 3: (reader) => (keyId = reader.string()) })
  return { healthz, keyId }
}

function readSealedKey(bytes: Buffer): SealedKey {
  let ciphertext: Buffer = Buffer.alloc(0)
  let keyId = ''
  const annotations = new Map<string, Buffer>()
  readFields(bytes, {
    1: (reader) => (ciphertext = Buffer.from(reader.bytes())),
    2: (reader) => (keyId = reader.string()),
    3: (reader) => annotations.set(...readEntry(reader)),
  })
  return { ciphertext, keyId, annotations }
}

function readPlaintext(bytes: Buffer): Buffer {
  let plaintext: Buffer = Buffer.alloc(0)
  readFields(bytes, { 1: (reader) => (plaintext = Buffer.from(reader.bytes())) })
  return plaintext
}
