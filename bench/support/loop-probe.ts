/**
 * Loaded into a measured server with `--import`: measures the longest block of its event loop, as elapsed time and as
 * CPU time of the thread. On a busy machine the elapsed time includes other programs' turns.
 *
 * A timer fires every millisecond; the time between two firings is one block. `GET /` returns the longest and resets
 * it.
 */
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'

const INTERVAL_MS = 1

/** Statistics of this thread: the first word is its CPU time in nanoseconds. */
function cpuMs(): number {
  return Number(readFileSync('/proc/thread-self/schedstat', 'latin1').split(' ')[0]) / 1e6
}

let longest = { wallMs: 0, cpuMs: 0 }
let last = { wallMs: performance.now(), cpuMs: cpuMs() }

setInterval(() => {
  const now = { wallMs: performance.now(), cpuMs: cpuMs() }
  longest = {
    wallMs: Math.max(longest.wallMs, now.wallMs - last.wallMs - INTERVAL_MS),
    cpuMs: Math.max(longest.cpuMs, now.cpuMs - last.cpuMs),
  }
  last = now
}, INTERVAL_MS).unref()

const server = createServer((_request, response) => {
  response.end(JSON.stringify(longest))
  longest = { wallMs: 0, cpuMs: 0 }
})
server.listen(Number(new URL(import.meta.url).searchParams.get('port')), '127.0.0.1').unref()
