/** Reads the identity of an object, which no other object of its name has had. */
import { extractFacts, planFacts } from '../facts/json-facts.js'

export const UID = 'metadata.uid'
const plan = planFacts([UID])

/** @param json has at least the object's metadata; null when it cannot be read. @returns '' for an object without one. */
export function uidOf(json: Buffer | null): string {
  return json === null ? '' : extractFacts(json, plan).field(UID)
}
