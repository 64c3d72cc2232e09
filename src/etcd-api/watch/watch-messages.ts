/** Encodes the messages of a watch stream around shared bytes of events. */
import { BinaryReader, BinaryWriter, WireType } from '@bufbuild/protobuf/wire'

export interface WatchMessage {
  readonly watchId: number
  readonly created?: boolean
  readonly canceled?: boolean
  readonly compactRevision?: number
  readonly cancelReason?: string
  readonly isFragment?: boolean
}

/** Returns the fields between the header and the events. */
export function watchFields({ watchId, ...message }: WatchMessage): Uint8Array {
  const writer = new BinaryWriter()
  if (watchId !== 0) writer.tag(2, WireType.Varint).int64(watchId)
  if (message.created === true) writer.tag(3, WireType.Varint).bool(true)
  if (message.canceled === true) writer.tag(4, WireType.Varint).bool(true)
  if (message.compactRevision !== undefined) writer.tag(5, WireType.Varint).int64(message.compactRevision)
  if (message.cancelReason !== undefined) writer.tag(6, WireType.LengthDelimited).string(message.cancelReason)
  if (message.isFragment === true) writer.tag(7, WireType.Varint).bool(true)
  return writer.finish()
}

/** The size above which etcd splits the response of a watch that asks for fragments. */
const FRAGMENT_BYTES = 2 * 1024 * 1024

/** Splits events into parts of at most 2 MiB, or of one event that is larger. */
export function fragmentsOf(events: Buffer): readonly Buffer[] {
  if (events.length <= FRAGMENT_BYTES) return [events]
  const fragments: Buffer[] = []
  const reader = new BinaryReader(events)
  let start = 0
  let end = 0
  while (reader.pos < reader.len) {
    const [number, wireType] = reader.tag()
    reader.skip(wireType, number)
    if (reader.pos - start > FRAGMENT_BYTES && end > start) {
      fragments.push(events.subarray(start, end))
      start = end
    }
    end = reader.pos
  }
  fragments.push(events.subarray(start))
  return fragments
}
