/**
 * Signals that arrive while a server is still loading. SIGTERM and SIGINT end it, also as the first process of a
 * container, where a signal without a listener has no effect. SIGHUP and SIGUSR2 do not end it, because a service manager
 * may send them to every process of a unit.
 */
import cluster from 'node:cluster'

const ENDING = ['SIGTERM', 'SIGINT'] as const
/** A start does what SIGHUP asks for. SIGUSR2 can be sent again. */
const OTHERS = ['SIGHUP', 'SIGUSR2'] as const

/** In a worker, SIGTERM keeps its default action, and the primary handles SIGINT, which a terminal sends to both. */
export function takeEarlySignals(): void {
  for (const signal of OTHERS) process.on(signal, ignore)
  if (cluster.isPrimary) for (const signal of ENDING) process.on(signal, exit)
  else process.on('SIGINT', ignore)
}

/** Call this once other listeners handle the signals. */
export function stopExitingOnSignals(): void {
  for (const signal of ENDING) process.off(signal, exit)
}

function ignore(): void {}

function exit(): void {
  process.exit(0)
}
