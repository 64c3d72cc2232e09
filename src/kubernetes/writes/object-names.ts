/** Checks the names of objects, in the API server's words. */
import { keyName, restOfName } from '../../support/key-name.js'
import type { ApiResource } from '../model/api-resource.js'
import { SUBDOMAIN_RULE } from '../model/label-names.js'
import { nameRuleOf } from '../dialect/well-known-resources.js'

const LABEL = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/
const LABEL_1035 = /^[a-z]([-a-z0-9]*[a-z0-9])?$/
const SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/

const LABEL_RULE =
  "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
const LABEL_1035_RULE =
  "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"

/** etcd limits a key only by the size of the request. This limit is longer than any path that people type. */
const MAX_KEY_LENGTH = 1_024
const MAX_SUBDOMAIN_LENGTH = 253
const MAX_LABEL_LENGTH = 63
/** As in the API server, the name leaves room for the random suffix of this length after a `generateName`. */
const GENERATED_LENGTH = 5

/** @returns what is wrong with the name, or null. */
export function nameProblem(resource: ApiResource, name: string): string | null {
  return nameProblems(resource, name)[0] ?? null
}

/** Returns everything that is wrong with the name. */
export function nameProblems(resource: ApiResource, name: string): readonly string[] {
  const rule = ruleOf(resource)
  if (rule === 'key') return keyProblems(name)
  if (rule !== 'path-segment') return textProblems(rule, name)
  return name === '.' || name === '..' ? [`may not be '${name}'`] : segmentProblems(name)
}

/** @returns what is wrong with a name that must be a DNS-1035 label, or null. */
export function labelProblem(name: string): string | null {
  return textProblems('label-1035', name)[0] ?? null
}

/** Returns everything that is wrong with the beginning of names to be generated. */
export function prefixProblems(resource: ApiResource, prefix: string): readonly string[] {
  const rule = ruleOf(resource)
  if (rule === 'key') return []
  if (rule === 'path-segment') return segmentProblems(prefix)
  // A dash at the end is allowed, because letters follow it.
  return textProblems(rule, prefix.length > 1 && prefix.endsWith('-') ? `${prefix.slice(0, -1)}a` : prefix)
}

function ruleOf(resource: ApiResource): ReturnType<typeof nameRuleOf> | 'key' {
  return resource.holds === 'kubernetes' ? nameRuleOf(resource) : 'key'
}

function keyProblems(name: string): readonly string[] {
  if (name.length > MAX_KEY_LENGTH) return [`must be no more than ${MAX_KEY_LENGTH} characters`]
  return restOfName(name) === null ? [`is the name of no key: the key '${name}' has the name '${keyName(name)}'`] : []
}

function segmentProblems(name: string): readonly string[] {
  return ['/', '%'].filter((character) => name.includes(character)).map((character) => `may not contain '${character}'`)
}

const TEXTS = {
  subdomain: { most: MAX_SUBDOMAIN_LENGTH, pattern: SUBDOMAIN, why: SUBDOMAIN_RULE },
  label: { most: MAX_LABEL_LENGTH, pattern: LABEL, why: LABEL_RULE },
  'label-1035': { most: MAX_LABEL_LENGTH, pattern: LABEL_1035, why: LABEL_1035_RULE },
} as const

function textProblems(rule: keyof typeof TEXTS, name: string): readonly string[] {
  const { most, pattern, why } = TEXTS[rule]
  const problems = name.length > most ? [`must be no more than ${most} characters`] : []
  // Do not run the expression on text that is far too long.
  return name.length <= 2 * most && pattern.test(name) ? problems : [...problems, why]
}

/** Has no vowels or similar-looking characters, so that a suffix never spells a word. */
const ALPHABET = 'bcdfghjklmnpqrstvwxz2456789'

/** @param random at least five bytes. */
export function generatedName(base: string, random: Buffer): string {
  let suffix = ''
  for (const byte of random.subarray(0, GENERATED_LENGTH)) suffix += ALPHABET[byte % ALPHABET.length]!
  return base.slice(0, MAX_LABEL_LENGTH - GENERATED_LENGTH) + suffix
}
