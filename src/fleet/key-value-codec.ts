/** Writes and reads key-values, batches and failures: in streams, in snapshots, and between a primary and its workers. */
import type { Batch, KeyEvent, KeyValue } from '../engine/model/event.js'
import { toRevision } from '../engine/model/revision.js'
import { UpstreamError, type UpstreamErrorCode } from '../engine/upstream/upstream.js'
import type { ByteReader, ByteWriter } from './byte-codec.js'

/** The approximate overhead of a batch besides its events, and of an event besides its key and value. */
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

/** @returns the writer. */
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

export function writeFailure(writer: ByteWriter, { code, message, compactRevision }: UpstreamError): void {
  writer
    .text(code)
    .text(message)
    .number(compactRevision ?? -1)
}

/** @throws RangeError */
export function readFailure(reader: ByteReader): UpstreamError {
  const code = reader.text() as UpstreamErrorCode
  const message = reader.text()
  const compactRevision = reader.number()
  return new UpstreamError(code, message, compactRevision < 0 ? {} : { compactRevision: toRevision(compactRevision) })
}

/** Returns the size of a batch in bytes, roughly equal to its size in memory. */
export function batchBytes({ events }: Batch): number {
  let bytes = BATCH_BYTES
  for (const event of events) {
    bytes += event.type === 'put' ? keyValueBytes(event.keyValue) : EVENT_BYTES + event.key.length
  }
  return bytes
}

export function keyValueBytes({ key, value }: KeyValue): number {
  return EVENT_BYTES + key.length + value.length
}

/** Writes and reads batches. The bytes for the kinds of events differ between streams and sockets. */
export class BatchCodec {
  readonly #put: number
  readonly #delete: number

  constructor(kinds: { readonly put: number; readonly delete: number }) {
    this.#put = kinds.put
    this.#delete = kinds.delete
  }

  write(writer: ByteWriter, { revision, events }: Batch): void {
    writer.number(revision).count(events.length)
    for (const event of events) {
      if (event.type === 'put') writeKeyValue(writer.byte(this.#put), event.keyValue)
      else writer.byte(this.#delete).key(event.key)
    }
  }

  /** @throws RangeError */
  read(reader: ByteReader): Batch {
    const revision = toRevision(reader.number())
    const events: KeyEvent[] = []
    for (let left = reader.count(); left > 0; left--) events.push(this.#readEvent(reader, revision))
    return { revision, events }
  }

  #readEvent(reader: ByteReader, revision: number): KeyEvent {
    const kind = reader.byte()
    if (kind === this.#delete) return { type: 'delete', key: reader.key() }
    if (kind !== this.#put) throw new RangeError(`no event has the kind ${kind}`)
    const keyValue = readKeyValue(reader)
    if (keyValue.modRevision !== revision) {
      throw new RangeError(`an event of revision ${keyValue.modRevision} in the batch of ${revision}`)
    }
    return { type: 'put', keyValue }
  }
}
