/**
 * Writes one JSON line for each request: the caller, the request, the outcome, and the rule that allowed it. Only the
 * fields of `AuditRecord` are written, never headers, bodies or the query, because those may contain tokens. Rotation
 * is left to the platform, which moves the file and sends SIGHUP (`reopen`).
 *
 * The queue to the disk is bounded. When it is full, or the file cannot be written, lines are dropped and counted,
 * because a full disk must not stop the server. The file is reopened every few seconds until lines can be written, and
 * a line in it says how many were dropped, as does the process log. A full disk may have torn the last line, so the next
 * one then begins on a new line.
 */
import type { Ambient } from '../../support/ambient.js'
import fs from 'node:fs'
import type { Writable } from 'node:stream'

import type { Clock } from '../../support/clock.js'
import { AUDIT_QUEUE_BYTES } from '../limits/fixed-limits.js'
import type { Attributes } from './authz/authorizer.js'

type Requested = Pick<Attributes, 'verb' | 'group' | 'resource' | 'subresource' | 'namespace' | 'name'>

export interface AuditRecord extends Requested {
  readonly user: string
  readonly groups: readonly string[]
  /** The impersonated user, whose permissions applied; absent without impersonation. */
  readonly impersonatedUser?: string
  readonly impersonatedGroups?: readonly string[]
  readonly sourceAddress: string
  readonly userAgent: string
  readonly transport: string
  /** The path without the query. */
  readonly path: string
  readonly code: number
  /** The time from the request's arrival to its end; for a watch, its whole life. */
  readonly latencySeconds: number
  readonly decision: 'allow' | 'forbid' | 'unauthenticated' | 'none'
  /** The rule that allowed the request; null when no rule did. */
  readonly rule: string | null
}

export type AuditLog = Readonly<ReturnType<typeof openAuditLog>>

export interface AuditLogOptions extends Pick<Ambient, 'clock' | 'logger'> {
  /** The file to which lines are appended, or '-' for standard output. */
  readonly path: string
  /** The stream that '-' writes to; tests pass their own. */
  readonly stdout: Writable
}

/** How long to wait before reopening a file that could not be written. */
const RETRY_MS = 5_000
const APPENDING = fs.constants.O_WRONLY | fs.constants.O_APPEND | fs.constants.O_CREAT | fs.constants.O_NONBLOCK
/** How long a pipe may accept no data before the write fails. */
const MAX_FULL_MS = 5_000
const FULL_PAUSE_MS = 20
/** The caller chooses these strings, so their length is limited. */
const MAX_TEXT = 1_024
/**
 * Several workers append to one file or pipe. A single write to a file is atomic at any size, but a write to a pipe is
 * atomic only up to this size (PIPE_BUF on Linux), so no line is longer.
 */
const MAX_LINE_BYTES = 4_096
/** The most bytes of each string, and of all groups, in a line that would otherwise be too long. */
const MAX_SHORT_TEXT_BYTES = 300
const MAX_SHORT_GROUPS_BYTES = 700

export function openAuditLog({ path, clock, logger, stdout }: AuditLogOptions) {
  let isFailing = false
  let failedAtMs = 0
  let stream = open()
  /** The files before a `reopen`, which may still be written to. */
  let former: Promise<unknown> = Promise.resolve()
  let dropped = 0
  let unreported = 0
  let isTorn = false

  function open(): Writable {
    if (path === '-') return stdout
    const opened = fs.createWriteStream(path, { mode: 0o600, fs: patientFiles(clock) })
    opened.on('error', (error) => {
      failedAtMs = clock.monotonic()
      if (!isFailing) logger.error({ path, reason: error.message }, 'the audit log cannot be written')
      isFailing = true
    })
    return opened
  }

  function takesLines(): boolean {
    if (stream.writableLength > AUDIT_QUEUE_BYTES) return false
    if (!stream.destroyed) return true
    if (clock.monotonic() - failedAtMs < RETRY_MS) return false
    stream = open()
    isTorn = endsTorn(path)
    return true
  }

  function line(fields: object, onLost: () => void, reported = 0): void {
    const time = new Date(clock.now()).toISOString()
    const whole = `${JSON.stringify({ time, ...fields })}\n`
    const isShort = Buffer.byteLength(whole) <= MAX_LINE_BYTES
    const start = isTorn ? '\n' : ''
    isTorn = false
    stream.write(start + (isShort ? whole : `${JSON.stringify({ time, ...shortened(fields) })}\n`), (error) => {
      if (error) return onLost()
      if (isFailing || reported > 0) logger.info({ path, dropped: reported }, 'the audit log can be written again')
      isFailing = false
    })
  }

  function drop(): void {
    dropped++
    unreported++
  }

  function reopen(): void {
    if (path === '-') return
    // Without a result, because each would contain the one before it.
    former = Promise.all([former, ended(stream)]).then(() => {})
    stream = open()
  }

  return {
    get dropped() {
      return dropped
    },
    write(record: AuditRecord): void {
      if (!takesLines()) return drop()
      if (unreported > 0) {
        const reported = unreported
        unreported = 0
        line({ dropped: reported }, () => (unreported += reported), reported)
      }
      const { user, impersonatedUser, userAgent, name } = record
      const fields = {
        ...record,
        user: short(user),
        ...(impersonatedUser === undefined ? {} : { impersonatedUser: short(impersonatedUser) }),
        userAgent: short(userAgent),
        name: short(name),
        path: short(withoutQuery(record.path)),
      }
      line(fields, drop)
    },
    /** Opens the file again, after the platform has moved it. */
    reopen,
    async close(): Promise<void> {
      if (path !== '-') await Promise.all([former, ended(stream)])
    },
  }
}

