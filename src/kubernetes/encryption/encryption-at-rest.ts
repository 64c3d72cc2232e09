/**
 * Encryption at rest as an API server does it: decrypts ("opens") and encrypts ("seals") the values of each resource
 * with the providers that the configuration names for it. The first provider encrypts. A value is decrypted by the
 * provider whose prefix it begins with. Values under several keys may be stored side by side, as happens while keys
 * are rotated.
 *
 * Messages, log lines and metrics contain neither keys nor values, only the names of keys.
 *
 * Source: k8s.io/apiserver 0.37 pkg/server/options/encryptionconfig and pkg/storage/value/transformer.go.
 */
import { type Key, type KeyValue, keyToBytes } from '../../engine/model/event.js'
import type { ApiResource } from '../model/api-resource.js'
import { ServiceUnavailableError } from '../model/status.js'
import type { ValueTransform } from '../../engine/model/value-transform.js'
import { startsWith } from '../../support/buffer-of.js'
import type { Clock, Timer } from '../../support/clock.js'
import { errorMessage } from '../../support/error-message.js'
import { isEncrypted } from '../codec/ingest.js'
import { aesCbc, aesGcm, type Cipher, secretbox } from './ciphers.js'
import { type ProviderConfiguration, parseGroupResource, type ResourceConfiguration } from './configuration.js'
import type { KeyService } from './key-service.js'
import { KmsCipher } from './kms.js'

export interface EncryptionAtRestOptions {
  readonly configuration: readonly ResourceConfiguration[]
  /** Connects to the plugin of a KMS provider, which may be unreachable. */
  readonly openKeyService: (endpoint: string, timeoutMs: number) => KeyService
  readonly clock: Clock
}

interface Provider {
  /** The prefix of the values that this provider encrypts; '' for none. */
  readonly prefix: string
  /** null when values are stored unencrypted. */
  readonly cipher: Cipher | KmsCipher | null
  /** The text with which the names of all keys of this provider begin: `k8s:enc:aescbc:v1:`. */
  readonly family: string
  /** The error for a value of this provider whose key is not configured. */
  readonly noKey: string
}

type Result = { readonly value: Buffer } | { readonly sealed: string }

const IDENTITY: Provider = { prefix: '', cipher: null, family: '', noKey: '' }
const NO_PROVIDER = 'no matching prefix found'
const IDENTITY_ONLY = 'identity transformer tried to read encrypted data'

/** How soon values are retried when the plugin did not decrypt their key. */
const RETRY_MS = 5_000
/** The previous configuration's plugins are closed later, because calls to them may still be running. */
const CLOSE_AFTER_MS = 30_000

export class EncryptionAtRest {
  readonly #options: EncryptionAtRestOptions
  #providers: ReadonlyMap<string, readonly Provider[]>
  readonly #listeners = new Set<() => void>()
  #plugins: readonly KmsCipher[]
  #retry: Timer | null = null
  #isClosed = false

