/**
 * The Webhook mode: asks an API server to decide (SubjectAccessReview, `authorization.k8s.io/v1`). Decisions are
 * cached, and grants and refusals are kept for different times. Concurrent equal requests are sent only once. The
 * connections are shared fairly between users, because anyone with a name can make thousands of distinct requests.
 */
import { FairSemaphore } from '../../limits/fair-semaphore.js'
import { ReviewServer, type ReviewServerOptions } from '../review-server.js'
import { digest, identityKey, type User } from '../user.js'
import { type Attributes, attributesKey, type Authorizer, type Decision } from './authorizer.js'
import { recentEntries } from '../../../support/recent-entries.js'
import { field, textAt } from '../../../support/fields.js'
import { MAX_DECISIONS } from '../../limits/fixed-limits.js'

/**
 * The client has the identity of `--authorization-kubeconfig`, which needs the permission to `create`
 * subjectaccessreviews.
 */
export interface WebhookOptions extends ReviewServerOptions {
  readonly authorizedMs: number
  readonly unauthorizedMs: number
}

/** The client has eight connections. */
const REVIEWS_AT_ONCE = 8
const MAX_WAITING = 4_096

export function webhook(options: WebhookOptions): Authorizer {
  const { clock } = options
  const server = new ReviewServer({ ...options, kind: 'SubjectAccessReview', accepts: allows })
  const kept = recentEntries<string, { readonly decision: Decision; readonly until: number }>(MAX_DECISIONS)
  const running = new Map<string, Promise<Decision>>()
  const turns = new FairSemaphore({
    clock,
    slots: REVIEWS_AT_ONCE,
    maxSlotsPerIdentity: REVIEWS_AT_ONCE - 2,
    maxWaiting: MAX_WAITING,
    maxWaitingPerIdentity: MAX_WAITING / 4,
    maxWaitMs: 5_000,
    message: 'too many permissions are being checked',
    onRejected: () => {},
  })

  async function requestDecision(key: string, user: User, attributes: Attributes): Promise<Decision> {
    const leave = await turns.acquire(user.name)
    const decision = await review(server, user, attributes).finally(leave)
    const keptMs = decision.allowed ? options.authorizedMs : options.unauthorizedMs
    kept.set(key, { decision, until: clock.monotonic() + keptMs })
    return decision
  }

  return {
    changesSilently: true,
    async authorize(user, attributes) {
      const key = digest(identityKey(user) + attributesKey(attributes))
      const known = kept.get(key)
      if (known !== undefined && clock.monotonic() < known.until) return known.decision
      const pending = running.get(key) ?? requestDecision(key, user, attributes).finally(() => running.delete(key))
      running.set(key, pending)
      return pending
    },
    rulesFor: async () => ({
      resourceRules: [],
      nonResourceRules: [],
      incomplete: true,
      evaluationError: 'webhook authorizer does not support user rule resolution',
    }),
    onChange: () => () => {},
    close: () => server.close(),
  }
}

/** Returns the selectors for the review. API servers before 1.31 ignore them and judge the whole list. */
function selectorsOf({ fieldSelector, labelSelector }: Attributes): object {
  return {
    ...(fieldSelector === undefined ? {} : { fieldSelector: { requirements: fieldSelector } }),
    ...(labelSelector === undefined ? {} : { labelSelector: { requirements: labelSelector } }),
  }
}

async function review(server: ReviewServer, user: User, attributes: Attributes): Promise<Decision> {
  const { verb, group, version, resource, subresource, namespace, name, path } = attributes
  const named = { verb, group, version, resource, subresource, namespace, name }
  const what = attributes.isResourceRequest
    ? { resourceAttributes: { ...named, ...selectorsOf(attributes) } }
    : { nonResourceAttributes: { verb, path } }
  const spec = { user: user.name, uid: user.uid, groups: user.groups, extra: user.extra, ...what }
  return await server.review(spec, (status, allowed) => {
    const reason = textAt(status, 'reason')
    if (allowed) return { allowed, reason: '', rule: `Webhook: ${reason}` }
    return { allowed, denied: field(status, 'denied') === true, reason, rule: null }
  })
}

/**
 * An API server also answers `allowed: false` if one of its own authorizers has failed, and says so in
 * `evaluationError`. That is no decision: it would end watches that the server allows a moment later.
 */
function allows(status: unknown): boolean | null {
  if (field(status, 'denied') === true) return false
  const allowed = field(status, 'allowed')
  if (allowed === false && textAt(status, 'evaluationError') !== '') return null
  return typeof allowed === 'boolean' ? allowed : null
}
