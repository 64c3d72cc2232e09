/** The metrics of the process: its configuration, certificates, memory, workers and threads. */
import { totalmem } from 'node:os'
import { getHeapStatistics } from 'node:v8'
import type { MetricSet } from './metric-set.js'

export interface WorkerFigures {
  readonly serving: number
  readonly queuedBytes: number
}

export function processSeries(set: MetricSet) {
  let readWorkers = (): WorkerFigures => ({ serving: 0, queuedBytes: 0 })
  const certificates = set.gauge(
    'certificate_expiry_timestamp_seconds',
    'Expiry of a certificate that the server presents (the first in its chain), in seconds since the epoch, by the peer it is presented to.',
    ['use', 'file'],
    'min',
  )
  const watchedFiles = set.gauge(
    'watched_files_usable',
    '1 if files that are reread while the server runs can be used, 0 while it keeps their previous content.',
    ['files'],
    'min',
  )
  const reloadOk = set.gauge(
    'config_last_reload_successful',
    '1 if the last attempt to load the configuration succeeded, otherwise 0.',
    [],
    'min',
  )
  const reloadSeconds = set.gauge(
    'config_last_reload_success_timestamp_seconds',
    'Time at which the configuration was last loaded, in seconds since the epoch.',
    [],
    'min',
  )
  const workers = set.gauge('workers', 'Worker processes serving clients; 0 without --workers.', [])
  const workerQueue = set.gauge(
    'worker_queue_bytes',
    'Bytes that the primary process has not yet passed to its workers.',
    [],
  )
  const writeJobs = set.histogram('write_job_seconds', 'Time that a write took in a worker thread.', [])
  const writeThreads = set.counter(
    'write_threads_replaced_total',
    'Worker threads replaced because a write exceeded a limit (deadline, memory) or the thread ended (crash).',
    ['reason'],
  )
  const workerRestarts = set.counter('worker_restarts_total', 'Workers that ended and were replaced.', [])
  set.gauge('heap_limit_bytes', 'Maximum size of the JavaScript heap.', []).set(getHeapStatistics().heap_size_limit)
  set
    .gauge(
      'memory_limit_bytes',
      'Memory that the process may use: the limit of its container, or the memory of the machine.',
      [],
      'first',
    )
    .set(memoryLimit())

  /** @param atMs milliseconds since the epoch. */
  const configLoaded = (isSuccess: boolean, atMs: number): void => {
    reloadOk.set(isSuccess ? 1 : 0)
    if (isSuccess) reloadSeconds.set(atMs / 1000)
  }
  configLoaded(true, Date.now())

  return {
    configLoaded,
    /** Sets the expiry of the certificate in `file`; `use` names the peers to which it is shown. */
    certificateEnds: (use: string, file: string, seconds: number): void => certificates.set({ use, file }, seconds),
    filesUsable: (files: readonly string[], isUsable: boolean): void =>
      watchedFiles.set({ files: files.join(', ') }, isUsable ? 1 : 0),
    /** Sets the source of the workers' figures, in the process that has them. */
    observeWorkers: (read: () => WorkerFigures): void => void (readWorkers = read),
    workerRestarted: (): void => workerRestarts.inc(),
    writeJob: (seconds: number): void => writeJobs.observe({}, seconds),
    writeThreadReplaced: (reason: string): void => writeThreads.inc({ reason }),
    readGauges: (): void => {
      const { serving, queuedBytes } = readWorkers()
      workers.set(serving)
      workerQueue.set(queuedBytes)
    },
  }
}

/** Without a limit the kernel returns a number larger than the machine's memory. */
function memoryLimit(): number {
  const limit = process.constrainedMemory() ?? 0
  return limit > 0 ? Math.min(limit, totalmem()) : totalmem()
}