  constructor(options: EncryptionAtRestOptions) {
    this.#options = options
    ;({ providers: this.#providers, plugins: this.#plugins } = this.#build(options.configuration))
  }

  /** Replaces the configuration. */
  configure(configuration: readonly ResourceConfiguration[]): void {
    const before = this.#plugins
    ;({ providers: this.#providers, plugins: this.#plugins } = this.#build(configuration))
    this.#options.clock.setTimer(CLOSE_AFTER_MS, () => before.forEach((plugin) => plugin.close()))
    this.#notify()
  }

  /** Calls the listener when values that no key could decrypt may be readable now. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  close(): void {
    this.#isClosed = true
    this.#retry?.cancel()
    for (const plugin of this.#plugins) plugin.close()
  }

  transformOf(resource: Pick<ApiResource, 'group' | 'plural'>): ValueTransform {
    return {
      open: (keyValue) => this.#open(this.#providersOf(resource), keyValue),
      seal: (key, value) => this.#seal(this.#providersOf(resource)?.[0] ?? IDENTITY, key, value),
    }
  }

  /** Returns null for a resource that no entry names, whose values are not encrypted. */
  #providersOf({ group, plural }: Pick<ApiResource, 'group' | 'plural'>): readonly Provider[] | null {
    // Events of both groups are stored in the core group.
    const stored = group === 'events.k8s.io' ? '' : group
    const found = [`${plural}.${stored}`, `*.${stored}`, '*.*'].map((name) => this.#providers.get(name))
    return found.find((providers) => providers !== undefined) ?? null
  }

  #open(providers: readonly Provider[] | null, keyValue: KeyValue): KeyValue | Promise<KeyValue> {
    const { value } = keyValue
    const outcome =
      providers === null
        ? isEncrypted(value)
          ? { sealed: IDENTITY_ONLY }
          : { value }
        : openWith(providers, keyValue, keyToBytes(keyValue.key), 0, [])
    return outcome instanceof Promise ? outcome.then((later) => opened(keyValue, later)) : opened(keyValue, outcome)
  }

  #seal({ prefix, cipher, family }: Provider, key: Key, value: Buffer): Buffer | Promise<Buffer> {
    if (cipher === null) return value
    const withPrefix = (data: Buffer): Buffer => Buffer.concat([Buffer.from(prefix, 'utf8'), data])
    const sealed = cipher.seal(value, keyToBytes(key))
    if (!(sealed instanceof Promise)) return withPrefix(sealed)
    return sealed.then(withPrefix, (cause: unknown) => {
      const why = `${family} ${errorMessage(cause)}`
      throw new ServiceUnavailableError(`the value cannot be encrypted, and nothing was written: ${why}`, { cause })
    })
  }

  #build(configuration: readonly ResourceConfiguration[]): {
    providers: Map<string, readonly Provider[]>
    plugins: KmsCipher[]
  } {
    const providers = new Map<string, readonly Provider[]>()
    const plugins: KmsCipher[] = []
    for (const { resources, providers: named } of configuration) {
      const built = named.flatMap((provider) => this.#providersFrom(provider, plugins))
      for (const resource of resources) {
        const { name, group } = parseGroupResource(resource)
        const id = `${name}.${group}`
        providers.set(id, [...(providers.get(id) ?? []), ...built])
      }
    }
    return { providers, plugins }
  }

  #providersFrom(provider: ProviderConfiguration, plugins: KmsCipher[]): readonly Provider[] {
    switch (provider.kind) {
      case 'identity':
        return [IDENTITY]
      case 'kms': {
        const { clock, openKeyService } = this.#options
        const service = openKeyService(provider.endpoint, provider.timeoutMs)
        const cipher = new KmsCipher(service, clock, () => this.#retrySoon())
        plugins.push(cipher)
        const prefix = `k8s:enc:kms:v2:${provider.name}:`
        return [{ prefix, cipher, family: prefix, noKey: NO_PROVIDER }]
      }
      default: {
        const family = `k8s:enc:${provider.kind}:v1:`
        const transformer = provider.kind === 'secretbox' ? 'Secretbox' : 'AES'
        const noKey = `no matching key was found for the provided ${transformer} transformer`
        const cipherOf = { aescbc: aesCbc, aesgcm: aesGcm, secretbox }[provider.kind]
        return provider.keys.map(({ name, secret }) => ({
          prefix: `${family}${name}:`,
          cipher: cipherOf(secret),
          family,
          noKey,
        }))
      }
    }
  }

  #retrySoon(): void {
    if (this.#isClosed) return
    this.#retry ??= this.#options.clock.setTimer(RETRY_MS, () => {
      this.#retry = null
      this.#notify()
    })
  }

  #notify(): void {
    for (const listener of this.#listeners) listener()
  }
}

function opened(keyValue: KeyValue, result: Result): KeyValue {
  const { sealed: _before, ...bare } = keyValue
  if ('sealed' in result) return { ...bare, sealed: result.sealed }
  return result.value === keyValue.value && keyValue.sealed === undefined ? keyValue : { ...bare, value: result.value }
}

/** Tries one provider after another. The first that decrypts the value wins. */
function openWith(
  providers: readonly Provider[],
  keyValue: KeyValue,
  context: Buffer,
  from: number,
  errors: readonly string[],
): Result | Promise<Result> {
  const { value } = keyValue
  for (let i = from; i < providers.length; i++) {
    const { prefix, cipher } = providers[i]!
    if (cipher === null) {
      if (!isEncrypted(value)) return { value }
      continue
    }
    if (!startsWith(value, Buffer.from(prefix))) continue
    const failed = (error: unknown): Result | Promise<Result> => {
      // A failure with one value must not end the feed of all other values.
      return openWith(providers, keyValue, context, i + 1, [...errors, errorMessage(error)])
    }
    try {
      const found = cipher.open(value.subarray(Buffer.byteLength(prefix)), context)
      if (!(found instanceof Promise)) return { value: found }
      return found.then((later): Result => ({ value: later })).catch(failed)
    } catch (error) {
      return failed(error)
    }
  }
  return { sealed: reasonOf(providers, value, errors) }
}

/** Returns, in the API server's words, the error of each key, or that the key is missing. */
function reasonOf(providers: readonly Provider[], value: Buffer, errors: readonly string[]): string {
  const distinct = [...new Set(errors)]
  if (distinct.length === 1) return distinct[0]!
  if (distinct.length > 1) return `[${distinct.join(', ')}]`
  return providers.find(({ family }) => family !== '' && startsWith(value, Buffer.from(family)))?.noKey ?? NO_PROVIDER
}
