/**
 * Answers access reviews: what the caller may do, or what another user may do if the caller has permission to ask. A
 * review is a question in the form of an object; nothing is stored.
 *
 * Source: kubernetes/api authorization/v1 and authentication/v1, and their registries in kubernetes/kubernetes.
 */
import { BadRequestError, InvalidError, type StatusCause } from '../../../kubernetes/model/status.js'
import { statusOf } from '../../../kubernetes/model/status-of.js'
import { parseRequirements } from '../../../kubernetes/model/label-requirements.js'
import { checkSelectorLength } from '../../../kubernetes/model/selector-length.js'
import type { ReviewedToken } from '../authn/union-authenticator.js'
import { readUser, type User } from '../user.js'
import type { Attributes, Decision, SelectorRequirement, UserRules } from './authorizer.js'
import { field, textAt, textsAt } from '../../../support/fields.js'

/** Decides for a user, and lists a user's permissions. */
export interface ReviewJudge {
  /** @throws StatusError when no decision is possible now. */
  decide(user: User, attributes: Attributes): Promise<Decision>
  rulesFor(user: User, namespace: string): Promise<UserRules>
  /** @returns null for a token that is not valid. @throws StatusError when it cannot be judged now. */
  reviewToken(token: string, audiences: readonly string[], address: string): Promise<ReviewedToken | null>
}

export interface ReviewKind {
  readonly group: 'authorization.k8s.io' | 'authentication.k8s.io'
  readonly plural: string
  readonly kind: string
  readonly namespaced: boolean
  /** Whether the review concerns only the caller, who then needs no permission to ask. */
  readonly isSelf: boolean
}

const AUTHORIZATION = 'authorization.k8s.io'
const AUTHENTICATION = 'authentication.k8s.io'

function reviewKind(group: ReviewKind['group'], kind: string): ReviewKind {
  const namespaced = kind.startsWith('Local')
  return { group, plural: `${kind.toLowerCase()}s`, kind, namespaced, isSelf: kind.startsWith('Self') }
}

const TOKEN_REVIEW = reviewKind(AUTHENTICATION, 'TokenReview')

const ALL_KINDS: readonly ReviewKind[] = [
  reviewKind(AUTHENTICATION, 'SelfSubjectReview'),
  TOKEN_REVIEW,
  reviewKind(AUTHORIZATION, 'LocalSubjectAccessReview'),
  reviewKind(AUTHORIZATION, 'SelfSubjectAccessReview'),
  reviewKind(AUTHORIZATION, 'SelfSubjectRulesReview'),
  reviewKind(AUTHORIZATION, 'SubjectAccessReview'),
]

/** @param isAlone whether no API server runs next to this one, so tokens are reviewed here. */
export function reviewKinds(isAlone: boolean): readonly ReviewKind[] {
  return isAlone ? ALL_KINDS : ALL_KINDS.filter((kind) => kind !== TOKEN_REVIEW)
}

/** Whether the group version contains only reviews. */
export function isOfReviews(group: string, version: string): boolean {
  return version === 'v1' && ALL_KINDS.some((kind) => kind.group === group)
}

/** @param isAlone as for `reviewKinds`. */
export function findReview(
  { group, version, plural }: { readonly group: string; readonly version: string; readonly plural: string },
  isAlone: boolean,
): ReviewKind | undefined {
  if (version !== 'v1') return undefined
  return reviewKinds(isAlone).find((kind) => kind.group === group && kind.plural === plural)
}

export interface Review {
  readonly caller: User
  readonly address: string
  /** '' for a cluster-scoped review. */
  readonly namespace: string
  /** The parsed body. */
  readonly body: object
  readonly nowMs: number
  /** Parses the text of a field selector. @throws BadRequestError */
  readonly fieldRequirements: (text: string) => readonly SelectorRequirement[]
}

/**
 * Returns the review with its status.
 *
 * @throws BadRequestError, InvalidError
 */
export async function completeReview(judge: ReviewJudge, { kind, group }: ReviewKind, review: Review): Promise<object> {
  const { caller, namespace, body, nowMs, fieldRequirements } = review
  const type = { kind, apiVersion: `${group}/v1` }
  const metadata = namespace === '' ? {} : { namespace }
  const spec = field(body, 'spec')
  switch (kind) {
    case 'SelfSubjectReview': {
      const creationTimestamp = `${new Date(nowMs).toISOString().slice(0, 19)}Z`
      return { ...type, metadata: { creationTimestamp }, status: { userInfo: userInfo(caller) } }
    }
    case 'SelfSubjectRulesReview': {
      const wanted = textAt(spec, 'namespace')
      if (wanted === '') throw new BadRequestError('no namespace on request')
      return { ...type, metadata, spec: {}, status: await judge.rulesFor(caller, wanted) }
    }
    case 'TokenReview':
      return { ...type, metadata, spec, status: await reviewToken(judge, spec, review.address) }
    default: {
      const isSelf = kind === 'SelfSubjectAccessReview'
      check(kind, spec, namespace, isSelf)
      const status = await decide(
        judge,
        isSelf ? caller : readUser(spec, 'user'),
        attributesOf(spec, fieldRequirements),
      )
      return { ...type, metadata, spec, status }
    }
  }
}

function userInfo({ name, uid, groups, extra }: User): object {
  return {
    username: name,
    ...(uid === '' ? {} : { uid }),
    groups,
    ...(Object.keys(extra).length === 0 ? {} : { extra }),
  }
}

