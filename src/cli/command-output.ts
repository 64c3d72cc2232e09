/**
 * The stdout and stderr of a command, and the properties of the terminal. A reader that has exited (EPIPE, as with `|
 * head`) is not an error; `onClosed` reports it.
 */
import { once } from 'node:events'
import type { WriteStream } from 'node:tty'

export interface OutputOptions {
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly onClosed: () => void
}

type Stream = NodeJS.WritableStream & Partial<Pick<WriteStream, 'isTTY' | 'columns' | 'rows' | 'writableNeedDrain'>>

const COLORS = { red: 31, green: 32, yellow: 33 } as const

export class Output {
  readonly #stream: Stream
  readonly #environment: OutputOptions['environment']
  #isClosed = false

  constructor(stream: Stream, { environment, onClosed }: OutputOptions) {
    this.#stream = stream
    this.#environment = environment
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE' && error.code !== 'EIO') throw error
      this.#isClosed = true
      onClosed()
    })
  }

  /** Resolves when more may be written. So the command waits for a slow reader instead of buffering. */
  async write(text: string | Uint8Array): Promise<void> {
    if (this.#isClosed || this.#stream.write(text)) return
    await once(this.#stream as NodeJS.EventEmitter, 'drain')
  }

  async line(text: string): Promise<void> {
    await this.write(`${text}\n`)
  }

  get isTerminal(): boolean {
    return this.#stream.isTTY === true && this.#environment['TERM'] !== 'dumb'
  }

  /** Colours a text for a person. Programs get it as it is, and so do people who set NO_COLOR (no-color.org). */
  painted(text: string, color: keyof typeof COLORS | undefined): string {
    if (color === undefined || !this.isTerminal || (this.#environment['NO_COLOR'] ?? '') !== '') return text
    return `\u001b[${COLORS[color]}m${text}\u001b[0m`
  }

  /** The width of the terminal; 80 if there is no terminal. */
  get columns(): number {
    return this.#stream.columns ?? 80
  }

  get rows(): number {
    return this.#stream.rows ?? 24
  }
}
