/**
 * Fields of metadata that are left out of an object's bytes: `metadata.managedFields`, and single annotations. A client
 * leaves them out of its responses (`drop=`), and an operator out of everything that is served (`strip`). Every other
 * byte stays as stored.
 */
import { formatFieldPath, parseFieldPath } from '../../engine/facts/field-path.js'
import { addPart, copyParts, newParts } from './json-parts.js'
import type { Spliceable } from './json-scan.js'
import { openEnvelope } from './protobuf/envelope.js'
import { METADATA_TAG } from './protobuf/metadata.js'
import { enveloped } from './protobuf/resource-version-splice.js'
import { LENGTH, lengthField, WireReader } from './protobuf/wire.js'

export const MANAGED_FIELDS = 'metadata.managedFields'

/** Returns the annotation that a path names; null for every other path. */
export function annotationOf(path: string): string | null {
  const [first, second, annotation, ...more] = parseFieldPath(path) ?? []
  if (first !== 'metadata' || second !== 'annotations' || annotation === undefined || more.length > 0) return null
  return annotation
}

const ANNOTATION = (12 << 3) | LENGTH
const MANAGED_FIELDS_ENTRY = (17 << 3) | LENGTH
const ENTRY_KEY = (1 << 3) | LENGTH

const reader = new WireReader()

export class LeftOutFields {
  /** Sorted, in the notation of `field-path.ts`. */
  readonly paths: readonly string[]
  readonly #parts = newParts()
  readonly #annotations = new Set<string>()
  readonly #hasManagedFields: boolean

  /** @param paths `MANAGED_FIELDS`, and paths for which `annotationOf` is not null. */
  constructor(paths: Iterable<string>) {
    const canonical = [...paths].map((path) => {
      const segments = parseFieldPath(path) ?? []
      addPart(this.#parts, segments)
      return formatFieldPath(segments)
    })
    this.paths = [...new Set(canonical)].sort()
    this.#hasManagedFields = this.paths.includes(MANAGED_FIELDS)
    for (const path of this.paths) {
      const annotation = annotationOf(path)
      if (annotation !== null) this.#annotations.add(annotation)
    }
  }

  /** @param object as returned by `scanObject`. @returns the object itself if it has none of the fields. */
  fromJson(object: Spliceable): Spliceable {
    const rest = copyParts(object.bytes, this.#parts, true)
    return rest.bytes.length === object.bytes.length ? object : rest
  }

  /**
   * @param value an object or a Status in its envelope. @returns the value itself if it has none of the fields.
   * @throws CodecError when envelope or metadata cannot be read.
   */
  fromProtobuf(value: Buffer): Buffer {
    const { apiVersion, kind, rawStart, rawEnd } = openEnvelope(value)
    const kept: Buffer[] = []
    let isWhole = true
    let keptFrom = rawStart
    reader.bytes = value
    reader.pos = rawStart
    while (reader.pos < rawEnd) {
      const tagAt = reader.pos
      const tag = reader.readTag(rawEnd)
      if (tag !== METADATA_TAG) {
        reader.skip(tag & 7, rawEnd)
        continue
      }
      const length = reader.readLength(rawEnd)
      const end = reader.pos + length
      const rest = this.#rest(end)
      if (rest === null) continue
      isWhole = false
      kept.push(value.subarray(keptFrom, tagAt), lengthField(1, Buffer.concat(rest)))
      keptFrom = end
    }
    return isWhole ? value : enveloped(apiVersion, kind, Buffer.concat([...kept, value.subarray(keptFrom, rawEnd)]))
  }

  /** Reads metadata up to its end. @returns what is left of it; null if that is all. */
  #rest(end: number): Buffer[] | null {
    const { bytes } = reader
    const kept: Buffer[] = []
    let keptFrom = reader.pos
    let isWhole = true
    while (reader.pos < end) {
      const tagAt = reader.pos
      const tag = reader.readTag(end)
      const valueAt = reader.pos
      reader.skip(tag & 7, end)
      const after = reader.pos
      const isLeftOut =
        (tag === MANAGED_FIELDS_ENTRY && this.#hasManagedFields) ||
        (tag === ANNOTATION && this.#annotations.size > 0 && this.#annotations.has(keyOfEntry(valueAt, after)))
      if (!isLeftOut) continue
      isWhole = false
      kept.push(bytes.subarray(keptFrom, tagAt))
      keptFrom = after
    }
    return isWhole ? null : [...kept, bytes.subarray(keptFrom, end)]
  }
}

/** Reads the key of a map's entry, and leaves the reader after the entry. */
function keyOfEntry(at: number, end: number): string {
  let key = ''
  reader.pos = at
  reader.readLength(end)
  while (reader.pos < end) {
    const tag = reader.readTag(end)
    if (tag !== ENTRY_KEY) {
      reader.skip(tag & 7, end)
      continue
    }
    const length = reader.readLength(end)
    key = reader.text(reader.pos, reader.pos + length)
    reader.pos += length
  }
  return key
}
