/**
 * POST of an Eviction, as a node drain sends it: deletes a pod if its PodDisruptionBudget allows that now.
 *
 * The pod gets the condition DisruptionTarget before it is removed, so that its watchers see the reason. The
 * preconditions are checked at both writes.
 *
 * Source: "API-initiated eviction" of the Kubernetes documentation; the eviction storage of kube-apiserver.
 */
import {
  cloneTree,
  encodeJsonTree,
  ensureRecord,
  type JsonRecord,
  member,
  record,
  textMember,
} from '../codec/json-tree.js'
import { objectNotFoundError } from '../dialect/status-body.js'
import { EVICTION } from '../dialect/well-known-resources.js'
import { BadRequestError, ConflictError } from '../model/status.js'
import { sleep } from '../../support/clock.js'
import { checkNamespace } from './create.js'
import { checkPreconditions, readDeleteOptions, remove } from './delete.js'
import {
  budgetOf,
  conditionOf,
  allowsUnhealthyEviction,
  notCountedYet,
  spendDisruption,
  withCondition,
} from './disruption-budgets.js'
import { isDeleting, metadataOf } from './object-change.js'
import { type Change, type Held, type ObjectLocation, putAgain } from './object-store.js'
import { checkType, readObject } from './object-body.js'
import { type SingleResponse, timestamp, type WriteContext, type WriteRequest } from './write-context.js'
import { type DeleteOptions, parseWriteOptions } from './write-options.js'

/** How often a constantly changing pod is reread, as in the API server, and the pause between attempts. */
const MAX_ATTEMPTS = 20
const PAUSE_MS = 50

/** @throws StatusError */
export async function evictPod(context: WriteContext, request: WriteRequest): Promise<SingleResponse> {
  const { served, namespace, name } = request
  const place: ObjectLocation = { served, namespace, name }
  const options = readEviction(context, request)
  const guarded = await removeUnguarded(context, place, options)
  if (guarded !== null) await removeGuarded(context, place, guarded, options)
  const status = { kind: 'Status', apiVersion: 'v1', metadata: record(), status: 'Success', code: 201 }
  return { kind: 'document', code: 201, json: encodeJsonTree(record(status)), warnings: [] }
}

/** Returns how to delete the pod. Both the query and the body may request a dry run. */
function readEviction(context: WriteContext, request: WriteRequest): DeleteOptions {
  const { dryRun } = parseWriteOptions(request.query, request.userAgent, 'Create')
  const { value } = readObject(request.contentType, request.body, context.schema)
  const isOld = textMember(value, 'apiVersion') === 'policy/v1beta1'
  checkType(value, isOld ? { ...EVICTION, version: 'v1beta1' } : EVICTION)
  const metadata = metadataOf(value)
  checkNamespace(metadata, request)
  if (textMember(metadata, 'name') !== request.name) {
    throw new BadRequestError('name in URL does not match name in Eviction object')
  }
  const options = readDeleteOptions(context, new URLSearchParams(), member(value, 'deleteOptions') ?? null)
  return { ...options, dryRun: dryRun || options.dryRun }
}

/**
 * Removes a pod that does no work, whatever its budget says.
 * @returns null, or the pod if budgets protect it and it was left alone.
 * @throws StatusError
 */
async function removeUnguarded(
  context: WriteContext,
  place: ObjectLocation,
  options: DeleteOptions,
): Promise<Held | null> {
  for (let attempt = 1; ; attempt++) {
    const pod = await context.store.read(place)
    if (pod === null) throw objectNotFoundError(place.served.resource, place.name)
    // Check the preconditions before a disruption is spent.
    checkPreconditions(place, pod, options)
    if (!isUnguarded(pod.object)) return pod
    // A pending pod may be about to become ready, so require the version that was read.
    const isOver = isFinished(pod.object) || isDeleting(pod.object)
    const resourceVersion = options.resourceVersion ?? (isOver ? null : versionOf(pod))
    try {
      await removeMarked(context, place, { ...options, resourceVersion })
      return null
    } catch (error) {
      const isRace = error instanceof ConflictError && options.resourceVersion === null
      if (!isRace || attempt === MAX_ATTEMPTS) throw error
    }
    await sleep(context.clock, PAUSE_MS)
  }
}

/**
 * Removes a pod if its budget allows it.
 * @throws TooManyRequestsError, SeveralBudgetsError and other errors of the removal.
 */
async function removeGuarded(
  context: WriteContext,
  place: ObjectLocation,
  pod: Held,
  options: DeleteOptions,
): Promise<void> {
  const budget = await budgetOf(context, place, member(pod.object, 'metadata', 'labels') ?? null)
  if (budget === null) return await removeMarked(context, place, options)
  if (isReady(pod.object) || !allowsUnhealthyEviction(budget)) {
    await spendDisruption(context, budget, place.name, options.dryRun)
    return await removeMarked(context, place, options)
  }
  try {
    await removeMarked(context, place, { ...options, resourceVersion: options.resourceVersion ?? versionOf(pod) })
  } catch (error) {
    // The pod may have become ready.
    if (error instanceof ConflictError && options.resourceVersion === null) throw notCountedYet(budget.place.name)
    throw error
  }
}

/** Writes the condition, then removes the pod. @throws StatusError */
async function removeMarked(context: WriteContext, place: ObjectLocation, options: DeleteOptions): Promise<void> {
  let { resourceVersion } = options
  if (!options.dryRun) {
    const changed = await context.store.change(place, (held) => markedAsTarget(context, place, held, options))
    if (resourceVersion !== null && changed.stored !== null) resourceVersion = String(changed.stored.modRevision)
  }
  await remove(context, place, { ...options, resourceVersion })
}

function markedAsTarget(
  context: WriteContext,
  place: ObjectLocation,
  held: Held | null,
  options: DeleteOptions,
): Change {
  if (held === null) throw objectNotFoundError(place.served.resource, place.name)
  checkPreconditions(place, held, options)
  const before = conditionOf(held.object, 'DisruptionTarget')
  const reason = 'EvictionByEvictionAPI'
  if (textMember(before, 'status') === 'True' && textMember(before, 'reason') === reason) return { kind: 'none' }
  const condition = record({
    type: 'DisruptionTarget',
    status: 'True',
    lastProbeTime: null,
    lastTransitionTime: timestamp(context.clock),
    reason,
    message: 'Eviction API: evicting',
  })
  const value = cloneTree(held.object)
  const status = ensureRecord(value, 'status')
  status['conditions'] = withCondition(status['conditions'], condition)
  return putAgain(held, value)
}

const versionOf = ({ object }: Held): string => textMember(object, 'metadata', 'resourceVersion')

function isUnguarded(pod: JsonRecord): boolean {
  return isFinished(pod) || isDeleting(pod) || textMember(pod, 'status', 'phase') === 'Pending'
}

function isFinished(pod: JsonRecord): boolean {
  return ['Succeeded', 'Failed'].includes(textMember(pod, 'status', 'phase'))
}

function isReady(pod: JsonRecord): boolean {
  return textMember(conditionOf(pod, 'Ready'), 'status') === 'True'
}
