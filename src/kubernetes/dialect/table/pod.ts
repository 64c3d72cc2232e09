/**
 * The row of a Pod. STATUS is not a field of the Pod: it is the phase, unless a container's state says more. The first
 * init container that has not finished takes precedence over all other containers; among those, the first one listed
 * wins. Deletion overrides everything.
 */
import { humanDuration, timeOf } from '../../../support/human-duration.js'
import { countAt, field, has, isTrue, listAt, textAt } from '../../../support/fields.js'
import {
  conditionOf,
  AGE,
  type Cell,
  column,
  type CellColumn,
  definitions,
  NAME,
  nameOf,
  type Printer,
  type RowCondition,
  text,
  wide,
} from './printer.js'

/** The status reason that the node controller sets on pods of a node that no longer responds. */
const NODE_LOST = 'NodeLost'

interface PodSummary {
  readonly ready: number
  readonly total: number
  readonly status: string
  readonly restarts: number
  /** Milliseconds since the epoch; NaN if nothing has restarted. */
  readonly lastRestart: number
}

const unused: CellColumn['cell'] = () => null

const COLUMNS = [
  NAME,
  column('Ready', 'Ready containers out of all containers.', unused),
  column('Status', 'What the pod is doing, or what prevents it.', unused),
  column('Restarts', 'Container restarts, and the time since the last one.', unused),
  AGE,
  wide('IP', 'Address of the pod.', (pod) => textAt(listAt(pod, 'status', 'podIPs')[0], 'ip') || podIp(pod)),
  wide('Node', 'Node it runs on.', text('spec.nodeName', '<none>')),
  wide(
    'Nominated Node',
    'Node where the pod will run once other pods have been preempted.',
    text('status.nominatedNodeName', '<none>'),
  ),
  wide('Readiness Gates', 'Readiness gates that are met, out of all readiness gates.', readinessGates),
] as const

export const podPrinter: Printer = {
  columns: definitions(COLUMNS),
  cells(pod, nowMs) {
    const { ready, total, status, restarts, lastRestart } = summarize(pod)
    const ago = Number.isNaN(lastRestart) ? '' : ` (${humanDuration(nowMs - lastRestart)} ago)`
    const cells: Cell[] = [nameOf(pod), `${ready}/${total}`, status, `${restarts}${ago}`]
    for (const { cell } of COLUMNS.slice(4)) cells.push(cell(pod, nowMs))
    return cells
  },
  conditions(pod) {
    switch (textAt(pod, 'status', 'phase')) {
      case 'Succeeded':
        return SUCCEEDED
      case 'Failed':
        return FAILED
      default:
        return undefined
    }
  },
}

const completed = (reason: string, message: string): readonly RowCondition[] => [
  { type: 'Completed', status: 'True', reason, message },
]
const SUCCEEDED = completed('Succeeded', 'The pod has completed successfully.')
const FAILED = completed('Failed', 'The pod failed.')

function podIp(pod: unknown): string {
  return textAt(pod, 'status', 'podIP') || '<none>'
}

function summarize(pod: unknown): PodSummary {
  const phase = textAt(pod, 'status', 'phase')
  const initContainers = listAt(pod, 'spec', 'initContainers')
  const sidecars = new Set(
    initContainers
      .filter((container) => textAt(container, 'restartPolicy') === 'Always')
      .map((container) => textAt(container, 'name')),
  )
  let status = textAt(pod, 'status', 'reason') || phase
  let ready = 0
  let initializing = false
  const init = new Restarts()
  const running = new Restarts()
  if (listAt(pod, 'status', 'conditions').some(isSchedulingGated)) status = 'SchedulingGated'

  for (const [index, container] of listAt(pod, 'status', 'initContainerStatuses').entries()) {
    const isSidecar = sidecars.has(textAt(container, 'name'))
    init.add(container)
    if (isSidecar) running.add(container)
    if (has(container, 'state', 'terminated') && countAt(container, 'state', 'terminated', 'exitCode') === 0) continue
    if (isSidecar && isTrue(container, 'started')) {
      if (isTrue(container, 'ready')) ready++
      continue
    }
    initializing = true
    const waiting = textAt(container, 'state', 'waiting', 'reason')
    if (has(container, 'state', 'terminated')) status = `Init:${endReason(container)}`
    else if (waiting !== '' && waiting !== 'PodInitializing') status = `Init:${waiting}`
    else status = `Init:${index}/${initContainers.length}`
    break
  }

  if (!initializing || textAt(conditionOf(pod, 'Initialized'), 'status') === 'True') {
    let anyRunning = false
    for (const container of listAt(pod, 'status', 'containerStatuses').toReversed()) {
      running.add(container)
      const waiting = textAt(container, 'state', 'waiting', 'reason')
      if (waiting !== '') status = waiting
      else if (has(container, 'state', 'terminated')) status = endReason(container)
      else if (isTrue(container, 'ready') && has(container, 'state', 'running')) {
        anyRunning = true
        ready++
      }
    }
    // While another container is running, one that completed successfully does not make the pod Completed.
    if (status === 'Completed' && anyRunning) {
      status = textAt(conditionOf(pod, 'Ready'), 'status') === 'True' ? 'Running' : 'NotReady'
    }
    initializing = false
  }

  if (has(pod, 'metadata', 'deletionTimestamp')) {
    if (textAt(pod, 'status', 'reason') === NODE_LOST) status = 'Unknown'
    else if (phase !== 'Succeeded' && phase !== 'Failed') status = 'Terminating'
  }
  const { count, last } = initializing ? init : running
  return {
    ready,
    total: listAt(pod, 'spec', 'containers').length + sidecars.size,
    status,
    restarts: count,
    lastRestart: last,
  }
}

class Restarts {
  count = 0
  last = Number.NaN

  add(container: unknown): void {
    this.count += countAt(container, 'restartCount')
    const ended = timeOf(field(container, 'lastState', 'terminated', 'finishedAt'))
    if (!Number.isNaN(ended) && !(ended <= this.last)) this.last = ended
  }
}

function endReason(container: unknown): string {
  const end = field(container, 'state', 'terminated')
  const reason = textAt(end, 'reason')
  if (reason !== '') return reason
  const signal = countAt(end, 'signal')
  return signal === 0 ? `ExitCode:${countAt(end, 'exitCode')}` : `Signal:${signal}`
}

function isSchedulingGated(condition: unknown): boolean {
  return textAt(condition, 'type') === 'PodScheduled' && textAt(condition, 'reason') === 'SchedulingGated'
}

function readinessGates(pod: unknown): string {
  const gates = listAt(pod, 'spec', 'readinessGates')
  if (gates.length === 0) return '<none>'
  const statuses = new Map<string, string>()
  for (const condition of listAt(pod, 'status', 'conditions').toReversed())
    statuses.set(textAt(condition, 'type'), textAt(condition, 'status'))
  const met = gates.filter((gate) => statuses.get(textAt(gate, 'conditionType')) === 'True')
  return `${met.length}/${gates.length}`
}
