/**
 * Applies PodDisruptionBudgets, which limit the eviction of pods. A controller counts the healthy pods and writes to
 * the budget's status how many disruptions are allowed. An eviction uses up one of them and lists the pod in the status
 * until the controller has seen that the pod is gone.
 *
 * Source: "API-initiated eviction" and "Specifying a Disruption Budget" of the Kubernetes documentation; the eviction
 * storage of kube-apiserver.
 */
import { exactCopy } from '../codec/exact-json.js'
import {
  cloneTree,
  ensureRecord,
  type Json,
  type JsonRecord,
  member,
  record,
  recordAt,
  recordsAt,
  textMember,
} from '../codec/json-tree.js'
import type { ServedResource } from '../dialect/resource-registry.js'
import { objectNotFoundError } from '../dialect/status-body.js'
import { holds, type LabelSelectorObject, type Requirement, requirementsOf } from '../model/label-requirements.js'
import { apiVersion, namespacePrefix } from '../model/api-resource.js'
import { BadRequestError, ForbiddenError, SeveralBudgetsError, TooManyRequestsError } from '../model/status.js'
import { type Change, type Held, type ObjectLocation, putAgain } from './object-store.js'
import { timestamp, type WriteContext } from './write-context.js'

/**
 * With more pods than this in the status, the controller is not keeping up with evictions. Then no more are allowed,
 * as in the API server.
 */
const MAX_DISRUPTED_PODS = 2_000

const REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."

export interface Budget {
  readonly place: ObjectLocation
  readonly object: JsonRecord
}

/** Returns the budget whose selector matches the pod; null if there is none. @throws SeveralBudgetsError */
export async function budgetOf(context: WriteContext, pod: ObjectLocation, labels: Json): Promise<Budget | null> {
  const served = servedBudgets(context)
  if (served === undefined) return null
  const { namespace } = pod
  const found: Budget[] = []
  for await (const { stored, object } of context.store.list(served, namespacePrefix(served.resource, namespace))) {
    if (selects(object, labels)) found.push({ place: { served, namespace, name: stored.name }, object })
  }
  if (found.length <= 1) return found[0] ?? null
  throw new SeveralBudgetsError(
    'This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.',
  )
}

function servedBudgets({ find }: WriteContext): ServedResource | undefined {
  return find('policy', 'v1', 'poddisruptionbudgets') ?? find('policy', 'v1beta1', 'poddisruptionbudgets')
}

/** An empty selector selects all pods of the namespace; a missing or invalid one selects no pod. */
function selects(budget: JsonRecord, labels: Json): boolean {
  const selector = recordAt(budget, 'spec', 'selector')
  if (selector === null) return false
  let requirements: readonly Requirement[]
  try {
    requirements = requirementsOf(exactCopy(selector) as LabelSelectorObject)
  } catch (error) {
    if (!(error instanceof BadRequestError)) throw error
    return false
  }
  return requirements.every((requirement) => holds(requirement, textOrNone(labels, requirement.key)))
}

function textOrNone(labels: Json, key: string): string | undefined {
  const value = member(labels, key)
  return typeof value === 'string' ? value : undefined
}

/**
 * Whether an unready pod may be evicted without using up a disruption, because it is not among the healthy pods that
 * the budget protects.
 */
export function allowsUnhealthyEviction({ object }: Budget): boolean {
  if (textMember(object, 'spec', 'unhealthyPodEvictionPolicy') === 'AlwaysAllow') return true
  const desired = count(object, 'desiredHealthy')
  return desired > 0 && count(object, 'currentHealthy') >= desired
}

/**
 * Takes one disruption from the budget for a pod.
 * @throws TooManyRequestsError when none is left, ForbiddenError, NotFoundError
 */
export async function spendDisruption(
  context: WriteContext,
  { place }: Budget,
  podName: string,
  dryRun: boolean,
): Promise<void> {
  const { served, namespace, name } = place
  const decide = (held: Held | null): Change => {
    if (held === null) throw objectNotFoundError(served.resource, name)
    requireDisruption(held.object, name)
    const value = context.change.update(held.object, spent(context, held.object, podName), {
      served,
      name: { namespace, name },
      subresource: 'status',
      verb: 'update',
      manager: {
        name: 'distributary',
        apiVersion: apiVersion(served.resource),
        subresource: 'status',
        time: timestamp(context.clock),
      },
      requester: null,
      keepsManagedFields: false,
      isPatched: false,
      warn: () => {},
    })
    return putAgain(held, value)
  }
  await context.store.change(place, decide, { dryRun })
}

