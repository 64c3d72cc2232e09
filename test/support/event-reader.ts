/** Reads watch events from a stream of bytes with one JSON object per line, over any transport. */
import type { Readable } from 'node:stream'

export interface SeenEvent {
  readonly type: string
  readonly object: {
    readonly kind: string
    readonly metadata: {
      readonly name?: string
      readonly namespace?: string
      readonly resourceVersion?: string
      readonly annotations?: Readonly<Record<string, string>>
    }
    readonly [member: string]: unknown
  }
}

export class EventReader {
  readonly events: SeenEvent[] = []
  /** How the stream ended; null while it runs. */
  ending: 'clean' | 'broken' | null = null
  #text = ''
  #wake: () => void = () => {}

  constructor(stream: Readable) {
    stream.setEncoding('utf8')
    stream.on('data', (text: string) => this.#push(text))
    stream.on('end', () => this.#end('clean'))
    stream.on('error', () => this.#end('broken'))
    stream.on('close', () => this.#end('broken'))
  }

  /** The first `count` events. @throws Error with the events so far when the stream ends or is silent before that. */
  async first(count: number, withinMs = 10_000): Promise<readonly SeenEvent[]> {
    await this.#until(() => this.events.length >= count, `${count} events`, withinMs)
    return this.events.slice(0, count)
  }

  /** All events, once the stream has ended. */
  async all(withinMs = 10_000): Promise<readonly SeenEvent[]> {
    await this.#until(() => this.ending !== null, 'the end of the stream', withinMs)
    return this.events
  }

  async #until(condition: () => boolean, what: string, withinMs: number): Promise<void> {
    const end = performance.now() + withinMs
    while (!condition()) {
      const leftMs = end - performance.now()
      if (leftMs <= 0 || this.ending !== null) {
        throw new Error(`waited for ${what}; ending ${this.ending}, seen: ${this.events.map(brief).join(', ')}`)
      }
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, leftMs)
        this.#wake = () => {
          clearTimeout(timer)
          resolve()
        }
      })
    }
  }

  #push(text: string): void {
    this.#text += text
    const lines = this.#text.split('\n')
    this.#text = lines.pop()!
    for (const line of lines) this.events.push(JSON.parse(line) as SeenEvent)
    this.#wake()
  }

  #end(ending: 'clean' | 'broken'): void {
    this.ending ??= ending
    this.#wake()
  }
}

/** `ADDED web-0@7`, for messages and for comparing order. */
export function brief({ type, object }: SeenEvent): string {
  return `${type} ${object.metadata.name ?? ''}@${object.metadata.resourceVersion ?? ''}`
}
