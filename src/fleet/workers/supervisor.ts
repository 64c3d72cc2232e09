/**
 * Starts the worker processes, replaces those that end, and ends them all together. The workers listen through
 * `node:cluster`, so they share ports; their data comes over a socket pair (descriptor 4), because the cluster's own
 * channel writes JSON.
 *
 * A worker that dies is replaced at once, or with back-off if it died soon after its start. If a worker gives up before
 * any worker has served, the server ends, because the reason (a port in use, a bad file) would be the same for the next
 * worker.
 */
import type { Ambient } from '../../support/ambient.js'
import cluster, { type Worker } from 'node:cluster'
import type { Duplex } from 'node:stream'
import { backoffMs } from '../../support/backoff.js'
import { longTimer, sleep, type Timer } from '../../support/clock.js'
import { errorMessage } from '../../support/error-message.js'
import type { Primary } from './primary.js'
import type { WorkerLink } from './worker-link.js'

/** The descriptor of a worker's socket to the primary, which follows the standard descriptors and the cluster's own. */
export const LINK_DESCRIPTOR = 4

export interface SupervisorOptions extends Ambient {
  readonly workers: number
  readonly primary: Primary
  /**
   * Returns what a worker must know before it begins; the worker reads it from its standard input.
   * @param isReplacement whether other workers already serve, so this one may take its time.
   */
  readonly hello: (isReplacement: boolean) => string
  /** Workers that have not ended after this time are killed. */
  readonly graceMs: number
  readonly onRestart: () => void
  /** Called when clients can connect to the first worker. */
  readonly onServing: () => void
  /** Called when no worker could begin to serve, with the exit code of the one that gave up. */
  readonly onGivenUp: (code: number) => void
}

interface Running {
  readonly worker: Worker
  readonly link: WorkerLink
  readonly startedMs: number
  hasServed: boolean
  missesHangUp: boolean
}

const RESTART = { firstMs: 100, capMs: 10_000 }
/** A worker that lived this long was healthy. */
const HEALTHY_MS = 10_000

export class Supervisor {
  readonly #running = new Map<number, Running>()
  #attempt = 0
  #hasServed = false
  #isStopping = false
  #holder: Timer | null = null

  constructor(private readonly options: SupervisorOptions) {}

  start(): void {
    // With round robin the primary accepts connections, and one that it passes to a dying worker stays open and is
    // never answered. So the workers accept connections themselves, from the same socket.
    cluster.schedulingPolicy = cluster.SCHED_NONE
    cluster.setupPrimary({ stdio: ['pipe', 'inherit', 'inherit', 'ipc', 'pipe'] })
    // Between the end of the last worker and the next attempt, nothing else may keep the process alive.
    this.#holder = longTimer(Number.MAX_SAFE_INTEGER, () => {})
    for (let i = 0; i < this.options.workers; i++) this.#fork(false)
  }

  /**
   * Sends SIGHUP to all workers. A worker that is still starting gets it once it serves, because one that came earlier
   * would end it or be ignored.
   */
  hangUp(): void {
    for (const running of this.#running.values()) {
      if (running.hasServed) running.worker.process.kill('SIGHUP')
      else running.missesHangUp = true
    }
  }

  /** Ends the workers, which end their watches first, spread over the grace period; kills those that are late. */
  async stop(): Promise<void> {
    this.#isStopping = true
    const { clock, graceMs, logger } = this.options
    const ended = [...this.#running.values()].map(
      ({ worker }) => new Promise<void>((resolve) => void worker.once('exit', () => resolve())),
    )
    for (const { worker } of this.#running.values()) worker.process.kill('SIGTERM')
    const late = new AbortController()
    await Promise.race([Promise.all(ended), sleep(clock, graceMs, late.signal)])
    late.abort()
    for (const { worker } of this.#running.values()) {
      logger.warn({ worker: worker.process.pid }, 'worker did not stop in time; killing it')
      worker.process.kill('SIGKILL')
    }
    await Promise.all(ended)
    this.#holder?.cancel()
  }

  #fork(isReplacement: boolean): void {
    const { primary, hello, clock, logger } = this.options
    let worker: Worker
    try {
      worker = cluster.fork()
    } catch (error) {
      // Out of memory.
      logger.warn({ reason: errorMessage(error) }, 'a worker process could not be created')
      return this.#notMade(isReplacement)
    }
    // A process that could not be created has no `pid`, and no 'exit' follows; without descriptors, no `stdio` either.
    const stdio = worker.process.stdio as readonly unknown[] | undefined
    const socket = stdio?.[LINK_DESCRIPTOR] as Duplex | null | undefined
    if (socket === null || socket === undefined || worker.process.pid === undefined) {
      worker.on('error', () => {})
      if (worker.process.pid !== undefined) worker.process.kill('SIGKILL')
      socket?.on('error', () => {}).destroy()
      return this.#notMade(isReplacement)
    }
    // A worker that dies before it has read this is replaced like any other.
    worker.process.stdin!.on('error', () => {}).end(hello(isReplacement))
    const link = primary.attach(socket, {
      onStarted: () => this.#started(worker.id),
      onBug: (error) =>
        logger.error({ worker: worker.process.pid, err: error }, 'a message from a worker could not be processed'),
      onClosed: (reason) => {
        if (this.#isStopping || worker.isDead()) return
        logger.warn({ worker: worker.process.pid, reason }, 'connection to a worker closed; killing its process')
        worker.process.kill('SIGKILL')
      },
    })
    this.#running.set(worker.id, { worker, link, startedMs: clock.monotonic(), hasServed: false, missesHangUp: false })
    worker.once('exit', (code, signal) => this.#ended(worker.id, code, signal))
    worker.on('error', (error) => logger.warn({ worker: worker.process.pid, reason: error.message }, 'worker failed'))
  }

  #notMade(isReplacement: boolean): void {
    const { clock, logger, random, onGivenUp } = this.options
    if (!isReplacement && !this.#hasServed) {
      logger.error({}, 'a worker process could not be started')
      this.#isStopping = true
      return onGivenUp(1)
    }
    const delayMs = backoffMs(RESTART, ++this.#attempt, random)
    logger.warn({ restartMs: Math.round(delayMs) }, 'worker process could not be started; retrying')
    clock.setTimer(delayMs, () => {
      if (!this.#isStopping) this.#fork(isReplacement)
    })
  }

  #started(id: number): void {
    const running = this.#running.get(id)
    if (running !== undefined) {
      running.hasServed = true
      if (running.missesHangUp) running.worker.process.kill('SIGHUP')
    }
    if (this.#hasServed) return
    this.#hasServed = true
    this.options.onServing()
  }

  #ended(id: number, code: number | null, signal: string | null): void {
    const { clock, logger, random, onRestart, onGivenUp } = this.options
    const running = this.#running.get(id)
    this.#running.delete(id)
    if (running === undefined || this.#isStopping) return
    running.link.close('the process ended')
    if (!this.#hasServed && signal === null && code !== 0) {
      this.#isStopping = true
      return onGivenUp(code ?? 1)
    }
    const wasHealthy = clock.monotonic() - running.startedMs >= HEALTHY_MS
    this.#attempt = wasHealthy ? 0 : this.#attempt + 1
    const delayMs = this.#attempt <= 1 ? 0 : backoffMs(RESTART, this.#attempt - 1, random)
    logger.warn({ worker: running.worker.process.pid, code, signal, restartMs: Math.round(delayMs) }, 'worker ended')
    onRestart()
    clock.setTimer(delayMs, () => {
      if (!this.#isStopping) this.#fork(this.#running.size > 0)
    })
  }
}
