/** Reads an object's uid, which tells it from earlier objects of the same name. */
import { extractFacts, planFacts } from '../facts/json-facts.js'

export const UID = 'metadata.uid'
const plan = planFacts([UID])

/**
 * @param json has at least the object's metadata; null when it cannot be read. @returns '' for an object without one.
 */
export function uidOf(json: Buffer | null): string {
  return json === null ? '' : extractFacts(json, plan).field(UID)
}
