/**
 * Asks a server for its progress with a second watch. The second watch starts at the position of the main watch and
 * has a short timeout. A distributary sends its bookmark immediately, a kube-apiserver two seconds before the
 * timeout. Before the bookmark, the server has sent every event after that position. When the main watch has received
 * the last of these events, it has received all of them and may adopt the bookmark.
 */
import type { BytesObject } from '../../client/reflector/bytes-codec.js'
import type { EventWire } from '../../client/reflector/event-stream.js'
import type { ObjectCodec } from '../../client/reflector/object-codec.js'
import type { Transport } from '../../client/reflector/transport.js'
import { WatchFailure } from '../../client/reflector/watch-failure.js'
import { positionAt, runWatch } from '../../client/reflector/watch-job.js'
import { formatResourceVersion } from '../model/resource-version.js'
import type { Revision } from '../../engine/model/revision.js'
import type { Clock } from '../../support/clock.js'
import { revisionOf } from './http-key-value.js'

export interface ProgressProof {
  /** A watch on the stream that has received this event... */
  readonly lastEvent: Revision
  /** ...has received everything at or before this revision. */
  readonly revision: Revision
}

/** How long after its timeout a response may still end. */
const GRACE_MS = 2_000
/** The clocks of two machines do not measure a timeout exactly alike. */
const EARLY_MS = 500

/** @returns null when the server sent no bookmark within the timeout. @throws WatchFailure, also when it ended sooner. */
export async function proveProgress(options: {
  readonly transport: Transport
  readonly wire: EventWire
  readonly codec: ObjectCodec<BytesObject>
  /** The timeout to request for the watch. */
  readonly timeoutSeconds: number
  readonly path: string
  /** Parameters of the main watch that decide which events it gets. */
  readonly query?: Readonly<Record<string, string>>
  readonly clock: Clock
  readonly after: Revision
  readonly signal: AbortSignal
}): Promise<ProgressProof | null> {
  const { transport, wire, codec, timeoutSeconds, path, query, clock, after, signal } = options
  const timeoutMs = timeoutSeconds * 1_000 + GRACE_MS
  const done = new AbortController()
  const onAbort = (): void => done.abort(signal.reason)
  signal.addEventListener('abort', onAbort, { once: true })
  const beganMs = clock.monotonic()
  let lastEvent = after
  let proof: ProgressProof | null = null
  const resourceVersion = formatResourceVersion(after)
  try {
    await runWatch<BytesObject>({
      transport,
      wire,
      codec,
      clock,
      path,
      query: {
        watch: '1',
        allowWatchBookmarks: 'true',
        timeoutSeconds: String(timeoutSeconds),
        resourceVersion,
        ...query,
      },
      signal: done.signal,
      openTimeoutMs: timeoutMs,
      initialSilenceMs: timeoutMs,
      silenceMs: timeoutMs,
      place: positionAt(resourceVersion),
      onChange: (change) => {
        if (proof === null) lastEvent = revisionOf(change.resourceVersion)
      },
      onBookmark: (bookmark) => {
        proof ??= { lastEvent, revision: revisionOf(bookmark) }
        done.abort()
      },
    })
  } catch (error) {
    if (proof === null) throw error
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
  // A server that shuts down, or a proxy, ends a watch at any time.
  if (proof === null && clock.monotonic() - beganMs < timeoutSeconds * 1_000 - EARLY_MS) {
    throw new WatchFailure('network', 'the response ended early')
  }
  return proof
}
