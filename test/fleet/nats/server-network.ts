/**
 * NATS servers in memory that forward what they receive: for tests that cut links between them while a virtual clock
 * runs.
 */
import type { WatchView } from '../../../src/fleet/nats/server-watch.js'

interface Listener {
  readonly server: string
  readonly subject: string
  readonly onMessage: (data: Buffer) => void
}

export class ServerNetwork {
  readonly servers: readonly string[]
  /** The servers with open connections, one entry per connection. */
  readonly open: string[] = []
  readonly #listeners = new Set<Listener>()
  readonly #lost = new Set<string>()
  readonly #silent = new Set<string>()
  readonly #down = new Set<string>()
  readonly #views = new Set<{ readonly serverName: string; isConnected: boolean }>()

  constructor(...servers: readonly string[]) {
    this.servers = servers
  }

  cut(one: string, other: string): this {
    this.#lost.add(linkOf(one, other))
    return this
  }

  join(one: string, other: string): void {
    this.#lost.delete(linkOf(one, other))
  }

  /** Makes the server deaf and silent, although its connections stay open. */
  stop(server: string): void {
    this.#silent.add(server)
  }

  wake(server: string): void {
    this.#silent.delete(server)
  }

  hasStopped(server: string): boolean {
    return this.#silent.has(server)
  }

  /** Closes the server's connections, and accepts no new ones. */
  kill(server: string): void {
    this.#down.add(server)
    for (const view of this.#views) if (view.serverName === server) view.isConnected = false
  }

  restart(server: string): void {
    this.#down.delete(server)
  }

  /** @throws Error where nothing listens. */
  view(server: string): WatchView {
    if (this.#down.has(server)) throw new Error('refused')
    this.open.push(server)
    const view = {
      serverName: server,
      isConnected: true,
      publish: (subject: string, data: Buffer): void => {
        for (const listener of this.#listeners) {
          if (listener.subject === subject && this.#passes(server, listener.server)) listener.onMessage(data)
        }
      },
      subscribe: (subject: string, onMessage: (data: Buffer) => void) => {
        const listener = { server, subject, onMessage }
        this.#listeners.add(listener)
        return { close: () => void this.#listeners.delete(listener) }
      },
      close: async (): Promise<void> => {
        if (this.#views.delete(view)) this.open.splice(this.open.indexOf(server), 1)
      },
    }
    this.#views.add(view)
    return view
  }

  #passes(from: string, to: string): boolean {
    return !this.#silent.has(from) && !this.#silent.has(to) && !this.#lost.has(linkOf(from, to))
  }
}

function linkOf(...servers: readonly string[]): string {
  return [...servers].sort().join(' ')
}
