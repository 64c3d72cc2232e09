/**
 * Worker threads for work that might not end. If a job computes for too long or takes too much memory, its thread is
 * ended, and the next job gets a new thread. A thread runs one job at a time, so that no other job ends with it.
 * Threads start on demand, and they do not keep the process alive.
 *
 * While it runs, a job may call functions in the main thread. The time it waits for them does not count as computing.
 * The caller limits how many jobs run at once.
 *
 * The deadline is in processor time, so that a busy machine does not make harmless jobs fail. Node can measure only the
 * processor time of the whole process, which is an upper bound for a thread's.
 */
import { type ResourceLimits, type Transferable, Worker } from 'node:worker_threads'
import type { Clock, Timer } from './clock.js'

/** `deadline`, `memory`: the job used too much. `crash`: the thread ended by itself. `closed`: the pool was closed. */
export type ThreadEnd = 'deadline' | 'memory' | 'crash' | 'closed'

/** The error of a job that has no result because its thread ended. */
export class ThreadEndedError extends Error {
  override readonly name = 'ThreadEndedError'

  constructor(
    readonly reason: ThreadEnd,
    options: ErrorOptions = {},
  ) {
    super(`the thread ended: ${reason}`, options)
  }
}

export interface ThreadPoolOptions {
  /** The compiled file that the threads run, which calls `serveJobs`. */
  readonly program: URL
  /** How long a job may compute. On a machine without a free processor it may take several times as long. */
  readonly deadlineMs: number
  /** Returns the processor time of this process, in milliseconds. */
  readonly cpuMs?: () => number
  /** Read again for each new thread. */
  readonly maxHeapMegabytes: number
  readonly clock: Clock
  /** Called for each ended thread, which is replaced when needed again. */
  readonly onReplaced: (reason: Exclude<ThreadEnd, 'closed'>) => void
}

/** The functions that a job may call. They return values and never throw. */
export type JobCalls = Readonly<Record<string, (...values: readonly unknown[]) => Promise<unknown>>>

export interface Job {
  /** @param known the inputs that this thread has from earlier jobs. The caller updates this set. */
  message(known: Set<unknown>): unknown
  readonly calls: JobCalls
  /** Whether the thread ends with the job, because its heap would stay large. Default: false. */
  readonly isLarge?: boolean
}

/**
 * The time limit for a thread to start. Loading the program takes a second on a busy machine, so a thread that takes
 * this long will never run.
 */
const START_MS = 30_000

/**
 * The limit on a job's total time, as a multiple of the deadline, so that a thread that hangs without computing is
 * ended too.
 */
const MAX_STRETCH = 6

function processCpuMs(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1_000
}

/** Messages from the pool to a thread. */
export type ToThread =
  | { readonly kind: 'job'; readonly message: unknown }
  | { readonly kind: 'returned'; readonly call: number; readonly value: unknown }

/** Messages from a thread to the pool. */
export type FromThread =
  | { readonly kind: 'started' }
  | { readonly kind: 'call'; readonly call: number; readonly name: string; readonly values: readonly unknown[] }
  | { readonly kind: 'done'; readonly value: unknown }

export class ThreadPool {
  readonly #threads = new Set<Thread>()
  readonly #idle: Thread[] = []
  #isClosed = false

  constructor(private readonly options: ThreadPoolOptions) {}

  /** The number of existing threads, busy or idle. */
  get size(): number {
    return this.#threads.size
  }

  /** @returns the program's result for the message. @throws ThreadEndedError */
  async run(job: Job): Promise<unknown> {
    if (this.#isClosed) throw new ThreadEndedError('closed')
    const thread = this.#idle.pop() ?? this.#start()
    const value = await thread.run(job)
    if (job.isLarge === true) void thread.end('closed')
    else this.#idle.push(thread)
    return value
  }

  /** Ends all threads and rejects running jobs. */
  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.all([...this.#threads].map((thread) => thread.end('closed')))
  }

  /** @throws ThreadEndedError */
  #start(): Thread {
    try {
      return this.#startThread()
    } catch (cause) {
      // The process may have no more threads, memory or descriptors.
      throw new ThreadEndedError('crash', { cause })
    }
  }

  #startThread(): Thread {
    const thread: Thread = new Thread(this.options, (reason) => {
      this.#threads.delete(thread)
      const place = this.#idle.indexOf(thread)
      if (place !== -1) this.#idle.splice(place, 1)
      if (reason !== 'closed') this.options.onReplaced(reason)
    })
    this.#threads.add(thread)
    return thread
  }
}

