/**
 * Asks a server for its progress with a second watch from the position of ours, which the server bookmarks at once
 * because its time is short. Before the bookmark, the server has sent every event after our position. A watch that has
 * received the last of these events has received all of them, and may adopt the bookmark. This works only with
 * distributary: a kube-apiserver sends bookmarks on its own schedule.
 */
import { bytesCodec } from '../../client/reflector/bytes-codec.js'
import { sseWire } from '../../client/reflector/event-stream.js'
import type { Transport } from '../../client/reflector/transport.js'
import { runWatch } from '../../client/reflector/watch-job.js'
import { formatResourceVersion } from '../../engine/model/resource-version.js'
import type { Revision } from '../../engine/model/revision.js'
import type { Clock } from '../../support/clock.js'
import { revisionOf } from './http-key-value.js'

export interface ProgressProof {
  /** A watch on the stream that has received this event... */
  readonly lastEvent: Revision
  /** ...has received everything at or before this revision. */
  readonly revision: Revision
}

const TIMEOUT_MS = 3_000

/** @returns null when the server sent no bookmark. @throws WatchFailure */
export async function proveProgress(options: {
  readonly transport: Transport
  readonly path: string
  readonly clock: Clock
  readonly after: Revision
  readonly signal: AbortSignal
}): Promise<ProgressProof | null> {
  const { transport, path, clock, after, signal } = options
  const done = new AbortController()
  const onAbort = (): void => done.abort(signal.reason)
  signal.addEventListener('abort', onAbort, { once: true })
  let lastEvent = after
  let proof: ProgressProof | null = null
  const resourceVersion = formatResourceVersion(after)
  try {
    await runWatch({
      transport,
      wire: sseWire,
      codec: bytesCodec,
      clock,
      path,
      query: { watch: '1', allowWatchBookmarks: 'true', timeoutSeconds: '1', resourceVersion },
      signal: done.signal,
      openTimeoutMs: TIMEOUT_MS,
      initialSilenceMs: TIMEOUT_MS,
      silenceMs: TIMEOUT_MS,
      place: { position: resourceVersion, safePosition: resourceVersion, keysAtPosition: [] },
      onOpen: () => undefined,
      onInitial: () => undefined,
      onChange: (change) => {
        if (proof === null) lastEvent = revisionOf(change.resourceVersion)
      },
      onBookmark: (bookmark) => {
        proof ??= { lastEvent, revision: revisionOf(bookmark) }
        done.abort()
      },
      onProgress: () => undefined,
      settled: undefined,
    })
  } catch (error) {
    if (proof === null) throw error
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
  return proof
}
