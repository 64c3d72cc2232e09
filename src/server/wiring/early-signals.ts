/**
 * Signals that arrive while a server is still loading. One that ends it must end it even as the first process of a
 * container, which misses signals for which it does not listen. Any other must not end it: a service manager may signal
 * every process of a unit at any time.
 */
import cluster from 'node:cluster'

const ENDING = ['SIGTERM', 'SIGINT'] as const
/** What they ask for is done at a start anyway, or can be asked for again. */
const OTHERS = ['SIGHUP', 'SIGUSR2'] as const

/** In a worker, the primary handles the signals that end it. */
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
