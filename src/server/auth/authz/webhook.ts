/**
 * The Webhook mode: asks an API server to decide (SubjectAccessReview, `authorization.k8s.io/v1`). Answers are
 * cached, grants and refusals for different times, and concurrent equal questions are sent once.
 */
import { ServiceUnavailableError } from '../../../engine/model/status.js'
import type { Clock } from '../../../support/clock.js'
import { type JsonClient, member, refusal, textOf } from '../https-json.js'
import type { JudgeHealth } from '../judge-health.js'
import { digest, identityKey, type User } from '../user.js'
import { type Attributes, attributesKey, type Authorizer, type Decision } from './authorizer.js'
import { recentEntries } from '../../../support/recent-entries.js'

export interface WebhookOptions {
  /** The client from `--authorization-kubeconfig`, whose identity needs `create` on subjectaccessreviews. */
  readonly client: Pick<JsonClient, 'post' | 'close'>
  readonly authorizedMs: number
  readonly unauthorizedMs: number
  readonly clock: Clock
  /** Gets the outcome of each review. Default: none. */
  readonly health?: Pick<JudgeHealth, 'note'>
}

/** A decision takes about 300 bytes. */
const MAX_DECISIONS = 65_536

export function webhook(options: WebhookOptions): Authorizer {
  const { client, clock, health } = options
  const kept = recentEntries<string, { readonly decision: Decision; readonly until: number }>(MAX_DECISIONS)
  const running = new Map<string, Promise<Decision>>()

  async function ask(key: string, user: User, attributes: Attributes): Promise<Decision> {
    const reviewing = review(client, user, attributes)
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
    close: () => client.close(),
  }
}

/** API servers before 1.31 ignore them, and judge the whole list. */
function selectorsOf({ fieldSelector, labelSelector }: Attributes): object {
  return {
    ...(fieldSelector === undefined ? {} : { fieldSelector: { requirements: fieldSelector } }),
    ...(labelSelector === undefined ? {} : { labelSelector: { requirements: labelSelector } }),
  }
}

async function review(client: WebhookOptions['client'], user: User, attributes: Attributes): Promise<Decision> {
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
  const answer = await client
    .post('/apis/authorization.k8s.io/v1/subjectaccessreviews', {
      apiVersion: 'authorization.k8s.io/v1',
      kind: 'SubjectAccessReview',
      spec,
    })
    .catch((error: unknown) => {
      throw unavailable(error)
    })
  const status = member(answer.body, 'status')
  if (answer.status < 200 || answer.status > 299 || typeof member(status, 'allowed') !== 'boolean') {
    throw unavailable(refusal('SubjectAccessReview', answer))
  }
  const allowed = member(status, 'allowed') === true && member(status, 'denied') !== true
  const reason = textOf(member(status, 'reason'))
  return { allowed, reason: allowed ? '' : reason, rule: allowed ? `Webhook: ${reason}` : null }
}

function unavailable(cause: unknown): ServiceUnavailableError {
  return new ServiceUnavailableError('authorization is not possible now', { cause, details: { retryAfterSeconds: 1 } })
}
