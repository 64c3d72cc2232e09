/** Rows of kinds that schedule pods together, and of kinds that move pods off a node. */
import { countAt, field, has, listAt, textAt } from '../../../support/fields.js'
import { ageOf, humanDuration, timeOf } from '../../../support/human-duration.js'
import { AGE, aged, column, conditionOf, firstFew, named, type Printer, wide } from './printer.js'

const POLICY = column('Policy', 'Whether pods are scheduled all together or one by one.', (object) =>
  has(object, 'spec', 'schedulingPolicy', 'gang') ? 'Gang' : 'Basic',
)
const WORKLOAD = column('Workload', 'Workload it belongs to.', (object) =>
  has(object, 'spec', 'workloadRef') ? textAt(object, 'spec', 'workloadRef', 'workloadName') : '<none>',
)
const TARGET = column('Target', 'The object to evict.', (object) =>
  isOfPod(object) ? textAt(object, 'spec', 'target', 'pod', 'name') : '<unset>',
)
const TARGET_TYPE = column('Target Type', 'Kind of the object to evict.', (object) =>
  isOfPod(object) ? 'Pod' : '<unset>',
)
const EVICTION_STATUS = column('Status', 'Progress of the eviction.', evictionStatus)

export const schedulingPrinters: Readonly<Record<string, Printer>> = {
  Workload: aged(),
  PodGroup: aged(POLICY, WORKLOAD, column('Status', 'Whether it is scheduled.', groupStatus)),
  CompositePodGroup: aged(POLICY, WORKLOAD),
  EvictionRequest: aged(
    TARGET,
    TARGET_TYPE,
    EVICTION_STATUS,
    column('Requester', 'Who requested it.', 'spec.requester'),
    column('Intent', 'What was requested.', 'spec.intent'),
  ),
  Eviction: named(
    TARGET,
    TARGET_TYPE,
    EVICTION_STATUS,
    column('Active Responder', 'Who handles it now, and how many responders have been called.', (object) => {
      const called = listAt(object, 'status', 'targetResponders')
      const met = called.filter((responder) => textAt(responder, 'state') === 'Active' || isProcessed(responder))
      const name = nameOf(activeResponder(object)) || '<unset>'
      return `${name} (${met.length}/${called.length})`
    }),
    column('Responder Status', 'What the active responder reports.', responderStatus),
    column('Responder Expected Finish', 'When the responder expects to finish.', expectedFinish),
    column('Requesters', 'Who requested it.', (object) => {
      const requesters = listAt(object, 'status', 'requesters')
      const still = requesters.filter((one) => textAt(one, 'intent') !== 'Withdrawn').map(nameOf)
      return firstFew(still.toSorted(), 1, requesters.length > 0 ? '<withdrawn>' : '<none>')
    }),
    AGE,
    wide('Responder Heartbeat', 'Time since its last heartbeat.', (object, nowMs) => {
      const heartbeat = field(responder(object), 'heartbeatTime')
      return has(heartbeat) ? `${ageOf(heartbeat, nowMs)} ago` : '<unset>'
    }),
    wide(
      'Responder Status Message',
      'The message of the active responder.',
      (object) => textAt(responder(object), 'message').trim() || '<unset>',
    ),
  ),
}

function groupStatus(group: unknown): string {
  const disruption = conditionOf(group, 'DisruptionTarget')
  if (disruption !== undefined) return textAt(disruption, 'reason')
  const scheduled = conditionOf(group, 'PodGroupInitiallyScheduled')
  if (scheduled === undefined) return 'Pending'
  return textAt(scheduled, 'status') === 'True' ? 'Scheduled' : 'Unschedulable'
}

function isOfPod(object: unknown): boolean {
  return has(object, 'spec', 'target', 'pod')
}

function nameOf(object: unknown): string {
  return textAt(object, 'name')
}

function evictionStatus(object: unknown): string {
  for (const type of ['TargetEvicted', 'Failed']) {
    const condition = conditionOf(object, type)
    if (textAt(condition, 'status') === 'True') return `${type} (${textAt(condition, 'reason')})`
  }
  return countAt(object, 'status', 'observedGeneration') > 0 ? 'Progressing' : 'Pending'
}

function isProcessed(called: unknown): boolean {
  return /^(Canceled|Interrupted|Completed)$/.test(textAt(called, 'state'))
}

/** The responder that is active; if none is, the last one that finished. */
function activeResponder(object: unknown): unknown {
  const called = listAt(object, 'status', 'targetResponders')
  return called.findLast((one) => textAt(one, 'state') === 'Active') ?? called.findLast(isProcessed)
}

/** The status of the active responder. */
function responder(object: unknown): unknown {
  const active = activeResponder(object)
  if (active === undefined) return undefined
  return listAt(object, 'status', 'responders').find((one) => nameOf(one) === nameOf(active))
}

function responderStatus(object: unknown, nowMs: number): string {
  const own = responder(object)
  if (own === undefined) return '<unset>'
  const state = textAt(activeResponder(object), 'state')
  if (state === 'Active' && has(own, 'startTime')) return `Started (${ageOf(field(own, 'startTime'), nowMs)} ago)`
  if (state === 'Completed' && has(own, 'completionTime'))
    return `${state} (${ageOf(field(own, 'completionTime'), nowMs)} ago)`
  return state
}

function expectedFinish(object: unknown, nowMs: number): string {
  const own = responder(object)
  if (own === undefined) return '<unknown>'
  if (textAt(activeResponder(object), 'state') !== 'Active') return '-'
  const expected = field(own, 'expectedCompletionTime')
  if (!has(own, 'startTime') || !has(expected)) return '<unknown>'
  const leftMs = timeOf(expected) - nowMs
  return leftMs > 0 ? `in ${humanDuration(leftMs)}` : `${ageOf(expected, nowMs)} ago`
}
