/**
 * Handles `Impersonate-*` headers, with which a caller asks to act as another user. The headers are never ignored.
 * Otherwise a gateway that sends requests on behalf of its users would act with its own permissions.
 *
 * As in the API server, a mode allows impersonation if the caller has the mode's verb on each part of the identity:
 * `users` (or `serviceaccounts`, `nodes`), `groups`, `uids` and `userextras/KEY`. The plain verb `impersonate` allows
 * impersonation for every request. A constrained mode (KEP-5284) needs `impersonate:MODE` on each part and, for the
 * request itself, `impersonate-on:MODE:VERB`. Each constrained mode except `user-info` gives one kind of identity, and
 * the headers may contain only its name.
 *
 * This server refuses more than the API server does: an empty or repeated user or uid and unknown header names are
 * errors, and an anonymous caller cannot impersonate.
 *
 * Source: the constrained impersonation filter of kubernetes/apiserver.
 */
import { BadRequestError, ForbiddenError } from '../../kubernetes/model/status.js'
import { type Attributes, resourceAttributes } from './authz/authorizer.js'
import { forbidden } from './authz/forbidden.js'
import { getOrMake } from '../../support/memo.js'
import {
  ALL_AUTHENTICATED,
  ALL_UNAUTHENTICATED,
  ANONYMOUS,
  PRIVILEGED_GROUP,
  type User,
  unescapeExtraKey,
  utf8,
} from './user.js'

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
 * @param rawHeaders alternating names and values, as they arrived.
 * @returns null when there is no `Impersonate-*` header.
 * @throws BadRequestError for headers that are ambiguous or name no user.
 */
export function wantedUser(rawHeaders: readonly string[]): WantedUser | null {
  const names: string[] = []
  const uids: string[] = []
  const groups: string[] = []
  const extra = new Map<string, string[]>()
  let isRequested = false
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const header = rawHeaders[i]!.toLowerCase()
    if (!header.startsWith(PREFIX)) continue
    isRequested = true
    const value = utf8(rawHeaders[i + 1]!)
    if (header === 'impersonate-user') names.push(value)
    else if (header === 'impersonate-uid') uids.push(value)
    else if (header === 'impersonate-group') groups.push(value)
    else if (header.startsWith(EXTRA) && header.length > EXTRA.length) {
      const key = unescapeExtraKey(header.slice(EXTRA.length))
      getOrMake(extra, key, () => []).push(value)
    } else throw new BadRequestError(`unknown impersonation header ${JSON.stringify(header.slice(0, 64))}`)
  }
  if (!isRequested) return null
  if (names.length > 1 || uids.length > 1) throw new BadRequestError('more than one user or uid to impersonate')
  const [name = ''] = names
  if (name === '') throw new BadRequestError('requested impersonation without a user to impersonate')
  if (uids[0] === '' || groups.includes('')) throw new BadRequestError('an empty uid or group cannot be impersonated')
  return { name, uid: uids[0] ?? '', groups, extra }
}

/** An anonymous caller may not impersonate anyone, whatever its other permissions. @throws ForbiddenError */
export function refuseImpersonation(rawHeaders: readonly string[]): void {
  if (!rawHeaders.some((text, i) => i % 2 === 0 && text.toLowerCase().startsWith(PREFIX))) return
  throw new ForbiddenError('an anonymous caller cannot impersonate anyone', { details: {} })
}

/** The permissions for a mode: all of `needed`, or `enough` alone. */
export interface ImpersonationCheck {
  readonly needed: readonly Attributes[]
  readonly enough?: Attributes
}

export interface ImpersonationMode {
  readonly name: ModeName
  /** The caller as authorizers see it. */
  readonly caller: User
  /** The identity that the mode gives. It expires with the caller's credential. */
  readonly user: User
  /**
   * Yields the permissions to check, in order.
   * @param on the request.
   * @throws ForbiddenError, between two checks, for a part of the identity that the mode never grants.
   */
  checks(on: Attributes): Iterable<ImpersonationCheck>
}

