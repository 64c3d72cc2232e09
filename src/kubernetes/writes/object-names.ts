/** The rules for object names by resource, in the API server's words. */
import { keyName, restOfName } from '../../engine/model/key-name.js'
import type { Resource } from '../../engine/model/resource.js'

const LABEL = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/
const LABEL_1035 = /^[a-z]([-a-z0-9]*[a-z0-9])?$/
const SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/

const SUBDOMAIN_RULE =
  "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
const LABEL_RULE =
  "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
const LABEL_1035_RULE =
  "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"

type Rule = 'subdomain' | 'label' | 'label-1035' | 'path-segment' | 'key'

/** The resources whose names are not DNS subdomains. */
const RULES: Readonly<Record<string, Rule>> = {
  '/namespaces': 'label',
  '/services': 'label-1035',
  'rbac.authorization.k8s.io/roles': 'path-segment',
  'rbac.authorization.k8s.io/rolebindings': 'path-segment',
  'rbac.authorization.k8s.io/clusterroles': 'path-segment',
  'rbac.authorization.k8s.io/clusterrolebindings': 'path-segment',
  'networking.k8s.io/ipaddresses': 'path-segment',
  'certificates.k8s.io/certificatesigningrequests': 'path-segment',
}

/** etcd limits a key only by the size of the request; this is longer than any path that people type. */
const MAX_KEY_LENGTH = 1_024
const MAX_SUBDOMAIN_LENGTH = 253
const MAX_LABEL_LENGTH = 63
/** The API server's limit: the random suffix after a `generateName` must fit too. */
const GENERATED_LENGTH = 5

/** @returns what is wrong with the name, or null. */
export function nameProblem(resource: Resource, name: string): string | null {
  switch (resource.holds === 'kubernetes' ? (RULES[`${resource.group}/${resource.plural}`] ?? 'subdomain') : 'key') {
    case 'key':
      if (name.length > MAX_KEY_LENGTH) return `must be no more than ${MAX_KEY_LENGTH} characters`
      return restOfName(name) === null
        ? `is the name of no key: the key '${name}' has the name '${keyName(name)}'`
        : null
    case 'label':
      if (name.length > MAX_LABEL_LENGTH) return `must be no more than ${MAX_LABEL_LENGTH} characters`
      return LABEL.test(name) ? null : LABEL_RULE
    case 'label-1035':
      if (name.length > MAX_LABEL_LENGTH) return `must be no more than ${MAX_LABEL_LENGTH} characters`
      return LABEL_1035.test(name) ? null : LABEL_1035_RULE
    case 'path-segment':
      if (name === '.' || name === '..') return `may not be '${name}'`
      return /[/%]/.test(name) ? `may not contain '${name.includes('/') ? '/' : '%'}'` : null
    case 'subdomain':
      if (name.length > MAX_SUBDOMAIN_LENGTH) return `must be no more than ${MAX_SUBDOMAIN_LENGTH} characters`
      return SUBDOMAIN.test(name) ? null : SUBDOMAIN_RULE
  }
}

/** Without vowels and similar-looking characters, so that a suffix never spells a word. */
const ALPHABET = 'bcdfghjklmnpqrstvwxz2456789'

/** @param random at least five bytes. */
export function generatedName(base: string, random: Buffer): string {
  let suffix = ''
  for (const byte of random.subarray(0, GENERATED_LENGTH)) suffix += ALPHABET[byte % ALPHABET.length]!
  return base.slice(0, MAX_LABEL_LENGTH - GENERATED_LENGTH) + suffix
}
