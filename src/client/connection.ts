/**
 * Tracks whether an informer's state is current, as far as the server's responses show. A page displays this, and must
 * show nothing to a reader whom the server has refused.
 */
import type { ReflectorStatus } from './reflector/reflector.js'
import type { Transport } from './reflector/transport.js'

export class Connection {
  readonly #onChange: () => void
  #isLive = false
  #isRefused = false

  constructor(onChange: () => void) {
    this.#onChange = onChange
  }

  /** Whether the informer is receiving changes. */
  get isLive(): boolean {
    return this.#isLive
  }

  /**
   * Whether the last response was 401 or 403. An error inside a stream is ignored here, because the next request may
   * carry a newer token.
   */
  get isRefused(): boolean {
    return this.#isRefused
  }

  transport(transport: Transport): Transport {
    return {
      send: async (request) => {
        const response = await transport.send(request)
        const { status } = response
        const isWatch = request.query['watch'] !== undefined && request.query['sendInitialEvents'] === undefined
        if (status === 401 || status === 403) this.#set(false, true)
        else if (status === 200) this.#set(this.#isLive || isWatch, false)
        return response
      },
    }
  }

  /** @param before the previous state of the reflector. */
  moved(before: ReflectorStatus['state'], state: ReflectorStatus['state']): void {
    if (state !== 'watching') this.#set(false, this.#isRefused)
    else if (before === 'listing' || before === 'streaming') this.#set(true, this.#isRefused)
  }

  #set(isLive: boolean, isRefused: boolean): void {
    if (isLive === this.#isLive && isRefused === this.#isRefused) return
    this.#isLive = isLive
    this.#isRefused = isRefused
    this.#onChange()
  }
}
