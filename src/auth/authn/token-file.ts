/**
 * Bearer tokens from a CSV file, in kube-apiserver's format: `token,user,uid,"group1,group2"`. Unlike there, the file is
 * read again when it changes, so that a token can be taken back without a restart.
 */
import { UnauthorizedError } from '../../model/status.js'
import { parseCsv } from '../csv.js'
import { digest, type User } from '../user.js'
import type { WatchedFiles } from '../watched-file.js'
import type { Authenticator } from './authenticator.js'
import { bearerToken } from './bearer-token.js'

/** Users by the digest of their token. */
export type TokenTable = ReadonlyMap<string, User>

/**
 * A record with an empty token is skipped, and of two equal tokens the later counts, as in kube-apiserver.
 * @throws Error for a record of fewer than three columns or broken CSV; the message holds no token.
 */
export function parseTokenFile(text: string): TokenTable {
  const users = new Map<string, User>()
  for (const [index, record] of parseCsv(text.replace(/^\ufeff/, '')).entries()) {
    const [token = '', name, uid, groups = ''] = record
    if (name === undefined || uid === undefined) {
      throw new Error(`record ${index + 1}: needs at least token, user name and user uid, has ${record.length} columns`)
    }
    if (token === '') continue
    users.set(digest(token), {
      name,
      uid,
      groups: groups.split(',').filter((group) => group !== ''),
      extra: {},
      expiresAt: null,
    })
  }
  return users
}

/** @param tokens `--token-auth-file`. */
export function tokenFile(tokens: WatchedFiles<TokenTable>): Authenticator {
  return {
    async authenticate(request) {
      const token = bearerToken(request)
      if (token === null) return null
      const user = tokens.value.get(digest(token))
      // Another authenticator may know it: that nobody does is for the union to say.
      return user ?? null
    },
    changesSilently: false,
    onChange: (listener) => tokens.onChange(listener),
    close: () => tokens.close(),
  }
}

/** A token that no authenticator knew. */
export function unknownToken(): UnauthorizedError {
  return new UnauthorizedError('Unauthorized', { cause: 'unknown bearer token' })
}
