/**
 * Prepares an object to be served in a version that may differ from the stored one: it is converted, and the place of
 * its resourceVersion is found again. Objects that came as JSON (`scanObject`) and as protobuf (`decodeObject`) are
 * treated alike.
 */
import { type ScannedObject, scanObject } from '../json-scan.js'
import { convert } from './convert.js'

/** @returns the object itself when it has that version already; null when it is not available in that version. */
export function asVersion(object: ScannedObject, apiVersion: string): ScannedObject | null {
  if (object.apiVersion === apiVersion) return object
  const json = convert(object.bytes, object.apiVersion, apiVersion, object.kind)
  return json === null ? null : scanObject(json)
}
