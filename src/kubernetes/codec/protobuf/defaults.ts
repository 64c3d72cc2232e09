/**
 * The few members that API servers answer but do not store: defaults set on reading, of fields that are cleared before
 * an object is written. They are appended to the object's message, and only when the stored one has none, since a
 * message followed by more of its fields is the same message with those fields set.
 *
 * Other defaults are set before an object is written, so they are stored. Defaults of releases younger than the object
 * are left to those releases.
 *
 * Source: what kube-apiserver 1.20 stores and answers; kubernetes, pkg/apis/{core,batch}/v1 defaults.
 */
import type { Envelope } from './envelope.js'
import { MessageWriter } from './message-writer.js'
import { LENGTH, WireReader } from './wire.js'

const METADATA = 1
const SPEC = 2
const STATUS = 3
const PHASE = 1
const LABELS = 11
const SELECTOR_OF_CONTROLLER = 2
const TEMPLATE_OF_CONTROLLER = 3
const TEMPLATE_OF_JOB = 6

const reader = new WireReader()

/** Returns what to append to the object's own message; null when nothing is missing, as for nearly every object. */
export function missingDefaults(envelope: Envelope): Buffer | null {
  switch (`${envelope.apiVersion} ${envelope.kind}`) {
    case 'v1 PersistentVolumeClaim':
    case 'v1 PersistentVolume':
      return missingPhase(envelope, 'Pending')
    case 'v1 Namespace':
      return missingPhase(envelope, 'Active')
    case 'batch/v1 Job':
      return missingLabels(envelope, TEMPLATE_OF_JOB, null)
    case 'v1 ReplicationController':
      return missingLabels(envelope, TEMPLATE_OF_CONTROLLER, SELECTOR_OF_CONTROLLER)
    default:
      return null
  }
}

function missingPhase(envelope: Envelope, phase: string): Buffer | null {
  if (fieldsAt(envelope, [STATUS, PHASE]).some((found) => found.length > 0)) return null
  return new MessageWriter().message(STATUS, new MessageWriter().text(PHASE, phase)).finish()
}

/** An object made from a template gets the template's labels when it has none of its own. */
function missingLabels(envelope: Envelope, templateNumber: number, selectorNumber: number | null): Buffer | null {
  const labels = fieldsAt(envelope, [SPEC, templateNumber, METADATA, LABELS])
  if (labels.length === 0) return null
  const message = new MessageWriter()
  if (fieldsAt(envelope, [METADATA, LABELS]).length === 0) message.message(METADATA, repeat(LABELS, labels))
  if (selectorNumber !== null && fieldsAt(envelope, [SPEC, selectorNumber]).length === 0) {
    message.message(SPEC, repeat(selectorNumber, labels))
  }
  const bytes = message.finish()
  return bytes.length === 0 ? null : bytes
}

function repeat(fieldNumber: number, values: readonly Buffer[]): MessageWriter {
  const message = new MessageWriter()
  for (const value of values) message.bytes(fieldNumber, value)
  return message
}

/** Returns every occurrence of a length-delimited field at a path of field numbers. */
function fieldsAt(envelope: Envelope, path: readonly number[]): readonly Buffer[] {
  let messages: readonly Buffer[] = [envelope.bytes.subarray(envelope.rawStart, envelope.rawEnd)]
  for (const number of path) messages = messages.flatMap((message) => fieldsOf(message, number))
  return messages
}

function fieldsOf(message: Buffer, number: number): Buffer[] {
  const found: Buffer[] = []
  reader.bytes = message
  reader.pos = 0
  while (reader.pos < message.length) {
    const tag = reader.readTag(message.length)
    if (tag !== ((number << 3) | LENGTH)) {
      reader.skip(tag & 7, message.length)
      continue
    }
    const length = reader.readLength(message.length)
    found.push(message.subarray(reader.pos, reader.pos + length))
    reader.pos += length
  }
  return found
}
