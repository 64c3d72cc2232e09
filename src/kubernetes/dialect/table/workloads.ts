/** Rows of kinds that run pods (controllers and jobs), and of kinds that scale and protect them. */
import { humanDuration, timeOf } from '../../../support/human-duration.js'
import { isRecord, type JsonRecord, recordsAt, setMember } from '../../codec/json-tree.js'
import { toV2 } from '../../codec/versions/horizontal-pod-autoscaler.js'
import { countAt, field, has, isTrue, listAt, numberAt, scalarAt, textAt } from '../../../support/fields.js'
import {
  AGE,
  age,
  aged,
  column,
  conditionOf,
  containerColumns,
  count,
  integer,
  labels,
  length,
  NAME,
  named,
  or,
  type Printer,
  printer,
  reference,
  scalar,
  selector,
  text,
  wide,
} from './printer.js'

/** Every controller that has replicas treats an absent value as 1. */
const replicas = (object: unknown): number => numberAt(object, 'spec', 'replicas') ?? 1

const [CONTAINERS, IMAGES] = containerColumns('spec.template.spec')
const SELECTOR = wide('Selector', 'Labels of the pods it owns.', or('<none>', selector('spec.selector')))
const READY = column(
  'Ready',
  'Ready pods, of the desired number.',
  (object) => `${countAt(object, 'status', 'readyReplicas')}/${replicas(object)}`,
)

export const workloadPrinters: Readonly<Record<string, Printer>> = {
  Scale: printer(
    { ...NAME, format: '' },
    integer('Desired', 'Desired number of pods.', count('spec.replicas')),
    integer('Available', 'Existing pods.', count('status.replicas')),
    AGE,
  ),
  ReplicationController: named(
    integer('Desired', 'Desired number of pods.', replicas),
    integer('Current', 'Number of existing pods.', count('status.replicas')),
    integer('Ready', 'Pods that are ready.', count('status.readyReplicas')),
    AGE,
    CONTAINERS,
    IMAGES,
    wide('Selector', 'Labels of the pods it owns.', labels('spec.selector')),
  ),
  ReplicaSet: named(
    integer('Desired', 'Desired number of pods.', replicas),
    integer('Current', 'Number of existing pods.', count('status.replicas')),
    integer('Ready', 'Pods that are ready.', count('status.readyReplicas')),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
  ),
  Deployment: named(
    READY,
    column('Up-to-date', 'Pods that have the newest template.', count('status.updatedReplicas')),
    column('Available', 'Pods that have been ready long enough.', count('status.availableReplicas')),
    AGE,
    CONTAINERS,
    IMAGES,
    wide('Selector', 'Labels of the pods it owns.', selector('spec.selector')),
  ),
  StatefulSet: named(READY, AGE, CONTAINERS, IMAGES),
  DaemonSet: named(
    integer('Desired', 'Nodes that should run its pod.', count('status.desiredNumberScheduled')),
    integer('Current', 'Nodes that run its pod and should.', count('status.currentNumberScheduled')),
    integer('Ready', 'Nodes whose pod is ready.', count('status.numberReady')),
    integer('Up-to-date', 'Nodes whose pod has the newest template.', count('status.updatedNumberScheduled')),
    integer('Available', 'Nodes whose pod has been ready long enough.', count('status.numberAvailable')),
    column('Node Selector', 'Labels of the nodes it runs on.', labels('spec.template.spec.nodeSelector')),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
  ),
  Job: named(
    column('Status', 'State of the job.', jobStatus),
    column('Completions', 'Succeeded pods, of the desired number.', jobCompletions),
    column('Duration', 'How long it has run, or ran.', jobDuration),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
  ),
  CronJob: named(
    column('Schedule', 'When it runs, in cron format.', 'spec.schedule'),
    column('Timezone', 'Time zone of the schedule.', text('spec.timeZone', '<none>')),
    column('Suspend', 'Whether it is suspended.', suspension, { type: 'boolean' }),
    integer('Active', 'Running jobs.', length('status.active')),
    column('Last Schedule', 'Time since the last run.', age('status.lastScheduleTime', '<none>')),
    AGE,
    ...containerColumns('spec.jobTemplate.spec.template.spec'),
    wide('Selector', 'Labels of the pods of its jobs.', or('<none>', selector('spec.jobTemplate.spec.selector'))),
  ),
  HorizontalPodAutoscaler: aged(
    column('Reference', 'What it scales.', reference('spec.scaleTargetRef', ['kind', 'name'])),
    column('Targets', 'Current and target values of the metrics.', hpaTargets),
    column('MinPods', 'Minimum number of pods.', scalar('spec.minReplicas', '<unset>')),
    column('MaxPods', 'Maximum number of pods.', count('spec.maxReplicas')),
    column('Replicas', 'Number of existing pods.', count('status.currentReplicas')),
  ),
  PodDisruptionBudget: aged(
    column('Min Available', 'Pods that must remain available.', scalar('spec.minAvailable', 'N/A')),
    column('Max Unavailable', 'Pods that may be unavailable.', scalar('spec.maxUnavailable', 'N/A')),
    integer('Allowed Disruptions', 'Pods that may be removed now.', count('status.disruptionsAllowed')),
  ),
  PodTemplate: named(
    ...containerColumns('template.spec').map((shown) => ({ ...shown, priority: 0 })),
    column('Pod Labels', 'Labels of the pods made from it.', labels('template.metadata.labels')),
  ),
  ControllerRevision: aged(
    column('Controller', 'The object that it is a revision of.', controllerOf),
    column('Revision', 'Number of the revision.', count('revision')),
  ),
}