/** @throws InvalidError in the API server's words. */
function check(kind: string, spec: unknown, namespace: string, isSelf: boolean): void {
  const causes: StatusCause[] = []
  const wrong = (reason: string, field: string, detail: string): void =>
    void causes.push({ reason, message: detail, field })
  const resource = field(spec, 'resourceAttributes')
  const path = field(spec, 'nonResourceAttributes')
  if (isSet(resource) === isSet(path)) {
    const text = 'exactly one of nonResourceAttributes or resourceAttributes must be specified'
    if (isSet(path)) wrong('FieldValueInvalid', 'spec.nonResourceAttributes', `Invalid value: ${text}`)
    else wrong('FieldValueInvalid', 'spec.resourceAttributes', `Invalid value: null: ${text}`)
  }
  if (!isSelf && textAt(spec, 'user') === '' && textsAt(spec, 'groups').length === 0)
    wrong('FieldValueInvalid', 'spec.user', 'Invalid value: "": at least one of user or group must be specified')
  if (kind === 'LocalSubjectAccessReview') {
    const inside = textAt(resource, 'namespace')
    if (isSet(path))
      wrong('FieldValueForbidden', 'spec.nonResourceAttributes', 'Forbidden: disallowed on this kind of request')
    if (isSet(resource) && inside !== namespace) {
      const text = `Invalid value: ${JSON.stringify(inside)}: must match metadata.namespace`
      wrong('FieldValueInvalid', 'spec.resourceAttributes.namespace', text)
    }
  }
  if (causes.length > 0) throw InvalidError.forFields(kind, AUTHORIZATION, '', causes)
}

function isSet(value: unknown): boolean {
  return typeof value === 'object' && value !== null
}

function attributesOf(spec: unknown, fieldRequirements: Review['fieldRequirements']): Attributes {
  const resource = field(spec, 'resourceAttributes')
  const other = field(spec, 'nonResourceAttributes')
  const of = (name: string): string => textAt(resource, name)
  return {
    verb: isSet(resource) ? of('verb') : textAt(other, 'verb'),
    isResourceRequest: isSet(resource),
    group: of('group'),
    version: of('version'),
    resource: of('resource'),
    subresource: of('subresource'),
    namespace: of('namespace'),
    name: of('name'),
    path: textAt(other, 'path'),
    ...selectorOf(resource, 'fieldSelector', fieldRequirements),
    ...selectorOf(resource, 'labelSelector', labelRequirements),
  }
}

/** Drops malformed parts of a selector. The selector then selects more, which never makes a mode allow more. */
function selectorOf(
  resource: unknown,
  name: 'fieldSelector' | 'labelSelector',
  parse: (text: string) => readonly SelectorRequirement[],
): { readonly [one in typeof name]?: readonly SelectorRequirement[] } {
  const selector = field(resource, name)
  const listed = field(selector, 'requirements')
  const requirements =
    Array.isArray(listed) && listed.length > 0
      ? listed.flatMap((one: unknown) => requirementOf(one) ?? [])
      : parsedOr(textAt(selector, 'rawSelector'), parse)
  return requirements.length === 0 ? {} : { [name]: requirements }
}

function parsedOr(text: string, parse: Review['fieldRequirements']): readonly SelectorRequirement[] {
  try {
    return text === '' ? [] : parse(text)
  } catch {
    return []
  }
}

function requirementOf(value: unknown): SelectorRequirement | null {
  const [key, operator, values] = ['key', 'operator', 'values'].map((name) => field(value, name))
  const known = OPERATORS.find((one) => one === operator)
  if (known === undefined) return null
  return { key: textAt(key), operator: known, ...(Array.isArray(values) ? { values: textsAt(values) } : {}) }
}

const OPERATORS = ['In', 'NotIn', 'Exists', 'DoesNotExist'] as const

/** Converts a label selector to the form of a review, which has no `>` and `<`. @throws BadRequestError */
export function labelRequirements(text: string): readonly SelectorRequirement[] {
  checkSelectorLength('labelSelector', text)
  return parseRequirements(text).flatMap(({ key, operator, values }): SelectorRequirement[] => {
    switch (operator) {
      case '=':
      case 'in':
        return [{ key, operator: 'In', values }]
      case '!=':
      case 'notin':
        return [{ key, operator: 'NotIn', values }]
      case 'exists':
        return [{ key, operator: 'Exists' }]
      case '!':
        return [{ key, operator: 'DoesNotExist' }]
      default:
        return []
    }
  })
}

/**
 * @throws BadRequestError; StatusError when the token cannot be judged now, because "not valid" would be a decision.
 */
async function reviewToken(judge: ReviewJudge, spec: unknown, address: string): Promise<object> {
  const token = textAt(spec, 'token')
  if (token === '') throw new BadRequestError('token is required for TokenReview in authentication')
  const owner = await judge.reviewToken(token, textsAt(spec, 'audiences'), address)
  if (owner === null) return { user: {}, error: 'invalid bearer token' }
  const { user, audiences } = owner
  return { authenticated: true, user: userInfo(user), ...(audiences.length === 0 ? {} : { audiences }) }
}

/** If an authorizer cannot decide now, the review's status says so; the review itself has not failed. */
async function decide(judge: ReviewJudge, user: User, attributes: Attributes): Promise<object> {
  try {
    const { allowed, denied, reason, rule } = await judge.decide(user, attributes)
    const why = allowed ? (rule ?? '') : reason
    return { allowed, ...(denied === true ? { denied } : {}), ...(why === '' ? {} : { reason: why }) }
  } catch (error) {
    return { allowed: false, evaluationError: statusOf(error).message }
  }
}
