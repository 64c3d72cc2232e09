/** Checks label keys and values by Kubernetes' rules, in time linear in their length. */

/** Both limits are the same as in the API server. */
const MAX_NAME_LENGTH = 63
const MAX_PREFIX_LENGTH = 253

const DNS_LABEL = '[a-z0-9]([-a-z0-9]*[a-z0-9])?'
const NAME = '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]'
const DNS_LABEL_PATTERN = new RegExp(`^${DNS_LABEL}$`)
const NAME_PATTERN = new RegExp(`^${NAME}$`)
const CHARACTERS =
  "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
const NAME_RULE = `${CHARACTERS} (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '${NAME}')`
const VALUE_RULE = `a valid label must be an empty string or consist of${CHARACTERS.slice('must consist of'.length)} (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(${NAME})?')`
export const SUBDOMAIN_RULE = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '${DNS_LABEL}(\\.${DNS_LABEL})*')`

/** @returns what is wrong with the key; null if nothing is. */
export function checkLabelKey(key: string): string | null {
  return joined(labelKeyProblems(key))
}

/** @returns what is wrong with the value; null if nothing is. The empty value is allowed. */
export function checkLabelValue(value: string): string | null {
  return joined(labelValueProblems(value))
}

/** Returns all problems of the key, in the API server's words. */
export function labelKeyProblems(key: string): readonly string[] {
  const slash = key.indexOf('/')
  const name = key.slice(slash + 1)
  if (name.includes('/')) {
    return [`a valid label key ${NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`]
  }
  const problems: string[] = []
  if (slash === 0) problems.push('prefix part must be non-empty')
  if (slash > 0) {
    const prefix = key.slice(0, slash)
    if (prefix.length > MAX_PREFIX_LENGTH) {
      problems.push(`prefix part must be no more than ${MAX_PREFIX_LENGTH} bytes`)
    }
    const isSubdomain = prefix.split('.').every((label) => DNS_LABEL_PATTERN.test(label))
    if (!isSubdomain) problems.push(`prefix part ${SUBDOMAIN_RULE}`)
  }
  if (name === '') problems.push('name part must be non-empty')
  if (name.length > MAX_NAME_LENGTH) problems.push(`name part must be no more than ${MAX_NAME_LENGTH} bytes`)
  return NAME_PATTERN.test(name) ? problems : [...problems, `name part ${NAME_RULE}`]
}

/** Returns all problems of the value, in the API server's words. */
export function labelValueProblems(value: string): readonly string[] {
  if (value === '') return []
  const problems = value.length > MAX_NAME_LENGTH ? [`must be no more than ${MAX_NAME_LENGTH} bytes`] : []
  return NAME_PATTERN.test(value) ? problems : [...problems, VALUE_RULE]
}

function joined(problems: readonly string[]): string | null {
  return problems.length === 0 ? null : problems.join('; ')
}
