/** The keys with which the plugin sealed the recorded values, used in this process as the Go plugin uses them. */
import { createHash } from 'node:crypto'
import { aesGcm } from '../../../../src/kubernetes/encryption/ciphers.js'
import type { KeyService } from '../../../../src/kubernetes/encryption/key-service.js'

const ANNOTATION = 'version.kms-plugin.test'

export interface RecordedKeys extends KeyService {
  /** How often it was asked to decrypt. */
  readonly decrypted: number
}

export function recordedKeys(): RecordedKeys {
  const cipher = (keyId: string) => aesGcm(createHash('sha256').update(`a plugin's key: ${keyId}`).digest())
  const keys = {
    decrypted: 0,
    currentKeyId: async () => 'one',
    encrypt: async (plaintext: Buffer) => ({
      ciphertext: cipher('one').seal(plaintext, Buffer.from('1')),
      keyId: 'one',
      annotations: new Map([[ANNOTATION, Buffer.from('1')]]),
    }),
    decrypt: async ({ ciphertext, keyId, annotations }: Awaited<ReturnType<KeyService['encrypt']>>) => {
      keys.decrypted++
      return cipher(keyId).open(ciphertext, annotations.get(ANNOTATION) ?? Buffer.alloc(0))
    },
    close: () => {},
  }
  return keys
}
