/** The user behind a request. Authenticators make users, authorizers and limits read them; nothing else about a caller is trusted. */
import { createHash } from 'node:crypto'

export interface User {
  readonly name: string
  /** '' when the authenticator knows none. */
  readonly uid: string
  readonly groups: readonly string[]
  readonly extra: Readonly<Record<string, readonly string[]>>
  /** Milliseconds since the epoch after which the credential means nothing; null for one that does not run out. */
  readonly expiresAt: number | null
}

export const ALL_AUTHENTICATED = 'system:authenticated'
export const ALL_UNAUTHENTICATED = 'system:unauthenticated'
export const PRIVILEGED_GROUP = 'system:masters'

export const ANONYMOUS: User = {
  name: 'system:anonymous',
  uid: '',
  groups: [ALL_UNAUTHENTICATED],
  extra: {},
  expiresAt: null,
}

/** The same text for the same identity, whatever credential showed it: a key for caches and limits. */
export function identityKey(user: User): string {
  return JSON.stringify([user.name, user.uid, user.groups, Object.entries(user.extra)])
}

/** As a key in place of a secret, so that no table of ours holds one and a lookup takes the same time for each. */
export function digest(secret: string): string {
  return createHash('sha256').update(secret).digest('base64')
}
