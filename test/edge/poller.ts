/** A client of long polls that shows what it has seen, so that it can be compared with what was written. */
import http from 'node:http'

export const FLAGS = '/apis/distributary.io/v1/flags'

interface Flag {
  readonly metadata: { readonly name: string; readonly resourceVersion: string }
  readonly value: number
}

interface Answer {
  readonly code: number
  readonly history: string
  readonly position: string
  readonly body: string
}

/** Lists, then polls from where the list ends, again and again; after a 410 it lists again. */
export class Poller {
  /** Revisions of events since the last list, which ends `from`. */
  seen: number[] = []
  from = 0
  position = 0
  lists = 0
  /** `name=value@revision` by name. */
  readonly #state = new Map<string, string>()
  /** The history that the last 410 named. */
  #renewed = ''
  #named = ''
  #cursor = ''
  #isStopped = false
  readonly #url: string
  readonly #agent: http.Agent
  readonly #running: Promise<void>
  #request: http.ClientRequest | null = null
  readonly #onSegment: (poller: Poller) => void
  readonly #onState: (poller: Poller) => void

  /** @param onSegment called before each further list, and at the end. @param onState called after each response. */
  constructor(
    url: string,
    agent: http.Agent,
    {
      onSegment,
      onState = () => {},
    }: { readonly onSegment: (poller: Poller) => void; readonly onState?: (poller: Poller) => void },
  ) {
    this.#url = url
    this.#agent = agent
    this.#onSegment = onSegment
    this.#onState = onState
    this.#running = this.#run()
  }

  /** The objects that it holds. */
  get state(): string {
    return [...this.#state.values()].toSorted().join(' ')
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    this.#request?.destroy()
    await this.#running
    this.#onSegment(this)
  }

  async #run(): Promise<void> {
    let mustList = true
    while (!this.#isStopped) {
      try {
        mustList = mustList ? !(await this.#list()) : !(await this.#poll())
      } catch {
        // The cache or the server is away.
        await new Promise((resolve) => setTimeout(resolve, 50))
      }
    }
  }

  async #list(): Promise<boolean> {
    const { code, body, position } = await this.#get(`${FLAGS}?history=${this.#renewed}`)
    if (code !== 200 || position === '') throw new Error(`a list: ${code}`)
    const { metadata, items } = JSON.parse(body) as {
      readonly metadata: { readonly resourceVersion: string }
      readonly items: readonly Flag[]
    }
    if (this.lists > 0) this.#onSegment(this)
    this.seen = []
    this.#named = position
    this.#cursor = ''
    this.from = this.position = Number(metadata.resourceVersion)
    this.#state.clear()
    for (const item of items) this.#keep('ADDED', item)
    this.lists++
    this.#onState(this)
    return true
  }

  /** @returns false when it has to list again. */
  async #poll(): Promise<boolean> {
    const query = `watch=1&resourceVersion=${this.position}&wait=50s&history=${this.#named}${this.#cursor}`
    const { code, body, history } = await this.#get(`${FLAGS}?${query}`)
    if (code === 410) {
      this.#renewed = history
      return false
    }
    if (code !== 200) throw new Error(`a poll: ${code}`)
    const { metadata, events } = JSON.parse(body) as {
      readonly metadata: { readonly resourceVersion: string; readonly history: string; readonly cursor?: string }
      readonly events: readonly { readonly type: string; readonly object: Flag }[]
    }
    for (const { type, object } of events) {
      this.seen.push(Number(object.metadata.resourceVersion))
      this.#keep(type, object)
    }
    this.#named = metadata.history
    this.#cursor = metadata.cursor === undefined ? '' : `&cursor=${metadata.cursor}`
    this.position = Number(metadata.resourceVersion)
    this.#onState(this)
    return true
  }

  #keep(type: string, { metadata: { name, resourceVersion }, value }: Flag): void {
    if (type === 'DELETED') this.#state.delete(name)
    else this.#state.set(name, `${name}=${value}@${resourceVersion}`)
  }

  #get(path: string): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#request = http.get(
        this.#url + path,
        { agent: this.#agent, headers: { accept: 'application/json' } },
        (response) => {
          let body = ''
          response.setEncoding('utf8')
          response.on('data', (text: string) => (body += text))
          response.on('end', () =>
            resolve({
              code: response.statusCode ?? 0,
              history: String(response.headers['x-distributary-history'] ?? ''),
              position: String(response.headers['x-distributary-position'] ?? ''),
              body,
            }),
          )
          response.on('error', reject)
        },
      )
      this.#request.on('error', reject)
    })
  }
}