/** @throws TooManyRequestsError, ForbiddenError */
function requireDisruption(budget: JsonRecord, name: string): void {
  const generation = member(budget, 'metadata', 'generation')
  if (count(budget, 'observedGeneration') < (typeof generation === 'number' ? generation : 0)) throw notCountedYet(name)
  const allowed = count(budget, 'disruptionsAllowed')
  if (allowed < 0) throw forbidden(name, 'pdb disruptions allowed is negative')
  if (Object.keys(disruptedPods(budget)).length > MAX_DISRUPTED_PODS) {
    throw forbidden(name, 'DisruptedPods map too big - too many evictions not confirmed by PDB controller')
  }
  if (allowed === 0) throw refusedBy(whyNone(budget, name), 0)
}

/** The error for a budget whose status is out of date, because the budget or the pod has changed since. */
export function notCountedYet(budgetName: string): TooManyRequestsError {
  return refusedBy(`The disruption budget ${budgetName} is still being processed by the server.`, 10)
}

function refusedBy(message: string, retryAfterSeconds: number): TooManyRequestsError {
  return new TooManyRequestsError(REFUSED, retryAfterSeconds, { causes: [{ reason: 'DisruptionBudget', message }] })
}

function forbidden(name: string, why: string): ForbiddenError {
  return new ForbiddenError(`poddisruptionbudget.policy ${JSON.stringify(name)} is forbidden: ${why}`, {
    details: { name, group: 'policy', kind: 'poddisruptionbudget' },
  })
}

/**
 * Returns why no disruption is left. If the controller failed to sync, the reason is in its message, and its numbers
 * mean nothing.
 */
function whyNone(budget: JsonRecord, name: string): string {
  const current = count(budget, 'currentHealthy')
  const desired = count(budget, 'desiredHealthy')
  const condition = disruptionAllowed(budget)
  const message = textMember(condition, 'status') === 'False' ? textMember(condition, 'message') : ''
  const reason = textMember(condition, 'reason')
  const refuses = `The disruption budget ${name} does not allow evicting pods currently`
  if (message !== '' && reason === 'SyncFailed') return `${refuses} because it failed sync: ${message}`
  if (current <= desired)
    return `The disruption budget ${name} needs ${desired} healthy pods and has ${current} currently`
  return message === '' ? refuses : `${refuses} (${reason}): ${message}`
}

function spent(context: WriteContext, budget: JsonRecord, podName: string): JsonRecord {
  const after = cloneTree(budget)
  const status = ensureRecord(after, 'status')
  const left = count(budget, 'disruptionsAllowed') - 1
  status['disruptionsAllowed'] = left
  status['disruptedPods'] = record({ ...disruptedPods(budget), [podName]: timestamp(context.clock) })
  if (left === 0) status['conditions'] = withoutDisruptions(context, budget)
  return after
}

const ALLOWED = 'DisruptionAllowed'

/** Returns the conditions of a budget whose last disruption is spent, as its controller would write them. */
function withoutDisruptions(context: WriteContext, budget: JsonRecord): Json[] {
  const before = disruptionAllowed(budget)
  const wasFalse = textMember(before, 'status') === 'False'
  const condition = record({
    type: ALLOWED,
    status: 'False',
    observedGeneration: count(budget, 'observedGeneration'),
    lastTransitionTime: wasFalse ? textMember(before, 'lastTransitionTime') : timestamp(context.clock),
    reason: 'InsufficientPods',
    message: '',
  })
  return withCondition(member(budget, 'status', 'conditions'), condition)
}

/** Replaces the condition of the same type, or appends it. */
export function withCondition(conditions: Json | undefined, condition: JsonRecord): Json[] {
  const all = Array.isArray(conditions) ? [...conditions] : []
  const at = all.findIndex((one) => textMember(one, 'type') === textMember(condition, 'type'))
  if (at === -1) return [...all, condition]
  return all.with(at, condition)
}

export function conditionOf(object: JsonRecord, type: string): JsonRecord | undefined {
  return recordsAt(object, 'status', 'conditions').find((one) => one['type'] === type)
}

const disruptionAllowed = (budget: JsonRecord): Json | undefined => conditionOf(budget, ALLOWED)

function disruptedPods(budget: JsonRecord): JsonRecord {
  return recordAt(budget, 'status', 'disruptedPods') ?? record()
}

/** Returns a number from the status; 0 for a status that no controller has written. */
function count(budget: JsonRecord, name: string): number {
  const value = member(budget, 'status', name)
  return typeof value === 'number' ? value : 0
}
