/** Checks label keys and values by Kubernetes' rules, in linear time for every text. */

/** Both limits are the API server's. */
const MAX_NAME_LENGTH = 63
const MAX_PREFIX_LENGTH = 253

const NAME_RULE = "must be letters, digits, '-', '_' or '.', and start and end with a letter or digit"
const PREFIX_RULE =
  "must be a lower case DNS subdomain (letters, digits, '-' or '.', each label starting and ending with a letter or digit)"

/** @returns what is wrong with the key, or null. */
export function checkLabelKey(key: string): string | null {
  const slash = key.indexOf('/')
  const name = key.slice(slash + 1)
  if (name.includes('/')) return "a label key has at most one '/', between its prefix and its name"
  if (slash === 0) return 'prefix part must be non-empty'
  if (slash > 0) {
    const prefix = key.slice(0, slash)
    if (prefix.length > MAX_PREFIX_LENGTH) return `prefix part must be no more than ${MAX_PREFIX_LENGTH} characters`
    if (!isSubdomain(prefix)) return `prefix part ${PREFIX_RULE}`
  }
  if (name === '') return 'name part must be non-empty'
  if (name.length > MAX_NAME_LENGTH) return `name part must be no more than ${MAX_NAME_LENGTH} characters`
  return isName(name) ? null : `name part ${NAME_RULE}`
}

/** The empty value is allowed. @returns what is wrong with the value, or null. */
export function checkLabelValue(value: string): string | null {
  if (value === '') return null
  if (value.length > MAX_NAME_LENGTH) return `must be no more than ${MAX_NAME_LENGTH} characters`
  return isName(value) ? null : `a label value ${NAME_RULE}`
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
