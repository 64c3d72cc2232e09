/**
 * `Impersonate-*` headers: the caller asks to act as another user. As in the API server, it needs the verb
 * `impersonate` on each part of the identity it asks for: `users` or `serviceaccounts`, `groups`, and in
 * `authentication.k8s.io` `uids` and `userextras/KEY`. The headers are never ignored, because a sender such as a
 * gateway that speaks for its users would then act with its own rights.
 *
 * This server refuses more than the API server does: an empty or repeated user or uid and unknown header names are
 * errors, and an anonymous caller cannot impersonate. Kubernetes' narrower verbs (`impersonate:MODE`) grant nothing
 * here.
 *
 * Source: the impersonation filter of kubernetes/apiserver, in the mode of the plain verb.
 */
import { BadRequestError, ForbiddenError } from '../../engine/model/status.js'
import { type Attributes, resourceAttributes } from './authz/authorizer.js'
import { ALL_AUTHENTICATED, ALL_UNAUTHENTICATED, ANONYMOUS, type User } from './user.js'

/** The user that the headers ask for. */
export interface WantedUser {
  readonly name: string
  /** The uid is '' when the headers name none. */
  readonly uid: string
  readonly groups: readonly string[]
  readonly extra: ReadonlyMap<string, readonly string[]>
}

const PREFIX = 'impersonate-'
const EXTRA = 'impersonate-extra-'

/**
 * @param rawHeaders names and values in turn, as they came.
 * @returns null when there is no such header.
 * @throws BadRequestError for headers that are ambiguous or name no user.
 */
export function wantedUser(rawHeaders: readonly string[]): WantedUser | null {
  const names: string[] = []
  const uids: string[] = []
  const groups: string[] = []
  const extra = new Map<string, string[]>()
  let isAsked = false
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const header = rawHeaders[i]!.toLowerCase()
    if (!header.startsWith(PREFIX)) continue
    isAsked = true
    const value = utf8(rawHeaders[i + 1]!)
    if (header === 'impersonate-user') names.push(value)
    else if (header === 'impersonate-uid') uids.push(value)
    else if (header === 'impersonate-group') groups.push(value)
    else if (header.startsWith(EXTRA) && header.length > EXTRA.length) {
      const key = unescapeKey(header.slice(EXTRA.length))
      extra.set(key, [...(extra.get(key) ?? []), value])
    } else throw new BadRequestError(`unknown impersonation header ${JSON.stringify(header.slice(0, 64))}`)
  }
  if (!isAsked) return null
  if (names.length > 1 || uids.length > 1) throw new BadRequestError('more than one user or uid to impersonate')
  const [name = ''] = names
  if (name === '') throw new BadRequestError('requested impersonation without a user to impersonate')
  if (uids[0] === '' || groups.includes('')) throw new BadRequestError('an empty uid or group cannot be impersonated')
  return { name, uid: uids[0] ?? '', groups, extra }
}

/** An anonymous caller may not impersonate anybody, whatever its other rights. @throws ForbiddenError */
export function refuseImpersonation(rawHeaders: readonly string[]): void {
  if (!rawHeaders.some((text, i) => i % 2 === 0 && text.toLowerCase().startsWith(PREFIX))) return
  throw new ForbiddenError('an anonymous caller cannot impersonate anybody', { details: {} })
}

/**
 * Returns every part of the identity that the caller needs the right to, in the order in which the rights are checked.
 */
export function impersonationAttributes(wanted: WantedUser): readonly Attributes[] {
  const account = serviceAccountOf(wanted.name)
  return [
    account === null
      ? thing('', 'users', wanted.name)
      : thing('', 'serviceaccounts', account.name, { namespace: account.namespace }),
    ...(wanted.uid === '' ? [] : [thing(AUTHENTICATION, 'uids', wanted.uid)]),
    ...wanted.groups.map((group) => thing('', 'groups', group)),
    ...[...wanted.extra].flatMap(([key, values]) =>
      values.map((value) => thing(AUTHENTICATION, 'userextras', value, { subresource: key })),
    ),
  ]
}

/** @param caller the owner of the credential: the impersonated user expires with it. */
export function impersonatedUser(wanted: WantedUser, caller: User): User {
  const account = serviceAccountOf(wanted.name)
  const groups =
    account !== null && wanted.groups.length === 0
      ? ['system:serviceaccounts', `system:serviceaccounts:${account.namespace}`]
      : [...wanted.groups]
  const needed =
    wanted.name === ANONYMOUS.name || groups.includes(ALL_UNAUTHENTICATED) ? ALL_UNAUTHENTICATED : ALL_AUTHENTICATED
  if (!groups.includes(needed)) groups.push(needed)
  // fromEntries defines members, so that a key such as __proto__ becomes an ordinary one.
  const extra = Object.fromEntries(wanted.extra)
  return { name: wanted.name, uid: wanted.uid, groups, extra, expiresAt: caller.expiresAt }
}

const AUTHENTICATION = 'authentication.k8s.io'

function thing(
  group: string,
  plural: string,
  name: string,
  { namespace = '', subresource = '' }: { readonly namespace?: string; readonly subresource?: string } = {},
): Attributes {
  const resource = { group, version: 'v1', plural }
  return resourceAttributes({ verb: 'impersonate', resource, subresource, namespace, name, path: '' })
}

const ACCOUNT =
  /^system:serviceaccount:([a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?):([a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*)$/

/** Returns null when the name is not that of a service account; a name that only looks alike is a user's. */
function serviceAccountOf(name: string): { readonly namespace: string; readonly name: string } | null {
  // 253 is the longest name of a service account; the other numbers are the lengths of the prefix, the namespace and a
  // colon.
  const found = name.length > 22 + 63 + 1 + 253 ? null : ACCOUNT.exec(name)
  return found === null || found[2]!.length > 253 ? null : { namespace: found[1]!, name: found[2]! }
}

/** Node reads headers as Latin-1, so their bytes are decoded again as UTF-8. */
function utf8(text: string): string {
  return Buffer.from(text, 'latin1').toString('utf8')
}

function unescapeKey(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
