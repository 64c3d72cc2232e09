/**
 * A file that is read again when it changes. The file is polled every few seconds instead of being watched through the
 * operating system. Kubernetes swaps mounted secrets by renaming a symbolic link two levels up, which `fs.watch` on the
 * file never sees. After a missed change, a revoked permission would stay in force.
 *
 * A program that writes a file in place empties it first. Half a file would be half a policy, or a configuration with
 * only defaults. So a change takes effect only after two reads have found the same content.
 */
import type { Ambient } from '../../support/ambient.js'
import type { FileMetrics } from '../metrics/process-metrics.js'
import { readRegularFile } from './read-regular-file.js'
import type { Timer } from '../../support/clock.js'
import { errorMessage } from '../../support/error-message.js'

/** The largest file that is read. Certificates, tokens and policies are small; a larger file is a mistake. */
export const MAX_FILE_BYTES = 16 * 2 ** 20

export interface WatchedFilesOptions extends Pick<Ambient, 'clock' | 'logger'> {
  readonly paths: readonly string[]
  /** The contents in use at the start. Default: the files' own. */
  readonly contents?: readonly Buffer[] | undefined
  /** Default: 2 s, which is short enough to apply a change "within seconds". */
  readonly intervalMs?: number
  /** Records whether the files can be used, whenever that changes. */
  readonly metrics?: FileMetrics | undefined
  /** Default: reads a regular file of at most 16 MiB. */
  readonly readFile?: (path: string) => Buffer
}

/** Something that may be replaced while it is in use. */
export interface Watched<T> {
  readonly value: T
  onChange(listener: (value: T) => void): () => void
  close(): void
}

/** The delay before a changed file is read a second time. */
const SETTLE_MS = 100

/**
 * Parses files that belong together (a certificate and its key), now and whenever one of them changes. If new content
 * cannot be parsed, the server logs this once and keeps the last good content.
 */
export class WatchedFiles<T> implements Watched<T> {
  #value: T
  #seen: readonly Buffer[]
  /** The content last read, if it is not the one in force. */
  #changing: readonly Buffer[] | null = null
  #timer: Timer
  #isUnreadable = false
  /** Whether the content that was last read is not in force, because it cannot be parsed. */
  #isInvalid = false
  #isClosed = false
  readonly #listeners = new Set<(value: T) => void>()

  /** @throws any error of reading or `parse`, so that the server does not start with a broken file. */
  constructor(
    private readonly options: WatchedFilesOptions,
    private readonly parse: (...contents: Buffer[]) => T,
  ) {
    this.#seen = options.contents ?? this.#read()
    this.#value = parse(...this.#seen)
    this.#reportUsable()
    this.#timer = this.#schedule()
  }

  get value(): T {
    return this.#value
  }

  onChange(listener: (value: T) => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** The contents have been taken already, or rejected; only other ones are a change. */
  took(contents: readonly Buffer[]): void {
    this.#seen = contents
    this.#changing = null
  }

  close(): void {
    this.#isClosed = true
    this.#timer.cancel()
    this.#listeners.clear()
  }

  #schedule(): Timer {
    const { clock, intervalMs = 2_000 } = this.options
    const delayMs = this.#changing === null ? intervalMs : Math.min(SETTLE_MS, intervalMs)
    return clock.setTimer(delayMs, () => {
      this.#look()
      if (!this.#isClosed) this.#timer = this.#schedule()
    })
  }

  #look(): void {
    const { paths, logger } = this.options
    let contents: readonly Buffer[]
    try {
      contents = this.#read()
    } catch (error) {
      this.#changing = null
      // While files are swapped, one can be missing for a moment. A file that stays missing is logged once.
      if (this.#isUnreadable) return
      this.#isUnreadable = true
      this.#reportUsable()
      logger.warn(
        { paths, reason: errorMessage(error) },
        'a watched file cannot be read; its previous content stays in use',
      )
      return
    }
    if (this.#isUnreadable) {
      this.#isUnreadable = false
      this.#reportUsable()
      logger.info({ paths }, 'a watched file can be read again')
    }
    const isSettled = this.#changing !== null && areEqual(contents, this.#changing)
    const isSeen = areEqual(contents, this.#seen)
    this.#changing = isSeen || isSettled ? null : contents
    // Parsing may read more files. If it failed while they were being swapped, it is retried.
    if (!isSettled && !(isSeen && this.#isInvalid)) return
    this.#seen = contents
    try {
      this.#value = this.parse(...contents)
      this.#isInvalid = false
    } catch (error) {
      if (isSeen && this.#isInvalid) return
      this.#isInvalid = true
      this.#reportUsable()
      logger.error(
        { paths, reason: errorMessage(error) },
        'a changed file is invalid; its previous content stays in use',
      )
      return
    }
    this.#reportUsable()
    logger.info({ paths }, 'a changed file was read')
    for (const listener of this.#listeners) listener(this.#value)
  }

  #read(): readonly Buffer[] {
    const { paths, readFile = (path) => readRegularFile(path, MAX_FILE_BYTES) } = this.options
    return paths.map((path) => readFile(path))
  }

  #reportUsable(): void {
    const { paths, metrics } = this.options
    metrics?.filesUsable(paths.join(', '), Number(!this.#isUnreadable && !this.#isInvalid))
  }
}

function areEqual(contents: readonly Buffer[], others: readonly Buffer[]): boolean {
  return contents.every((content, i) => others[i]?.equals(content) === true)
}
