import { randomBytes } from 'node:crypto'
import t from 'tap'
import {
  aesCbc,
  aesGcm,
  aesGcmOfSeed,
  type Cipher,
  CipherError,
  secretbox,
} from '../../../src/kubernetes/encryption/ciphers.js'

const context = Buffer.from('/registry/secrets/default/a')

const ciphers: readonly (readonly [name: string, make: () => Cipher, isBound: boolean])[] = [
  ...[16, 24, 32].map((bytes) => [`aescbc of ${bytes} bytes`, () => aesCbc(Buffer.alloc(bytes, 1)), false] as const),
  ...[16, 24, 32].map((bytes) => [`aesgcm of ${bytes} bytes`, () => aesGcm(Buffer.alloc(bytes, 1)), true] as const),
  ['secretbox', () => secretbox(Buffer.alloc(32, 1)), false],
  ['aesgcm of a seed', () => aesGcmOfSeed(Buffer.alloc(32, 1)), true],
]
for (const [name, make, isBound] of ciphers) {
  void t.test(`${name} decrypts its own ciphertexts of any length`, async (t) => {
    for (const length of [0, 1, 15, 16, 17, 31, 32, 33, 1_000, 100_000]) {
      const value = randomBytes(length)
      const sealed = make().seal(value, context)
      t.ok(make().open(sealed, context).equals(value), `${length} bytes`)
      t.notOk(make().seal(value, context).equals(sealed), 'never the same twice')
    }
  })

  void t.test(`${name} refuses a truncated value`, async (t) => {
    const sealed = make().seal(Buffer.from('a value'), context)
    for (let length = 0; length < sealed.length; length++) {
      try {
        // A padding may happen to be right: what is left is then another value, as for the API server.
        t.notOk(make().open(sealed.subarray(0, length), context).equals(Buffer.from('a value')))
      } catch (error) {
        t.ok(error instanceof CipherError, String(error))
      }
    }
  })

  if (!isBound) continue
  void t.test(`${name} refuses a value that was moved to another key`, async (t) => {
    const sealed = make().seal(Buffer.from('a value'), context)
    t.throws(() => make().open(sealed, Buffer.from('/registry/secrets/default/b')), {
      message: 'cipher: message authentication failed',
    })
  })
}
