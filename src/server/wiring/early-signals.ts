/**
 * Ends a server that is stopped while it is still loading. As the first process of a container, it would miss a signal
 * for which it does not listen.
 */
import cluster from 'node:cluster'

const SIGNALS = ['SIGTERM', 'SIGINT'] as const

/** Does nothing in a worker, because its primary handles signals. */
export function exitOnSignals(): void {
  if (cluster.isPrimary) for (const signal of SIGNALS) process.on(signal, exit)
}

/** Call this once other listeners handle the signals. */
export function stopExitingOnSignals(): void {
  for (const signal of SIGNALS) process.off(signal, exit)
}

function exit(): void {
  process.exit(0)
}
