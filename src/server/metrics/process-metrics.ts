/** The metrics of the process: its configuration, certificates, memory, workers and threads. */
import { counter, gauge, type Recorders, seconds } from '../../engine/model/metric.js'

export const PROCESS_METRICS = {
  /** The use names the peers to which the certificate is shown. */
  certificateEnds: gauge<[use: string, file: string]>(
    'min',
    'certificate_expiry_timestamp_seconds',
    'Expiry of a certificate that the server presents (the first in its chain), in seconds since the epoch, by the peer it is presented to.',
    'use',
    'file',
  ),
  filesUsable: gauge<[files: string]>(
    'min',
    'watched_files_usable',
    '1 if the content of files that the server reloads can be used, 0 while it keeps using their previous content.',
    'files',
  ),
  configUsable: gauge(
    'min',
    'config_last_reload_successful',
    '1 if the last attempt to load the configuration succeeded, otherwise 0.',
  ),
  configLoaded: gauge(
    'min',
    'config_last_reload_success_timestamp_seconds',
    'Time at which the configuration was last loaded successfully, in seconds since the epoch.',
  ),
  workers: gauge('sum', 'workers', 'Worker processes serving clients; 0 without --workers.'),
  workerQueue: gauge('sum', 'worker_queue_bytes', 'Bytes that the primary process has not yet passed to its workers.'),
  writeJob: seconds('write_job_seconds', 'Time that a write took in a worker thread.'),
  writeThreadReplaced: counter<[reason: string]>(
    'write_threads_replaced_total',
    'Worker threads replaced because a write exceeded a limit (deadline, memory) or the thread ended (crash).',
    'reason',
  ),
  workerRestarted: counter('worker_restarts_total', 'Workers that ended and were replaced.'),
  rebalanced: counter<[outcome: string]>(
    'rebalances_total',
    'Moves of connections to new replicas by this process (--rebalance), by outcome: balanced, no-progress, timeout, interrupted.',
    'outcome',
  ),
  connectionMoved: counter(
    'rebalanced_connections_total',
    'Connections ended by --rebalance; their clients reconnect, possibly to a new replica.',
  ),
  heapLimit: gauge('max', 'heap_limit_bytes', 'Maximum size of the JavaScript heap.'),
  memoryLimit: gauge(
    'first',
    'memory_limit_bytes',
    'Memory that the process may use: the limit of its container, or the memory of the machine.',
  ),
  unreadable: counter('codec_unreadable_objects_total', 'Objects that could not be converted to JSON.'),
  unknownFields: counter(
    'codec_unknown_fields_total',
    'Stored fields that this release does not know, and that are missing from JSON responses.',
  ),
  loopDelay: gauge(
    'max',
    'event_loop_delay_seconds',
    '99th percentile of the delay of the event loop, over windows of a minute.',
  ),
  initialStates: gauge('sum', 'initial_states', 'Initial states and large lists being sent.'),
  build: gauge<[version: string]>('first', 'build_info', 'Always 1; the label has the version.', 'version'),
}
export type ProcessMetrics = Recorders<typeof PROCESS_METRICS>
export type FileMetrics = Pick<ProcessMetrics, 'filesUsable'>
