/**
 * Encodes and decodes key-values and batches for streams, for snapshots, and for the link between a primary and its
 * workers.
 */
import { partsOf } from '../support/turns.js'
import type { Batch, KeyEvent, KeyValue } from '../engine/model/event.js'
import { toRevision } from '../engine/model/revision.js'
import type { ByteReader, ByteWriter } from './byte-codec.js'

/** The approximate overhead of a batch, not counting its events, and of an event, not counting its key and value. */
const BATCH_BYTES = 16
const EVENT_BYTES = 48

export function writeKeyValue(writer: ByteWriter, keyValue: KeyValue): void {
  const { key, value, createRevision, modRevision, version, leaseId } = keyValue
  writer.key(key).number(createRevision).number(modRevision).number(version).key(leaseId).bytes(value)
}

/** @throws RangeError */
export function readKeyValue(reader: ByteReader): KeyValue {
  return {
    key: reader.key(),
    createRevision: toRevision(reader.number()),
    modRevision: toRevision(reader.number()),
    version: reader.number(),
    leaseId: reader.key(),
    value: reader.bytes(),
  }
}

export function writeKeyValues<W extends ByteWriter>(writer: W, keyValues: readonly KeyValue[]): W {
  writer.count(keyValues.length)
  for (const keyValue of keyValues) writeKeyValue(writer, keyValue)
  return writer
}

/** @throws RangeError */
export function readKeyValues(reader: ByteReader): KeyValue[] {
  const keyValues: KeyValue[] = []
  for (let left = reader.count(); left > 0; left--) keyValues.push(readKeyValue(reader))
  return keyValues
}

/**
 * Batches and states are split into pages of this size. A page fills only a few socket buffers, so a long state does
 * not hold up the frames after it.
 */
export const PAGE_BYTES = 256 * 1024

/** Splits key-values into pages of about `PAGE_BYTES`. */
export function pagesOf(keyValues: Iterable<KeyValue>): Iterable<readonly KeyValue[]> {
  return partsOf(keyValues, keyValueBytes, PAGE_BYTES)
}

/** Returns the approximate encoded size of the key-values in bytes. */
export function bytesOf(keyValues: readonly KeyValue[]): number {
  return keyValues.reduce((bytes, keyValue) => bytes + keyValueBytes(keyValue), 0)
}

/** Returns the approximate size of a batch in memory, in bytes. */
export function batchBytes({ events }: Batch): number {
  let bytes = BATCH_BYTES
  for (const event of events) {
    bytes += event.type === 'put' ? keyValueBytes(event.keyValue) : EVENT_BYTES + event.key.length
  }
  return bytes
}

function keyValueBytes({ key, value }: KeyValue): number {
  return EVENT_BYTES + key.length + value.length
}

const PUT = 1
const DELETE = 0

export function writeBatches(writer: ByteWriter, batches: readonly Batch[]): void {
  writer.count(batches.length)
  for (const { revision, events } of batches) {
    writer.number(revision).count(events.length)
    for (const event of events) {
      if (event.type === 'put') writeKeyValue(writer.byte(PUT), event.keyValue)
      else writer.byte(DELETE).key(event.key)
    }
  }
}

/** @throws RangeError */
export function readBatches(reader: ByteReader): Batch[] {
  const batches: Batch[] = []
  for (let left = reader.count(); left > 0; left--) {
    const revision = toRevision(reader.number())
    const events: KeyEvent[] = []
    for (let more = reader.count(); more > 0; more--) events.push(readEvent(reader, revision))
    batches.push({ revision, events })
  }
  return batches
}

function readEvent(reader: ByteReader, revision: number): KeyEvent {
  const kind = reader.byte()
  if (kind === DELETE) return { type: 'delete', key: reader.key() }
  if (kind !== PUT) throw new RangeError(`no event has the kind ${kind}`)
  const keyValue = readKeyValue(reader)
  if (keyValue.modRevision !== revision) {
    throw new RangeError(`an event of revision ${keyValue.modRevision} in the batch of ${revision}`)
  }
  return { type: 'put', keyValue }
}
