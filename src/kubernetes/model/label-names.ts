/** Checks label keys and values by Kubernetes' rules, in time linear in their length. */

/** Both limits are the same as in the API server. */
const MAX_NAME_LENGTH = 63
const MAX_PREFIX_LENGTH = 253

const SUBDOMAIN = '[a-z0-9]([-a-z0-9]*[a-z0-9])?'
const NAME = '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]'
const CHARACTERS =
  "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
const NAME_RULE = `${CHARACTERS} (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '${NAME}')`
const VALUE_RULE = `a valid label must be an empty string or consist of${CHARACTERS.slice('must consist of'.length)} (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(${NAME})?')`
const PREFIX_RULE = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '${SUBDOMAIN}(\\.${SUBDOMAIN})*')`

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
    if (!isSubdomain(prefix)) problems.push(`prefix part ${PREFIX_RULE}`)
  }
  if (name === '') problems.push('name part must be non-empty')
  if (name.length > MAX_NAME_LENGTH) problems.push(`name part must be no more than ${MAX_NAME_LENGTH} bytes`)
  return isName(name) ? problems : [...problems, `name part ${NAME_RULE}`]
}

/** Returns all problems of the value, in the API server's words. */
export function labelValueProblems(value: string): readonly string[] {
  if (value === '') return []
  const problems = value.length > MAX_NAME_LENGTH ? [`must be no more than ${MAX_NAME_LENGTH} bytes`] : []
  return isName(value) ? problems : [...problems, VALUE_RULE]
}

function joined(problems: readonly string[]): string | null {
  return problems.length === 0 ? null : problems.join('; ')
}

function isName(text: string): boolean {
  if (!isAlphanumeric(text.charCodeAt(0)) || !isAlphanumeric(text.charCodeAt(text.length - 1))) return false
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    if (!isAlphanumeric(unit) && unit !== 0x2d && unit !== 0x2e && unit !== 0x5f) return false
  }
  return true
}

function isSubdomain(text: string): boolean {
  return text.split('.').every((label) => {
    if (label === '' || label.startsWith('-') || label.endsWith('-')) return false
    for (let i = 0; i < label.length; i++) {
      const unit = label.charCodeAt(i)
      if (unit !== 0x2d && (!isAlphanumeric(unit) || isUpper(unit))) return false
    }
    return true
  })
}

function isUpper(unit: number): boolean {
  return unit >= 0x41 && unit <= 0x5a
}

function isAlphanumeric(unit: number): boolean {
  return (unit >= 0x30 && unit <= 0x39) || isUpper(unit) || (unit >= 0x61 && unit <= 0x7a)
}
