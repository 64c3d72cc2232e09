/**
 * Turns the bytes of a watch into events, in either of two formats. Every API server supports JSON lines. distributary
 * also supports SSE, which adds an `id:` to the last event of each revision. The id shows where the stream can be
 * resumed without losing the rest of a revision.
 */
import { WatchFailure } from './watch-failure.js'
import { LineSplitter } from './line-splitter.js'
import type { DecodedEvent, ObjectCodec } from './object-codec.js'

/**
 * @param endsRevision whether the stream may be resumed at this event's resourceVersion; null if the format does not
 * say.
 */
export type OnEvent<T> = (event: DecodedEvent<T>, endsRevision: boolean | null) => void

export interface EventStream {
  /** @throws WatchFailure 'malformed' */
  push(chunk: Uint8Array): void
  /** The number of bytes of an unfinished event received so far. */
  readonly pendingBytes: number
}

/** A format of watch events: what to request, and how to read it. */
export interface EventWire {
  readonly accept: string
  open<T>(codec: ObjectCodec<T>, onEvent: OnEvent<T>): EventStream
}

/** By default etcd limits a request to 1.5 MiB. Operators may raise that limit, but rarely beyond this size. */
const MAX_EVENT_BYTES = 64 * 2 ** 20

/** Watch events as lines of JSON, which every API server supports. */
export const jsonWire: EventWire = {
  accept: 'application/json',
  open(codec, onEvent) {
    const lines = new LineSplitter(MAX_EVENT_BYTES)
    const onLine = (line: Uint8Array): void => {
      if (line.length > 1) onEvent(codec.decodeEvent(line), null)
    }
    const onLines = (block: Uint8Array): void => {
      const events = codec.decodeEvents?.(block) ?? null
      if (events === null) new LineSplitter(MAX_EVENT_BYTES).push(withEnd(block), onLine)
      else for (const event of events) onEvent(event, null)
    }
    return {
      push:
        codec.decodeEvents === undefined
          ? (chunk) => lines.push(chunk, onLine)
          : (chunk) => lines.pushBlocks(chunk, onLine, onLines),
      get pendingBytes() {
        return lines.pendingBytes
      },
    }
  },
}

function withEnd(lines: Uint8Array): Uint8Array {
  const whole = new Uint8Array(lines.length + 1)
  whole.set(lines)
  whole[lines.length] = 0x0a
  return whole
}

/** Watch events as server-sent events, which distributary supports. */
export const sseWire: EventWire = {
  accept: 'text/event-stream',
  open(codec, onEvent) {
    const lines = new LineSplitter(MAX_EVENT_BYTES)
    const decoder = new TextDecoder()
    let type = ''
    let id: string | null = null
    let data: Uint8Array | null = null
    const onLine = (line: Uint8Array): void => {
      const end = line.at(-1) === 0x0d ? line.length - 1 : line.length
      if (end === 0) {
        if (data !== null) onEvent(codec.decodeObject(type, data), id !== null && id !== '')
        type = ''
        id = null
        data = null
        return
      }
      const colon = line.indexOf(0x3a)
      const field = decoder.decode(line.subarray(0, colon === -1 ? end : colon))
      const at = colon === -1 ? end : colon + (line[colon + 1] === 0x20 ? 2 : 1)
      const value = line.subarray(at, end)
      if (field === 'event') type = decoder.decode(value)
      else if (field === 'id') id = decoder.decode(value)
      else if (field === 'data') {
        if (data !== null) throw new WatchFailure('malformed', 'an event has more than one data line')
        data = value
      }
    }
    return {
      push: (chunk) => lines.push(chunk, onLine),
      get pendingBytes() {
        return lines.pendingBytes + (data?.length ?? 0)
      },
    }
  },
}
