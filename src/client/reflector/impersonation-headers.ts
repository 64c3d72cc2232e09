/**
 * The headers for impersonating another user.
 *
 * Source: Kubernetes, "Authenticating", "User impersonation"; the escaping of extra keys is client-go's.
 */

/** The user to impersonate. The server decides whether the caller may do that. */
export interface Impersonation {
  readonly user: string
  readonly groups?: readonly string[]
  readonly uid?: string
  readonly extra?: Readonly<Record<string, readonly string[]>>
}

/**
 * Returns pairs of header names and values. For several groups, the same name is repeated.
 * @throws Error when a user is missing.
 */
export function impersonationHeaders(impersonation: Impersonation | undefined): readonly (readonly [string, string])[] {
  if (impersonation === undefined) return []
  const { user, groups = [], uid = '', extra = {} } = impersonation
  if (user === '') throw new Error('impersonation names groups, a uid or extra fields, but no user')
  return [
    ['impersonate-user', user],
    ...groups.map((group): [string, string] => ['impersonate-group', group]),
    ...(uid === '' ? [] : [['impersonate-uid', uid] as const]),
    ...Object.entries(extra).flatMap(([key, values]) =>
      values.map((value): [string, string] => [`impersonate-extra-${escapeKey(key)}`, value]),
    ),
  ]
}

/** Returns the same headers by name, in the form in which Node's HTTP client accepts several values of one header. */
export function headersByName(impersonation: Impersonation | undefined): Readonly<Record<string, readonly string[]>> {
  const all: Record<string, string[]> = {}
  for (const [name, value] of impersonationHeaders(impersonation)) (all[name] ??= []).push(value)
  return all
}

/** Percent-encodes the characters of a key that a header's name cannot contain. */
function escapeKey(key: string): string {
  return [...new TextEncoder().encode(key)]
    .map((byte) => {
      const char = String.fromCharCode(byte)
      return /[\w!#$&'*+.^`|~-]/.test(char) ? char : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
    })
    .join('')
}