type ModeName = 'associated-node' | 'arbitrary-node' | 'serviceaccount' | 'user-info' | 'plain'

/** Returns the modes that could give the identity, in the order in which they are tried. */
export function impersonationModes(wanted: WantedUser, caller: User): readonly ImpersonationMode[] {
  const node = nodeOf(wanted.name)
  const account = serviceAccountOf(wanted.name)
  const isNameOnly = wanted.uid === '' && wanted.groups.length === 0 && wanted.extra.size === 0
  const constrained = (name: ModeName, requester: User, checkedName?: string): ImpersonationMode => ({
    name,
    caller: requester,
    user: impersonatedUser(node === null ? wanted : { ...wanted, groups: [NODES_GROUP] }, caller),
    checks: (on) => constrainedChecks(name, wanted, requester, on, checkedName),
  })
  const modes: ImpersonationMode[] = []
  if (node !== null && isNameOnly) {
    if (node === nodeOfAccount(caller)) modes.push(constrained('associated-node', onSomeNode(caller), '*'))
    modes.push(constrained('arbitrary-node', caller))
  } else if (account !== null && isNameOnly) modes.push(constrained('serviceaccount', caller))
  else if (node === null && account === null) modes.push(constrained('user-info', caller))
  const needed = [...parts(wanted, 'impersonate', '')].flatMap((check) => check.needed)
  modes.push({ name: 'plain', caller, user: impersonatedUser(wanted, caller), checks: () => [{ needed }] })
  return modes
}

/** @param checkedName the name to check permissions for, if it is not the name of the identity. */
function* constrainedChecks(
  mode: ModeName,
  wanted: WantedUser,
  requester: User,
  on: Attributes,
  checkedName?: string,
): Generator<ImpersonationCheck> {
  yield { needed: [{ ...on, verb: `impersonate-on:${mode}:${on.verb}` }] }
  const verb = `impersonate:${mode}`
  for (const check of parts(wanted, verb, AUTHENTICATION)) {
    const first = check.needed[0]!
    if (first.resource === 'groups' && wanted.groups.includes(PRIVILEGED_GROUP)) {
      const reason = `impersonating the ${PRIVILEGED_GROUP} group is not allowed`
      throw forbidden(requester, { ...first, name: PRIVILEGED_GROUP }, { reason })
    }
    const reason = first.resource === 'userextras' ? problemOfExtra(wanted.extra) : null
    if (reason !== null) throw forbidden(requester, { ...first, subresource: '', name: '' }, { reason })
    yield checkedName === undefined ? check : { needed: [{ ...first, name: checkedName }] }
  }
}

/** From this number of groups or values on, permission for `*` is checked first. */
const MANY = 4

/**
 * Yields the required permissions for each part of the identity.
 * @param group the API group of users, accounts, nodes and groups.
 */
function* parts(wanted: WantedUser, verb: string, group: string): Generator<ImpersonationCheck> {
  const isConstrained = group === AUTHENTICATION
  const account = serviceAccountOf(wanted.name)
  const node = isConstrained ? nodeOf(wanted.name) : null
  if (node !== null) yield { needed: [thing(group, 'nodes', node, { verb })] }
  else if (account === null) yield { needed: [thing(group, 'users', wanted.name, { verb })] }
  else {
    const { name, namespace } = account
    yield { needed: [thing(group, 'serviceaccounts', name, { verb, namespace })] }
  }
  if (wanted.uid !== '') yield { needed: [thing(AUTHENTICATION, 'uids', wanted.uid, { verb })] }
  if (wanted.groups.length > 0) {
    const needed = wanted.groups.map((name) => thing(group, 'groups', name, { verb }))
    const all = thing(group, 'groups', '*', { verb })
    yield isConstrained && needed.length >= MANY ? { needed, enough: all } : { needed }
  }
  if (wanted.extra.size > 0) {
    const needed = [...wanted.extra].flatMap(([subresource, values]) =>
      values.map((value) => thing(AUTHENTICATION, 'userextras', value, { verb, subresource })),
    )
    const all = thing(AUTHENTICATION, 'userextras', '*', { verb, subresource: '*' })
    yield isConstrained && needed.length >= MANY ? { needed, enough: all } : { needed }
  }
}