function suspension(job: unknown): string {
  const value = field(job, 'spec', 'suspend')
  return typeof value === 'boolean' ? (value ? 'True' : 'False') : '<unset>'
}

function controllerOf(object: unknown): string {
  const owner = listAt(object, 'metadata', 'ownerReferences').find((reference) => isTrue(reference, 'controller'))
  if (owner === undefined) return '<none>'
  const apiVersion = textAt(owner, 'apiVersion')
  const slash = apiVersion.indexOf('/')
  const group = slash === -1 ? '' : `.${apiVersion.slice(0, slash)}`
  return `${(textAt(owner, 'kind') + group).toLowerCase()}/${textAt(owner, 'name')}`
}

function jobStatus(job: unknown): string {
  const isSet = (type: string): boolean => textAt(conditionOf(job, type), 'status') === 'True'
  if (isSet('Complete')) return 'Complete'
  if (isSet('Failed')) return 'Failed'
  if (has(job, 'metadata', 'deletionTimestamp')) return 'Terminating'
  for (const type of ['Suspended', 'FailureTarget', 'SuccessCriteriaMet']) if (isSet(type)) return type
  return 'Running'
}

function jobCompletions(job: unknown): string {
  const succeeded = countAt(job, 'status', 'succeeded')
  const wanted = numberAt(job, 'spec', 'completions')
  if (wanted !== undefined) return `${succeeded}/${wanted}`
  const parallelism = countAt(job, 'spec', 'parallelism')
  return parallelism > 1 ? `${succeeded}/1 of ${parallelism}` : `${succeeded}/1`
}

function jobDuration(job: unknown, nowMs: number): string {
  const start = timeOf(field(job, 'status', 'startTime'))
  if (Number.isNaN(start)) return ''
  const end = timeOf(field(job, 'status', 'completionTime'))
  return humanDuration((Number.isNaN(end) ? nowMs : end) - start)
}

function hpaTargets(object: unknown): string {
  const hasCpu = has(object, 'spec', 'targetCPUUtilizationPercentage')
  if (isRecord(object) && (hasCpu || object['apiVersion'] === 'autoscaling/v1')) metricsToV2(object, hasCpu)
  const specs = listAt(object, 'spec', 'metrics')
  const current = listAt(object, 'status', 'currentMetrics')
  if (specs.length === 0) return '<none>'
  const texts = specs.map((spec, index) => hpaMetric(spec, current[index]))
  const shown = texts.slice(0, 2).join(', ')
  return texts.length > 2 ? `${shown} + ${texts.length - 2} more...` : shown
}

/**
 * In v1, other metrics than the CPU's are in annotations. Where it was among them, only the current values still show.
 */
function metricsToV2(autoscaler: JsonRecord, hasCpu: boolean): void {
  toV2(autoscaler)
  const metrics = recordsAt(autoscaler, 'spec', 'metrics')
  if (!hasCpu || metrics.length < 2) return
  const place = recordsAt(autoscaler, 'status', 'currentMetrics').findIndex(
    (metric) =>
      textAt(metric, 'resource', 'name') === 'cpu' && has(metric, 'resource', 'current', 'averageUtilization'),
  )
  metrics.splice(Math.max(0, place), 0, metrics.pop()!)
  setMember(autoscaler, ['spec', 'metrics'], metrics)
}

function hpaMetric(spec: unknown, current: unknown): string {
  const type = textAt(spec, 'type')
  const source = type.slice(0, 1).toLowerCase() + type.slice(1)
  const target = field(spec, source, 'target')
  const now = field(current, source, 'current')
  const average = scalarAt('', target, 'averageValue')
  switch (type) {
    case 'Resource':
    case 'ContainerResource': {
      const name = textAt(spec, source, 'name')
      if (average !== '') return `${name}: ${scalarAt('<unknown>', now, 'averageValue')}/${average}`
      const wanted = numberAt(target, 'averageUtilization')
      const used = numberAt(now, 'averageUtilization')
      return `${name}: ${used === undefined ? '<unknown>' : `${used}%`}/${wanted === undefined ? '<auto>' : `${wanted}%`}`
    }
    case 'Pods':
      return `${scalarAt('<unknown>', now, 'averageValue')}/${average}`
    case 'Object':
    case 'External':
      if (average !== '') return `${scalarAt('<unknown>', now, 'averageValue')}/${average} (avg)`
      return `${scalarAt('<unknown>', now, 'value')}/${scalarAt('0', target, 'value')}`
    default:
      return '<unknown type>'
  }
}
