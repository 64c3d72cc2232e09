/**
 * Rotates the file of the access log as the API server's library does (lumberjack): at a size the file is renamed to
 * `NAME-TIME.EXT`, and the renamed files that are too many or too old are deleted.
 *
 * Several worker processes append to one file. Each looks once a second whether another has renamed it, so a line goes
 * either into the file or, for a moment, into the one that was just renamed, and none is lost.
 */
import { existsSync, readdirSync, renameSync, statSync, unlinkSync } from 'node:fs'
import { basename, dirname, extname, join } from 'node:path'
import type { Clock } from '../../support/clock.js'
import type { Logger } from '../../support/log.js'
import { errorMessage } from '../../support/error-message.js'

export interface RotationLimits {
  /** The file is renamed before a line would make it longer. */
  readonly maxBytes: number
  /** Renamed files that are older are deleted; 0: none is for its age. */
  readonly maxAgeMs: number
  /** The number of renamed files that are kept; 0: all. */
  readonly maxBackups: number
}

export interface LogRotationOptions extends RotationLimits {
  readonly path: string
  readonly clock: Clock
  readonly logger: Logger
}

const TIME = /^\d{4}-\d{2}-\d{2}T\d{2}-\d{2}-\d{2}\.\d{3}$/

export class LogRotation {
  readonly #options: LogRotationOptions
  /** Of the file, with the lines that are on their way to it. */
  #bytes: number
  /** The file that is written to, where it is known. */
  #inode: number | null = null

  constructor(options: LogRotationOptions) {
    this.#options = options
    this.#bytes = statOf(options.path)?.size ?? 0
    this.#deleteOld()
  }

  /** Counts a line that is about to be written. @returns whether the file was renamed, and has to be opened again first. */
  makeRoom(lineBytes: number): boolean {
    const { maxBytes } = this.#options
    // Until the file is open nothing is known of it; what waits meanwhile is bounded.
    if (this.#inode === null || this.#bytes === 0 || this.#bytes + lineBytes <= maxBytes) {
      this.#bytes += lineBytes
      return false
    }
    const isNew = this.wasMoved() || (this.#bytes + lineBytes > maxBytes && this.#rotate())
    // After a failure the next attempt comes when as much again has been written.
    this.#bytes = lineBytes + (isNew ? 0 : this.#bytes % maxBytes)
    return isNew
  }

  /** The file was opened. */
  opened(inode: number): void {
    this.#inode = inode
  }

  /** Whether somebody else has renamed the file, so that it has to be opened again. */
  wasMoved(): boolean {
    if (this.#inode === null) return false
    const found = statOf(this.#options.path)
    if (found !== null) this.#bytes = found.size
    if (found?.ino === this.#inode) return false
    this.#inode = null
    return true
  }

  #rotate(): boolean {
    const { path, clock, logger } = this.#options
    try {
      let atMs = clock.now()
      while (existsSync(this.#backup(atMs))) atMs++
      renameSync(path, this.#backup(atMs))
    } catch (error) {
      logger.error({ path, reason: errorMessage(error) }, 'the audit log cannot be rotated')
      return false
    }
    this.#inode = null
    this.#deleteOld()
    return true
  }

  #deleteOld(): void {
    const { path, clock, logger, maxAgeMs, maxBackups } = this.#options
    const folder = dirname(path)
    const { start, end } = namesOf(path)
    try {
      const times = readdirSync(folder)
        .filter((file) => file.startsWith(start) && file.endsWith(end))
        .map((file) => file.slice(start.length, file.length - end.length))
        .filter((time) => TIME.test(time))
        .toSorted()
        .toReversed()
      for (const [index, time] of times.entries()) {
        const isTooOld = maxAgeMs > 0 && clock.now() - parseTime(time) > maxAgeMs
        if (!isTooOld && (maxBackups === 0 || index < maxBackups)) continue
        unlinkSync(join(folder, start + time + end))
      }
    } catch (error) {
      // Another worker may have deleted it a moment before.
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return
      logger.error({ path, reason: errorMessage(error) }, 'old audit logs cannot be deleted')
    }
  }

  #backup(atMs: number): string {
    const { path } = this.#options
    const { start, end } = namesOf(path)
    const time = new Date(atMs).toISOString().slice(0, -1).replaceAll(':', '-')
    return join(dirname(path), start + time + end)
  }
}

/** `audit.log` → `audit-`, `.log`. */
function namesOf(path: string): { readonly start: string; readonly end: string } {
  const end = extname(path)
  return { start: `${basename(path, end)}-`, end }
}

function parseTime(time: string): number {
  const [date = '', clockTime = ''] = time.split('T')
  return Date.parse(`${date}T${clockTime.replaceAll('-', ':')}Z`)
}

function statOf(path: string): { readonly size: number; readonly ino: number } | null {
  return statSync(path, { throwIfNoEntry: false }) ?? null
}