/** Resolves when everything has been written, or cannot be. */
function ended(stream: Writable): Promise<void> {
  return new Promise((resolve) => {
    if (stream.destroyed) resolve()
    else stream.end(() => resolve())
  })
}

/** Whether the file's last line has no end. */
function endsTorn(path: string): boolean {
  let descriptor: number | null = null
  try {
    descriptor = fs.openSync(path, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK)
    const { size } = fs.fstatSync(descriptor)
    const last = Buffer.alloc(1)
    return size > 0 && fs.readSync(descriptor, last, 0, 1, size - 1) === 1 && last.toString() !== '\n'
  } catch {
    return false
  } finally {
    if (descriptor !== null) fs.closeSync(descriptor)
  }
}

type Opened = (error: Error | null, descriptor: number) => void
type Written = (error: NodeJS.ErrnoException | null, bytes: number, data: unknown) => void

/**
 * Opens a named pipe without waiting for its reader, and waits for a slow reader with a timer. Otherwise either wait
 * would block one of the few threads that read and write all files.
 */
function patientFiles(clock: Clock) {
  const untilTaken = (write: (done: Written) => void, done: Written, leftMs = MAX_FULL_MS): void =>
    write((error, bytes, data) => {
      if (error?.code !== 'EAGAIN') return done(error, bytes, data)
      if (leftMs <= 0) return done(new Error('nothing reads from the pipe'), 0, data)
      clock.setTimer(FULL_PAUSE_MS, () => untilTaken(write, done, leftMs - FULL_PAUSE_MS))
    })
  return {
    open: (path: string, _flags: unknown, mode: number, done: Opened) =>
      fs.open(path, APPENDING, mode, (error, descriptor) =>
        done(error?.code === 'ENXIO' ? new Error('nothing reads from the pipe') : error, descriptor),
      ),
    write: (fd: number, line: Buffer, offset: number, length: number, position: number | null, done: Written) =>
      untilTaken((taken) => fs.write(fd, line, offset, length, position, taken), done),
    writev: (fd: number, lines: readonly Buffer[], position: number | null, done: Written) =>
      untilTaken((taken) => fs.writev(fd, lines, position, taken), done),
    close: fs.close,
  }
}

/** Cuts the strings, keeps as many groups as fit, and says how many were left out. */
function shortened(fields: object): object {
  const short: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(fields)) {
    if (typeof value === 'string') short[name] = cut(value)
    else if (Array.isArray(value)) {
      const groups: string[] = []
      let bytes = 0
      for (const group of value.map((one) => cut(String(one)))) {
        bytes += written(group) + 1
        if (bytes > MAX_SHORT_GROUPS_BYTES) break
        groups.push(group)
      }
      short[name] = groups
      if (groups.length < value.length) short[`${name}LeftOut`] = value.length - groups.length
    } else short[name] = value
  }
  return short
}

function cut(text: string): string {
  if (written(text) <= MAX_SHORT_TEXT_BYTES) return text
  let length = Math.min(text.length, MAX_SHORT_TEXT_BYTES)
  while (written(`${text.slice(0, length)}…`) > MAX_SHORT_TEXT_BYTES) length = Math.floor(length * 0.8)
  return `${text.slice(0, length)}…`
}

/** The size of a string in JSON, in bytes; one character can take six. */
function written(text: string): number {
  return Buffer.byteLength(JSON.stringify(text))
}

function short(text: string): string {
  return text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…` : text
}

function withoutQuery(path: string): string {
  const query = path.search(/[?#]/)
  return query === -1 ? path : path.slice(0, query)
}
