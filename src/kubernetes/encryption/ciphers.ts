/**
 * The ciphers of stored values. Their data follows the prefix that names the key. Each decrypts values that the API
 * server has encrypted, and encrypts values that the API server can decrypt. Errors are in the API server's own
 * words.
 *
 * Source: k8s.io/apiserver 0.37 pkg/storage/value/encrypt (aes, secretbox), which define the layouts:
 *
 *     aescbc     iv (16) · blocks, padded as in PKCS #7
 *     aesgcm     nonce (12) · ciphertext · tag (16), with the etcd key as authenticated data
 *     secretbox  nonce (24) · tag (16) · ciphertext
 *     a KMS seed info (32) · aesgcm under HKDF-Expand(SHA-256, seed, info)
 */
import { createCipheriv, createDecipheriv, createHmac, randomBytes } from 'node:crypto'
import { xsalsa20poly1305 } from '@noble/ciphers/salsa.js'
import { bufferOf } from '../../support/buffer-of.js'

export interface Cipher {
  /** @param context the bytes of the etcd key. @throws CipherError */
  open(data: Buffer, context: Buffer): Buffer
  seal(value: Buffer, context: Buffer): Buffer
}

/** A value that this key cannot decrypt. */
export class CipherError extends Error {
  override readonly name = 'CipherError'
}

const TOO_SHORT = 'the stored data was shorter than the required size'

const BLOCK_BYTES = 16
const GCM_NONCE_BYTES = 12
const TAG_BYTES = 16
const BOX_NONCE_BYTES = 24
const INFO_BYTES = 32

export function aesCbc(key: Buffer): Cipher {
  const name = `aes-${key.length * 8}-cbc`
  return {
    open(data) {
      if (data.length < BLOCK_BYTES) throw new CipherError(TOO_SHORT)
      const blocks = data.subarray(BLOCK_BYTES)
      if (blocks.length % BLOCK_BYTES !== 0)
        throw new CipherError('the stored data is not a multiple of the block size')
      // Padding is checked here, because Node's error message for it differs.
      const decipher = createDecipheriv(name, key, data.subarray(0, BLOCK_BYTES)).setAutoPadding(false)
      const padded = Buffer.concat([decipher.update(blocks), decipher.final()])
      const padding = padded.at(-1) ?? 0
      if (padding === 0 || padding > padded.length) throw new CipherError('invalid PKCS7 data (empty or not padded)')
      const value = padded.subarray(0, padded.length - padding)
      if (padded.subarray(value.length).some((byte) => byte !== padding))
        throw new CipherError('invalid padding on input')
      return value
    },
    seal(value) {
      const iv = randomBytes(BLOCK_BYTES)
      const cipher = createCipheriv(name, key, iv)
      return Buffer.concat([iv, cipher.update(value), cipher.final()])
    },
  }
}

export function aesGcm(key: Buffer): Cipher {
  const name = `aes-${key.length * 8}-gcm` as 'aes-256-gcm'
  return {
    open(data, context) {
      if (data.length < GCM_NONCE_BYTES) throw new CipherError(TOO_SHORT)
      if (data.length < GCM_NONCE_BYTES + TAG_BYTES) throw new CipherError(NOT_AUTHENTIC)
      const decipher = createDecipheriv(name, key, data.subarray(0, GCM_NONCE_BYTES), { authTagLength: TAG_BYTES })
      decipher.setAAD(context)
      decipher.setAuthTag(data.subarray(-TAG_BYTES))
      const value = decipher.update(data.subarray(GCM_NONCE_BYTES, -TAG_BYTES))
      try {
        decipher.final()
      } catch (error) {
        throw new CipherError(NOT_AUTHENTIC, { cause: error })
      }
      return value
    },
    seal(value, context) {
      const nonce = randomBytes(GCM_NONCE_BYTES)
      const cipher = createCipheriv(name, key, nonce, { authTagLength: TAG_BYTES })
      cipher.setAAD(context)
      return Buffer.concat([nonce, cipher.update(value), cipher.final(), cipher.getAuthTag()])
    },
  }
}

const NOT_AUTHENTIC = 'cipher: message authentication failed'

export function secretbox(key: Buffer): Cipher {
  return {
    open(data) {
      if (data.length < BOX_NONCE_BYTES + TAG_BYTES) throw new CipherError(TOO_SHORT)
      try {
        const box = xsalsa20poly1305(key, data.subarray(0, BOX_NONCE_BYTES))
        return bufferOf(box.decrypt(data.subarray(BOX_NONCE_BYTES)))
      } catch (error) {
        throw new CipherError('output array was not large enough for encryption', { cause: error })
      }
    },
    seal(value) {
      const nonce = randomBytes(BOX_NONCE_BYTES)
      return Buffer.concat([nonce, xsalsa20poly1305(key, nonce).encrypt(value)])
    },
  }
}

/** Each value has its own key, which is derived from the seed and the value's first bytes. */
export function aesGcmOfSeed(seed: Buffer): Cipher {
  // One round of HKDF-Expand yields the 32 bytes of a key.
  const derived = (info: Buffer): Cipher =>
    aesGcm(createHmac('sha256', seed).update(info).update(Buffer.of(1)).digest())
  return {
    open(data, context) {
      if (data.length < INFO_BYTES) throw new CipherError(TOO_SHORT)
      return derived(data.subarray(0, INFO_BYTES)).open(data.subarray(INFO_BYTES), context)
    },
    seal(value, context) {
      const info = randomBytes(INFO_BYTES)
      return Buffer.concat([info, derived(info).seal(value, context)])
    },
  }
}
