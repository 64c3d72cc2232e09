/**
 * Wraps the logger pino. It writes JSON lines for machines or readable lines for people, both to standard error.
 *
 * When output cannot be written (a full disk, a broken pipe), lines are lost, but the server keeps running.
 */
import { Writable } from 'node:stream'
import { type Logger as Pino, destination, pino } from 'pino'
import { textLine } from './text-line.js'

export interface LoggerOptions {
  readonly level: string
  /** null means text on a terminal, where a person reads it, and JSON elsewhere. */
  readonly format: 'json' | 'text' | null
  /** The number of this worker, added to each of its lines; null in a single-process server and in the primary. */
  readonly worker: number | null
}

/** The most bytes of lines that wait while the disk is full; further lines are lost. */
const MAX_WAITING_BYTES = 2 ** 20

export function createLogger(options: LoggerOptions): Pino {
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})
  const format = options.format ?? (process.stderr.isTTY ? 'text' : 'json')
  const sink = format === 'json' ? jsonLines() : textLines()
  return pino({ level: options.level, base: options.worker === null ? null : { worker: options.worker } }, sink)
}

function jsonLines(): ReturnType<typeof destination> {
  const lines = destination({ fd: 2, sync: true, maxLength: MAX_WAITING_BYTES })
  lines.on('error', () => {})
  return lines
}

function textLines(): Writable {
  return new Writable({
    write(chunk: Buffer, _encoding, done) {
      process.stderr.write(`${textLine(chunk.toString())}\n`)
      done()
    },
  })
}
