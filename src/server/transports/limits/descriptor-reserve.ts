/**
 * Refuses connections while the process still has file descriptors for its own use: to reach etcd again, to forward
 * requests, to reload files. Without a free descriptor, libuv resets new connections, and Node reports that nowhere.
 *
 * Counting connections is cheap; counting open descriptors would read a folder of /proc for each of them.
 */
import { readFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import type { Clock } from '../../../support/clock.js'
import type { Logger } from '../../../support/log.js'
import { DESCRIPTOR_RESERVE, DESCRIPTOR_RESERVE_SHARE, MAX_DESCRIPTOR_RESERVE } from '../../limits/fixed-limits.js'

/** The part of the reserve for connections to the metrics port, so that it answers while the others refuse. */
const METRICS_SHARE = 1 / 4
const LOG_GAP_MS = 60_000

export interface DescriptorReserveOptions {
  readonly clock: Pick<Clock, 'monotonic'>
  readonly logger: Pick<Logger, 'warn'>
  readonly maxConnections: number
  /** Called for each connection that is refused. */
  readonly onRejected: () => void
}

export class DescriptorReserve {
  #connections = 0
  #loggedMs = Number.NEGATIVE_INFINITY

  constructor(private readonly options: DescriptorReserveOptions) {}

  /** Counts an accepted connection, or closes it and returns false. */
  admits(socket: Socket): boolean {
    const { clock, logger, maxConnections, onRejected } = this.options
    if (this.#connections < maxConnections) {
      this.#connections++
      socket.once('close', () => this.#connections--)
      return true
    }
    socket.destroy()
    onRejected()
    if (clock.monotonic() - this.#loggedMs >= LOG_GAP_MS) {
      this.#loggedMs = clock.monotonic()
      logger.warn({ maxConnections }, 'connections are refused, because too few file descriptors are left')
    }
    return false
  }
}

/** Returns how many connections the ports for clients may have together, and how many the metrics port. */
export function maxConnections(descriptors: number): { readonly clients: number; readonly metrics: number } {
  const reserve = Math.min(
    DESCRIPTOR_RESERVE + Math.floor(descriptors * DESCRIPTOR_RESERVE_SHARE),
    MAX_DESCRIPTOR_RESERVE,
  )
  return { clients: Math.max(1, descriptors - reserve), metrics: Math.floor(reserve * METRICS_SHARE) }
}

/** Returns how many descriptors this process may have. Node itself has raised the soft limit as far as it goes. */
export function descriptorLimit(): number {
  try {
    const [, soft = ''] = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? []
    return soft === '' ? Number.POSITIVE_INFINITY : Number(soft)
  } catch {
    // Only Linux has this file.
    return Number.POSITIVE_INFINITY
  }
}
