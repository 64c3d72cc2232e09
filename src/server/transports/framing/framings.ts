/**
 * A wire format is a framing (the form of an event: a JSON line, a server-sent event, a protobuf message) on a
 * carrier (the kind of connection that carries the frames). Each pair exists once, so that its watchers share a group.
 */
import { type Compression, type WireFormat, chunkEnvelope } from '../../../engine/broadcast/wire-format.js'
import type { Stream } from '../../../kubernetes/dialect/accept.js'
import { type Framing, jsonLines, protobufFrames } from './framing.js'
import { serverSentEvents } from './server-sent-events.js'

/** `http1-chunked`: a socket to which we write chunks ourselves. `http1`: a response that Node writes. */
export type Carrier = 'http1-chunked' | 'http1' | 'http2' | 'websocket'

export const framings: Readonly<Record<Exclude<Stream, 'none'>, Framing>> = {
  'json-lines': jsonLines,
  'protobuf-frames': protobufFrames,
  sse: serverSentEvents,
}

/**
 * The headers of a response that never ends. They ask the proxies on its way to pass on each event at once: `Incremental`
 * (RFC 10036) is the standard, and nginx, which otherwise waits until its buffer is full, reads the other.
 */
export const STREAM_HEADERS = { incremental: '?1', 'x-accel-buffering': 'no' } as const

const wires = new Map<string, WireFormat>()

export function wireOf(framing: Framing, carrier: Carrier, compression: Compression = 'none'): WireFormat {
  const key = `${framing.key}/${carrier}/${compression}`
  let wire = wires.get(key)
  if (wire === undefined) {
    wire = {
      key,
      transport: framing.transport ?? (carrier.startsWith('http1') ? 'http1' : 'http2'),
      frame: framing.frame,
      afterError: framing.afterError,
      mark: framing.mark,
      compression,
      envelope: carrier === 'http1-chunked' ? chunkEnvelope : null,
    }
    wires.set(key, wire)
  }
  return wire
}