/** Returns why no constrained mode gives these values; null if a mode may give them. */
function problemOfExtra(extra: WantedUser['extra']): string | null {
  for (const [key, values] of extra) {
    const [host = '', ...rest] = key.split('/')
    const path = rest.join('/')
    const isPath = host !== '' && path !== ''
    const invalid = (value: string, detail: string): string =>
      `impersonating an invalid key in extra is not allowed: extra.key: Invalid value: ${JSON.stringify(value)}: ${detail}`
    if (!isPath) return invalid(key, 'must be a domain-prefixed path (such as "acme.io/foo")')
    if (!isSubdomain(host)) return invalid(host, 'must be a lowercase RFC 1123 subdomain')
    if (!HTTP_PATH.test(path)) return invalid(path, 'Invalid path')
    if (key !== key.toLowerCase())
      return `impersonating a non-lowercase key in extra is not allowed: ${JSON.stringify(key)}`
    if (values.includes('')) return 'impersonating the empty string value in extra is not allowed'
  }
  return null
}

const HTTP_PATH = /^[A-Za-z0-9/\-._~%!$&'()*+,;=:]+$/

function impersonatedUser(wanted: WantedUser, caller: User): User {
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

const NODES_GROUP = 'system:nodes'
const NODE_NAME = 'authentication.kubernetes.io/node-name'

/** Returns the name of the node to which the token of a service account is bound; null for any other caller. */
function nodeOfAccount({ name, extra }: User): string | null {
  const nodes = serviceAccountOf(name) === null ? undefined : extra[NODE_NAME]
  return nodes?.length === 1 ? nodes[0]! : null
}

/**
 * Returns the caller as authorizers see it in the mode `associated-node`. The permissions do not depend on the node, so
 * authorizers see only the keys of the extra.
 */
function onSomeNode(caller: User): User {
  const keys = Object.keys(caller.extra).sort()
  return { ...caller, extra: { 'authentication.kubernetes.io/associated-node-keys': keys } }
}

/** Returns null when the name is not that of a node. */
function nodeOf(userName: string): string | null {
  const prefix = 'system:node:'
  const name = userName.slice(prefix.length)
  return userName.startsWith(prefix) && isSubdomain(name) ? name : null
}

function isSubdomain(text: string): boolean {
  return text.length <= 253 && SUBDOMAIN.test(text)
}

const SUBDOMAIN = /^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*$/

const AUTHENTICATION = 'authentication.k8s.io'

function thing(
  group: string,
  plural: string,
  name: string,
  {
    verb,
    namespace = '',
    subresource = '',
  }: { readonly verb: string; readonly namespace?: string; readonly subresource?: string },
): Attributes {
  const resource = { group, version: 'v1', plural }
  return resourceAttributes({ verb, resource, subresource, namespace, name, path: '' })
}

const ACCOUNT =
  /^system:serviceaccount:([a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?):([a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*)$/

/** Returns null when the name is not that of a service account; a name that only looks similar is a user's name. */
function serviceAccountOf(name: string): { readonly namespace: string; readonly name: string } | null {
  // 253 is the longest name of a service account; the other numbers are the lengths of the prefix, the namespace and a
  // colon.
  const found = name.length > 22 + 63 + 1 + 253 ? null : ACCOUNT.exec(name)
  return found === null || found[2]!.length > 253 ? null : { namespace: found[1]!, name: found[2]! }
}