interface Running {
  readonly calls: JobCalls
  readonly resolve: (value: unknown) => void
  readonly reject: (error: ThreadEndedError) => void
  /** The number of pending calls, during which the thread's time does not count. */
  waiting: number
  leftMs: number
}

class Thread {
  readonly #worker: Worker
  readonly #cpuMs: () => number
  readonly #known = new Set<unknown>()
  #running: Running | null = null
  #timer: Timer | null = null
  #timedSinceMs = 0
  #timedSinceCpuMs = 0
  #hasStarted = false
  #hasEnded = false

  constructor(
    private readonly options: ThreadPoolOptions,
    private readonly onEnd: (reason: ThreadEnd) => void,
  ) {
    const { program, maxHeapMegabytes } = options
    this.#cpuMs = options.cpuMs ?? processCpuMs
    const resourceLimits: ResourceLimits = {
      maxOldGenerationSizeMb: maxHeapMegabytes,
      maxYoungGenerationSizeMb: Math.ceil(maxHeapMegabytes / 8),
    }
    // The process's flags, such as those for a profiler or a loader, are not meant for threads.
    this.#worker = new Worker(program, { resourceLimits, execArgv: [], env: {} })
    this.#worker.unref()
    this.#worker.on('message', (message: FromThread) => this.#receive(message))
    this.#worker.on('error', (error: NodeJS.ErrnoException) => {
      void this.end(error.code === 'ERR_WORKER_OUT_OF_MEMORY' ? 'memory' : 'crash', error)
    })
    this.#worker.on('exit', () => void this.end('crash'))
    this.#time(START_MS)
  }

  run(job: Job): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#running = { calls: job.calls, resolve, reject, waiting: 0, leftMs: this.options.deadlineMs }
      this.#post({ kind: 'job', message: job.message(this.#known) })
      if (this.#hasStarted) this.#time(this.#running.leftMs)
    })
  }

  async end(reason: ThreadEnd, cause?: unknown): Promise<void> {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#timer?.cancel()
    this.#running?.reject(new ThreadEndedError(reason, cause === undefined ? {} : { cause }))
    this.#running = null
    this.onEnd(reason)
    await this.#worker.terminate()
  }

  #receive(message: FromThread): void {
    if (this.#hasEnded) return
    const running = this.#running
    switch (message.kind) {
      case 'started':
        this.#hasStarted = true
        this.#timer?.cancel()
        if (running !== null) this.#time(running.leftMs)
        return
      case 'done':
        this.#timer?.cancel()
        this.#running = null
        return running?.resolve(message.value)
      case 'call':
        if (running !== null) void this.#call(running, message.call, message.name, message.values)
        return
      default:
        message satisfies never
    }
  }

  async #call(running: Running, call: number, name: string, values: readonly unknown[]): Promise<void> {
    if (running.waiting++ === 0) {
      this.#timer?.cancel()
      running.leftMs -= this.#spentMs()
    }
    const value = await running.calls[name]?.(...values)
    if (this.#running !== running) return
    if (--running.waiting === 0) this.#time(running.leftMs)
    this.#post({ kind: 'returned', call, value })
  }

  #time(leftMs: number, endMs = this.options.clock.monotonic() + leftMs * MAX_STRETCH): void {
    const { clock } = this.options
    this.#timer?.cancel()
    this.#timedSinceMs = clock.monotonic()
    this.#timedSinceCpuMs = this.#cpuMs()
    this.#timer = clock.setTimer(Math.max(1, leftMs), () => {
      const stillLeftMs = leftMs - this.#spentMs()
      if (stillLeftMs <= 0 || clock.monotonic() >= endMs) void this.end('deadline')
      else this.#time(stillLeftMs, endMs)
    })
  }

  /** An upper bound for the time that the thread has computed since the timer was set. */
  #spentMs(): number {
    const wallMs = this.options.clock.monotonic() - this.#timedSinceMs
    return Math.min(wallMs, this.#cpuMs() - this.#timedSinceCpuMs)
  }

  #post(message: ToThread, transfer: readonly Transferable[] = []): void {
    this.#worker.postMessage(message, transfer)
  }
}
