/** Reads an object's uid, which distinguishes it from earlier objects with the same name. */
import { extractFacts, planFacts } from '../../engine/facts/json-facts.js'

const UID = 'metadata.uid'
const plan = planFacts([UID])

/**
 * @param json the object, or at least its metadata; null when the object cannot be read.
 * @returns '' for an object without a uid.
 */
export function uidOf(json: Buffer | null): string {
  return json === null ? '' : extractFacts(json, plan).field(UID)
}
