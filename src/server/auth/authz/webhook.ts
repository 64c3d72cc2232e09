/**
 * The Webhook mode: asks an API server to decide (SubjectAccessReview, `authorization.k8s.io/v1`). Answers are
 * cached, grants and refusals for different times, and concurrent equal questions are sent once.
 */
import { ServiceUnavailableError } from '../../../engine/model/status.js'
import type { Clock } from '../../../support/clock.js'
import { type JsonAnswer, refusal } from '../https-json.js'
import type { JudgeHealth } from '../judge-health.js'
import { type ReviewClient, ReviewServer } from '../review-server.js'
import { digest, identityKey, type User } from '../user.js'
import { type Attributes, attributesKey, type Authorizer, type Decision } from './authorizer.js'
import { recentEntries } from '../../../support/recent-entries.js'
import { field, textAt } from '../../../support/fields.js'

export interface WebhookOptions {
  /** The client from `--authorization-kubeconfig`, whose identity needs `create` on subjectaccessreviews. */
  readonly client: ReviewClient
  readonly authorizedMs: number
  readonly unauthorizedMs: number
  readonly clock: Clock
  /** Gets the outcome of each review. Default: none. */
  readonly health?: Pick<JudgeHealth, 'note'>
}

/** A decision takes about 300 bytes. */
const MAX_DECISIONS = 65_536

export function webhook(options: WebhookOptions): Authorizer {
  const { clock, health } = options
  const server = new ReviewServer(options.client, clock)
  const kept = recentEntries<string, { readonly decision: Decision; readonly until: number }>(MAX_DECISIONS)
  const running = new Map<string, Promise<Decision>>()

  async function ask(key: string, user: User, attributes: Attributes): Promise<Decision> {
    const reviewing = review(server, user, attributes)
    const decision = await (health?.note(reviewing) ?? reviewing)
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
      const asking = running.get(key) ?? ask(key, user, attributes).finally(() => running.delete(key))
      running.set(key, asking)
      return asking
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

/** API servers before 1.31 ignore them, and judge the whole list. */
function selectorsOf({ fieldSelector, labelSelector }: Attributes): object {
  return {
    ...(fieldSelector === undefined ? {} : { fieldSelector: { requirements: fieldSelector } }),
    ...(labelSelector === undefined ? {} : { labelSelector: { requirements: labelSelector } }),
  }
}

async function review(server: ReviewServer, user: User, attributes: Attributes): Promise<Decision> {
  const { verb, group, version, resource, subresource, namespace, name, path } = attributes
  const what = attributes.isResourceRequest
    ? {
        resourceAttributes: {
          verb,
          group,
          version,
          resource,
          subresource,
          namespace,
          name,
          ...selectorsOf(attributes),
        },
      }
    : { nonResourceAttributes: { verb, path } }
  const spec = { user: user.name, uid: user.uid, groups: user.groups, extra: user.extra, ...what }
  const body = { apiVersion: 'authorization.k8s.io/v1', kind: 'SubjectAccessReview', spec }
  const answer = await server
    .review('/apis/authorization.k8s.io/v1/subjectaccessreviews', body, (answer) => isAnswer(answer) && !allows(answer))
    .catch((error: unknown) => {
      throw unavailable(error)
    })
  if (!isAnswer(answer)) throw unavailable(refusal('SubjectAccessReview', answer))
  const allowed = allows(answer)
  const reason = textAt(field(answer.body, 'status'), 'reason')
  return { allowed, reason: allowed ? '' : reason, rule: allowed ? `Webhook: ${reason}` : null }
}

function isAnswer({ status, body }: JsonAnswer): boolean {
  return status >= 200 && status <= 299 && typeof field(body, 'status', 'allowed') === 'boolean'
}

function allows({ body }: JsonAnswer): boolean {
  return field(body, 'status', 'allowed') === true && field(body, 'status', 'denied') !== true
}

function unavailable(cause: unknown): ServiceUnavailableError {
  return new ServiceUnavailableError('authorization is not possible now', { cause, details: { retryAfterSeconds: 1 } })
}
