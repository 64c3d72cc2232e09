/**
 * Reads a kube-apiserver's responses in Kubernetes' protobuf: lists, single objects, and the frames of a watch, each
 * after four bytes of length. An object takes the form that etcd would have: its message, byte for byte, in its own
 * envelope. The message keeps its resourceVersion, which is replaced when the object is served.
 */
import type { BytesObject } from '../../client/reflector/bytes-codec.js'
import type { EventWire } from '../../client/reflector/event-stream.js'
import { type StatusLike, WatchFailure } from '../../client/reflector/watch-failure.js'
import {
  type DecodedEvent,
  type DecodedList,
  eventOf,
  INITIAL_EVENTS_END,
  type ObjectCodec,
  objectKey,
  orMalformed,
} from '../../client/reflector/object-codec.js'
import { apiVersion, type ApiResource } from '../model/api-resource.js'
import { decodeObject } from '../codec/protobuf/decode.js'
import { contentsAt } from '../codec/protobuf/edit.js'
import { openEnvelope, PROTOBUF_CONTENT_TYPE, rawOf } from '../codec/protobuf/envelope.js'
import { type ObjectMetadata, readMetadata } from '../codec/protobuf/metadata.js'
import { encodeEnvelope } from '../codec/protobuf/resource-version-splice.js'
import { kubernetesSchema } from '../codec/protobuf/schema.js'
import { WireReader } from '../codec/protobuf/wire.js'
import { bufferOf } from '../../support/buffer-of.js'
import { FrameSplitter } from '../../support/frame-splitter.js'

/** The same limit as for JSON lines. */
const MAX_FRAME_BYTES = 64 * 2 ** 20
const LENGTH_BYTES = 4

export const protobufWire: EventWire = {
  accept: `${PROTOBUF_CONTENT_TYPE};stream=watch`,
  open(codec, onEvent) {
    const frames = new FrameSplitter(LENGTH_BYTES, lengthIn, (frame) => onEvent(codec.decodeEvent(frame), null))
    return {
      push: (chunk) => frames.push(bufferOf(chunk)),
      get pendingBytes() {
        return frames.pendingBytes
      },
    }
  },
}

function lengthIn(head: Buffer, at: number): number {
  const length = head.readUInt32BE(at)
  if (length > MAX_FRAME_BYTES) throw new WatchFailure('malformed', `a watch event of ${length} bytes`)
  return length
}

/** Returns a codec for the objects of a built-in resource. */
export function protobufCodec(resource: ApiResource): ObjectCodec<BytesObject> {
  const version = apiVersion(resource)
  const { kind } = resource

  const read = (message: Buffer): { readonly object: BytesObject; readonly metadata: ObjectMetadata } => {
    const bytes = encodeEnvelope(version, kind, message.length, (out, at) => at + message.copy(out, at))
    const metadata = readMetadata(bytes)
    const { name, namespace, resourceVersion } = metadata
    return { object: { bytes, name, namespace, resourceVersion }, metadata }
  }

  const decoded = (type: string, enveloped: Buffer): DecodedEvent<BytesObject> => {
    if (type === 'ERROR') return { type, status: statusOf(enveloped) }
    const envelope = openEnvelope(enveloped)
    if (envelope.apiVersion !== version || envelope.kind !== kind) {
      throw new Error(`${envelope.kind} of ${envelope.apiVersion} instead of ${kind} of ${version}`)
    }
    const { object, metadata } = read(rawOf(envelope))
    const { namespace, name, resourceVersion } = object
    const endsInitialEvents = metadata.annotations.get(INITIAL_EVENTS_END) === 'true'
    return eventOf(type, { object, key: objectKey(namespace, name), resourceVersion }, endsInitialEvents)
  }

  return {
    keyOf: ({ namespace, name }) => objectKey(namespace, name),

    decodeEvent: (frame) =>
      orMalformed('a watch event', () => {
        const message = bufferOf(frame)
        const type = contentsAt(message, [1]).at(-1)?.toString('utf8') ?? ''
        const object = contentsAt(message, [2, 1]).at(-1)
        if (object === undefined) throw new Error('no object')
        return decoded(type, object)
      }),

    decodeObject: (type, object) => orMalformed('an object', () => decoded(type, bufferOf(object))),

    decodeList: (body) =>
      orMalformed('a list', () => {
        const list = rawOf(openEnvelope(bufferOf(body)))
        const metadata = contentsAt(list, [1]).at(-1) ?? Buffer.alloc(0)
        return { ...listMetadata(metadata), items: contentsAt(list, [2]).map((item) => read(item).object) }
      }),
  }
}

/** Returns the JSON form of a Status in its envelope. @throws CodecError */
export function statusOf(enveloped: Buffer): StatusLike {
  return JSON.parse(decodeObject(enveloped, kubernetesSchema()).bytes.toString('utf8')) as StatusLike
}

const reader = new WireReader()

/** `ListMeta { 2 resourceVersion, 3 continue, 4 remainingItemCount }` */
function listMetadata(message: Buffer): Omit<DecodedList<BytesObject>, 'items'> {
  const textAt = (number: number): string => contentsAt(message, [number]).at(-1)?.toString('utf8') ?? ''
  const resourceVersion = textAt(2)
  if (resourceVersion === '') throw new Error('no resourceVersion')
  const list = { resourceVersion, continueToken: textAt(3) }
  reader.bytes = message
  reader.pos = 0
  while (reader.pos < message.length) {
    const tag = reader.readTag(message.length)
    if (tag >>> 3 === 4) {
      const low = reader.readVarint(message.length)
      return { ...list, remainingItemCount: reader.high * 2 ** 32 + low }
    }
    reader.skip(tag & 7, message.length)
  }
  return list
}
