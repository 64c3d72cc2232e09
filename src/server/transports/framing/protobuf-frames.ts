/** Four bytes of length, big-endian, and a meta/v1 WatchEvent: the stream of a watch in Kubernetes' protobuf. */
import { encodeWatchEvent } from '../../../kubernetes/codec/protobuf/encode.js'
import type { Framing } from './framing.js'

export const protobufFrames: Framing = {
  key: 'protobuf-frames',
  transport: null,
  frame: (type, body) => {
    const event = encodeWatchEvent(type, body)
    const length = Buffer.allocUnsafe(4)
    length.writeUInt32BE(event.length)
    return [length, event]
  },
  afterError: () => null,
  mark: null,
}
