/**
 * Authenticates bearer tokens from a CSV file in kube-apiserver's format: `token,user,uid,"group1,group2"`. Unlike
 * kube-apiserver, this server reads the file again when it changes, so a token can be revoked without a restart.
 */
import { UnauthorizedError } from '../../../kubernetes/model/status.js'
import { parseCsv } from '../csv.js'
import { digest, type User } from '../user.js'
import type { WatchedFiles } from '../watched-file.js'
import type { Authenticator } from './authenticator.js'
import { bearerToken } from './bearer-token.js'

/** Users by the digest of their token. */
export type TokenTable = ReadonlyMap<string, User>

/**
 * As in kube-apiserver, a record with an empty token is skipped, and the last of duplicate tokens wins.
 * @throws Error for malformed CSV or a record with fewer than three columns; the message contains no token.
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
      // Another authenticator may know the token. If none does, the union rejects it.
      return user ?? null
    },
    readsTokens: true,
    changesSilently: false,
    onChange: (listener) => tokens.onChange(() => listener()),
    close: () => tokens.close(),
  }
}

/** The error for a token that no authenticator knows. */
export function unknownToken(): UnauthorizedError {
  return new UnauthorizedError('Unauthorized', { cause: 'unknown bearer token' })
}
