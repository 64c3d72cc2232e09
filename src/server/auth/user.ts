/**
 * The user behind a request. Authenticators create users, and authorizers and limits read them. Nothing else about a
 * caller is trusted.
 */
import { createHash } from 'node:crypto'

import { entriesAt, textAt, textsAt } from '../../support/fields.js'

export interface User {
  readonly name: string
  /** The uid is '' when the authenticator knows none. */
  readonly uid: string
  readonly groups: readonly string[]
  readonly extra: Readonly<Record<string, readonly string[]>>
  /** The time after which the credential is invalid, in milliseconds since the epoch; null when it never expires. */
  readonly expiresAt: number | null
  /** The requested audiences for which the token was issued; absent if the authenticator does not compare audiences. */
  readonly audiences?: readonly string[]
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

/**
 * Reads a user from an object of the API, with a credential that does not expire.
 * @param nameField the member with the name, which differs between the API's types.
 */
export function readUser(value: unknown, nameField: string): User {
  const extra = entriesAt(value, 'extra').map(([key, values]) => [key, textsAt(values)] as const)
  return {
    name: textAt(value, nameField),
    uid: textAt(value, 'uid'),
    groups: textsAt(value, 'groups'),
    extra: Object.fromEntries(extra),
    expiresAt: null,
  }
}

/** Decodes the value of a header. Node reads headers as Latin-1, so their bytes are decoded again as UTF-8. */
export function utf8(text: string): string {
  return Buffer.from(text, 'latin1').toString('utf8')
}

/** Reads the key of an extra attribute from the name of a header. */
export function unescapeExtraKey(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** Adds the group of all authenticated users, to which every caller with a name belongs. */
export function withAuthenticatedGroup(user: User): User {
  const known = user.groups.some((group) => group === ALL_AUTHENTICATED || group === ALL_UNAUTHENTICATED)
  return known ? user : { ...user, groups: [...user.groups, ALL_AUTHENTICATED] }
}

/** Returns the same text for the same identity, whatever the credential was. It is a key for caches and limits. */
export function identityKey(user: User): string {
  return JSON.stringify([user.name, user.uid, user.groups, Object.entries(user.extra)])
}

/** Turns a secret into a key, so that no table contains the secret and every lookup takes the same time. */
export function digest(secret: string): string {
  return createHash('sha256').update(secret).digest('base64')
}
