/**
 * Serves aggregated APIs without an API server in front: `/apis/{group}/{version}` is forwarded to its server, whose
 * address is in the configuration. APIService objects name such servers too; a group version that only an object names
 * is answered with a 503 that says what is missing.
 *
 * Each server's resources are polled, so that discovery can be answered at once. While a server is unreachable, its
 * last known resources stay listed and are marked as stale; requests are still attempted. Addresses and authorities in
 * the objects are ignored, because anyone who can write such an object could redirect our callers.
 */
import type { Ambient } from '../../../support/ambient.js'
import { ALL_AUTHENTICATED, ANONYMOUS, type User } from '../../auth/user.js'
import {
  readResourceList,
  type RemoteGroups,
  type RemoteGroupVersion,
} from '../../../kubernetes/dialect/remote-group.js'
import { ServiceUnavailableError } from '../../../kubernetes/model/status.js'
import { backoffMs } from '../../../support/backoff.js'
import { sleep } from '../../../support/clock.js'
import type { Exchange } from '../exchange/exchange.js'
import type { ForwardedCaller } from '../gate/caller.js'
import type { Passthrough } from './passthrough.js'
import { errorMessage } from '../../../support/error-message.js'

export interface ApiServicesOptions extends Ambient {
  readonly addresses: readonly { readonly group: string; readonly version: string; readonly passthrough: Passthrough }[]
}

/** The part of an APIService object used here. */
export interface NamedService {
  readonly group: string
  readonly version: string
  /** `namespace/name` of the Service. */
  readonly service: string
}

/** kube-aggregator polls at the same interval. */
const REFRESH_MS = 30_000
const BACKOFF = { firstMs: 500, capMs: 5_000 }
const REQUEST_TIMEOUT_MS = 5_000
const MAX_DOCUMENT_BYTES = 4 * 2 ** 20

/** The name used by the API server's aggregator, but with no more permissions than any authenticated user. */
const AGGREGATOR: User = { ...ANONYMOUS, name: 'system:kube-aggregator', groups: [ALL_AUTHENTICATED] }

export class ApiServices implements RemoteGroups {
  readonly #services: ReadonlyMap<string, ApiService>
  /** The services named by APIService objects, by object name. */
  readonly #named = new Map<string, NamedService>()
  readonly #stopping = new AbortController()
  #running: Promise<unknown> | null = null
  #generation = 0

  constructor(private readonly options: ApiServicesOptions) {
    const onChange = (): void => void this.#generation++
    this.#services = new Map(
      options.addresses.map((address) => [
        `${address.group}/${address.version}`,
        new ApiService({ ...options, ...address, onChange }),
      ]),
    )
  }

  get generation(): number {
    return this.#generation
  }

  list(): readonly RemoteGroupVersion[] {
    return [...this.#services.values()]
  }

  /** Returns the server of a group version; undefined if none is configured. */
  find(group: string, version: string): ApiService | undefined {
    return this.#services.get(`${group}/${version}`)
  }

  /**
   * Returns the error for a group version that an object names but no address is configured for; null for any other.
   */
  missing(group: string, version: string): ServiceUnavailableError | null {
    if (this.#named.size === 0) return null
    for (const [name, named] of this.#named) {
      if (named.group !== group || named.version !== version) continue
      return new ServiceUnavailableError(
        `${group}/${version} is served by the service ${named.service} (APIService ${name}): set its address with ` +
          `--apiservice ${group}/${version}=https://…`,
      )
    }
    return null
  }

  /** Records what an APIService object names. @param named null if the object is gone or names no service. */
  name(object: string, named: NamedService | null): void {
    const before = this.#named.get(object)
    if (named === null) return void this.#named.delete(object)
    this.#named.set(object, named)
    const { group, version, service } = named
    if (this.find(group, version) !== undefined || before?.service === service) return
    this.options.logger.warn(
      { apiService: object, service },
      'aggregated API is not served: its address is not set with --apiservice',
    )
  }

  start(): void {
    const { signal } = this.#stopping
    this.#running ??= Promise.all([...this.#services.values()].map((service) => service.follow(signal)))
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    for (const service of this.#services.values()) service.close()
    await this.#running
  }
}

interface ApiServiceOptions extends Omit<ApiServicesOptions, 'addresses'> {
  readonly group: string
  readonly version: string
  readonly passthrough: Passthrough
  readonly onChange: () => void
}

/** The server of one group version. */
export class ApiService implements RemoteGroupVersion {
  #resources: readonly object[] = []
  #isCurrent = false
  /** Why its resources are unknown; '' before the first poll, null once known. */
  #problem: string | null = ''
  #wake = new AbortController()

  constructor(private readonly options: ApiServiceOptions) {}

  get group(): string {
    return this.options.group
  }

  get version(): string {
    return this.options.version
  }

  get resources(): readonly object[] {
    return this.#resources
  }

  get isCurrent(): boolean {
    return this.#isCurrent
  }

  /** Like `Passthrough.pass`. @throws ServiceUnavailableError while the server is unreachable. */
  async pass(exchange: Exchange, caller: ForwardedCaller): Promise<void> {
    try {
      await this.options.passthrough.pass(exchange, caller)
    } catch (error) {
      // The failure is known before the next poll, so the next poll happens now.
      if (error instanceof ServiceUnavailableError && this.#isCurrent) {
        this.#lose(error.message)
        this.#wake.abort()
      }
      throw error
    }
  }

  async follow(signal: AbortSignal): Promise<void> {
    const { clock, random } = this.options
    signal.addEventListener('abort', () => this.#wake.abort(), { once: true })
    for (let attempt = 1; !signal.aborted;) {
      const isKnown = await this.#refresh(signal)
      if (isKnown) attempt = 1
      const waitMs = isKnown ? REFRESH_MS * (0.75 + random.next() / 2) : backoffMs(BACKOFF, attempt++, random)
      this.#wake = new AbortController()
      if (!signal.aborted) await sleep(clock, waitMs, this.#wake.signal)
    }
  }

  close(): void {
    this.options.passthrough.close()
  }

  async #refresh(signal: AbortSignal): Promise<boolean> {
    const { group, version, passthrough } = this.options
    try {
      const { status, body } = await passthrough.readDocument(`/apis/${group}/${version}`, AGGREGATOR, {
        maxBytes: MAX_DOCUMENT_BYTES,
        timeoutMs: REQUEST_TIMEOUT_MS,
        signal,
      })
      if (status !== 200) throw new Error(`it returned ${status}`)
      const resources = readResourceList(JSON.parse(body.toString('utf8')), group, version)
      if (resources === null) throw new Error('its response is not a list of resources')
      this.#take(resources)
      return true
    } catch (error) {
      if (!signal.aborted) this.#lose(errorMessage(error))
      return false
    }
  }

  #take(resources: readonly object[]): void {
    const { group, version, logger, onChange } = this.options
    const isSame = this.#isCurrent && JSON.stringify(this.#resources) === JSON.stringify(resources)
    this.#resources = resources
    this.#isCurrent = true
    if (this.#problem !== null)
      logger.info({ group, version, resources: resources.length }, 'aggregated API is available')
    this.#problem = null
    if (!isSame) onChange()
  }

  #lose(reason: string): void {
    const { group, version, logger, onChange } = this.options
    if (this.#problem === null || this.#problem === '') {
      logger.warn({ group, version, reason }, 'discovery of an aggregated API failed')
    }
    this.#problem = reason
    if (!this.#isCurrent) return
    this.#isCurrent = false
    onChange()
  }
}
