/**
 * Wraps the logger pino. It writes JSON lines for machines or readable lines for people, both to standard error.
 *
 * When output cannot be written (a full disk, a broken pipe), lines are lost, but the server keeps running.
 */
import { Writable } from 'node:stream'
import { type Logger as Pino, destination, pino } from 'pino'

export interface LoggerOptions {
  readonly level: string
  readonly format: 'json' | 'text'
  /** The number of this worker, added to each of its lines; null in a single-process server and in the primary. */
  readonly worker: number | null
}

/** The most bytes of lines that wait while the disk is full; further lines are lost. */
const MAX_WAITING_BYTES = 2 ** 20

export function createLogger(options: LoggerOptions): Pino {
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})
  const sink = options.format === 'json' ? jsonLines() : textLines()
  return pino({ level: options.level, base: options.worker === null ? null : { worker: options.worker } }, sink)
}

function jsonLines(): ReturnType<typeof destination> {
  const lines = destination({ fd: 2, sync: true, maxLength: MAX_WAITING_BYTES })
  lines.on('error', () => {})
  return lines
}

const LEVELS: Readonly<Record<number, string>> = { 20: 'debug', 30: 'info', 40: 'WARN', 50: 'ERROR', 60: 'FATAL' }

function textLines(): Writable {
  return new Writable({
    write(chunk: Buffer, _encoding, done) {
      process.stderr.write(`${textLine(chunk.toString())}\n`)
      done()
    },
  })
}

function textLine(line: string): string {
  const { level, time, msg, ...fields } = JSON.parse(line) as { level: number; time: number; msg?: string }
  const details = Object.entries(fields).map(
    ([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
  )
  return [new Date(time).toISOString(), (LEVELS[level] ?? String(level)).padEnd(5), msg ?? '', ...details].join(' ')
}
