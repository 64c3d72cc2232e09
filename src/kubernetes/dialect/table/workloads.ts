/** Rows of kinds that run pods (controllers and jobs), and of kinds that scale and protect them. */
import { ageOf, humanDuration, timeOf } from '../../../support/human-duration.js'
import { countAt, field, has, isTrue, listAt, numberAt, scalarAt, textAt } from '../../../support/fields.js'
import {
  conditionOf,
  AGE,
  column,
  containerColumns,
  formatLabels,
  NAME,
  type Printer,
  printer,
  wide,
} from './printer.js'
import { selectorText } from '../selector-text.js'

/** Absent means 1 to every controller that has replicas. */
const replicas = (object: unknown): number => numberAt(object, 'spec', 'replicas') ?? 1
const status =
  (member: string) =>
  (object: unknown): number =>
    countAt(object, 'status', member)
const selector = (object: unknown): string => selectorText(field(object, 'spec', 'selector')) || '<none>'

const TEMPLATE = ['spec', 'template', 'spec'] as const
const [CONTAINERS, IMAGES] = containerColumns(...TEMPLATE)
const SELECTOR = wide('Selector', 'Labels of the pods it owns.', selector)
const READY = column(
  'Ready',
  'string',
  'Ready pods of the wanted ones.',
  (object) => `${countAt(object, 'status', 'readyReplicas')}/${replicas(object)}`,
)

export const workloadPrinters: Readonly<Record<string, Printer>> = {
  Scale: printer(
    { ...NAME, format: '' },
    column('Desired', 'integer', 'Desired number of pods.', (object) => countAt(object, 'spec', 'replicas')),
    column('Available', 'integer', 'Existing pods.', (object) => countAt(object, 'status', 'replicas')),
    AGE,
  ),
  ReplicationController: printer(
    NAME,
    column('Desired', 'integer', 'Desired number of pods.', replicas),
    column('Current', 'integer', 'Number of existing pods.', status('replicas')),
    column('Ready', 'integer', 'Pods that are ready.', status('readyReplicas')),
    AGE,
    CONTAINERS,
    IMAGES,
    wide('Selector', 'Labels of the pods it owns.', (object) => formatLabels(object, 'spec', 'selector')),
  ),
  ReplicaSet: printer(
    NAME,
    column('Desired', 'integer', 'Desired number of pods.', replicas),
    column('Current', 'integer', 'Number of existing pods.', status('replicas')),
    column('Ready', 'integer', 'Pods that are ready.', status('readyReplicas')),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
  ),
  Deployment: printer(
    NAME,
    READY,
    column('Up-to-date', 'string', 'Pods that have the newest template.', status('updatedReplicas')),
    column('Available', 'string', 'Pods that have been ready long enough.', status('availableReplicas')),
    AGE,
    CONTAINERS,
    IMAGES,
    wide('Selector', 'Labels of the pods it owns.', (object) => selectorText(field(object, 'spec', 'selector'))),
  ),
  StatefulSet: printer(NAME, READY, AGE, CONTAINERS, IMAGES),
  DaemonSet: printer(
    NAME,
    column('Desired', 'integer', 'Nodes that should run its pod.', status('desiredNumberScheduled')),
    column('Current', 'integer', 'Nodes that run its pod and should.', status('currentNumberScheduled')),
    column('Ready', 'integer', 'Nodes whose pod is ready.', status('numberReady')),
    column('Up-to-date', 'integer', 'Nodes whose pod has the newest template.', status('updatedNumberScheduled')),
    column('Available', 'integer', 'Nodes whose pod has been ready long enough.', status('numberAvailable')),
    column('Node Selector', 'string', 'Labels of the nodes it runs on.', (object) =>
      formatLabels(object, ...TEMPLATE, 'nodeSelector'),
    ),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
  ),
  Job: printer(
    NAME,
    column('Status', 'string', 'State of the job.', jobStatus),
    column('Completions', 'string', 'Succeeded pods, of the desired number.', jobCompletions),
    column('Duration', 'string', 'How long it has run, or ran.', jobDuration),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
  ),
  CronJob: printer(
    NAME,
    column('Schedule', 'string', 'When it runs, in cron format.', (object) => textAt(object, 'spec', 'schedule')),
    column(
      'Timezone',
      'string',
      'Time zone of the schedule.',
      (object) => textAt(object, 'spec', 'timeZone') || '<none>',
    ),
    column('Suspend', 'boolean', 'Whether it is suspended.', (object) => {
      const value = field(object, 'spec', 'suspend')
      return typeof value === 'boolean' ? (value ? 'True' : 'False') : '<unset>'
    }),
    column('Active', 'integer', 'Running jobs.', (object) => listAt(object, 'status', 'active').length),
    column('Last Schedule', 'string', 'Time since the last run.', (object, nowMs) =>
      has(object, 'status', 'lastScheduleTime') ? ageOf(field(object, 'status', 'lastScheduleTime'), nowMs) : '<none>',
    ),
    AGE,
    ...containerColumns('spec', 'jobTemplate', ...TEMPLATE),
    wide(
      'Selector',
      'Labels of the pods of its jobs.',
      (object) => selectorText(field(object, 'spec', 'jobTemplate', 'spec', 'selector')) || '<none>',
    ),
  ),
  HorizontalPodAutoscaler: printer(
    NAME,
    column('Reference', 'string', 'What it scales.', (object) => {
      const target = field(object, 'spec', 'scaleTargetRef')
      return `${textAt(target, 'kind')}/${textAt(target, 'name')}`
    }),
    column('Targets', 'string', 'Current and target values of the metrics.', hpaTargets),
    column('MinPods', 'string', 'Minimum number of pods.', (object) =>
      scalarAt('<unset>', object, 'spec', 'minReplicas'),
    ),
    column('MaxPods', 'string', 'Maximum number of pods.', (object) => countAt(object, 'spec', 'maxReplicas')),
    column('Replicas', 'string', 'Number of existing pods.', status('currentReplicas')),
    AGE,
  ),
  PodDisruptionBudget: printer(
    NAME,
    column('Min Available', 'string', 'Pods that must remain available.', (object) =>
      scalarAt('N/A', object, 'spec', 'minAvailable'),
    ),
    column('Max Unavailable', 'string', 'Pods that may be unavailable.', (object) =>
      scalarAt('N/A', object, 'spec', 'maxUnavailable'),
    ),
    column('Allowed Disruptions', 'integer', 'Pods that may be removed now.', status('disruptionsAllowed')),
    AGE,
  ),
  PodTemplate: printer(
    NAME,
    ...containerColumns('template', 'spec').map((shown) => ({ ...shown, priority: 0 })),
    column('Pod Labels', 'string', 'Labels of the pods made from it.', (object) =>
      formatLabels(object, 'template', 'metadata', 'labels'),
    ),
  ),
  ControllerRevision: printer(
    NAME,
    column('Controller', 'string', 'The object that it is a revision of.', controllerOf),
    column('Revision', 'string', 'Number of the revision.', (object) => countAt(object, 'revision')),
    AGE,
  ),
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

/** autoscaling/v2 has metrics, v1 only a percentage of CPU. */
function hpaTargets(object: unknown): string {
  const percentage = numberAt(object, 'spec', 'targetCPUUtilizationPercentage')
  if (percentage !== undefined) {
    const now = numberAt(object, 'status', 'currentCPUUtilizationPercentage')
    return `cpu: ${now === undefined ? '<unknown>' : `${now}%`}/${percentage}%`
  }
  const specs = listAt(object, 'spec', 'metrics')
  const current = listAt(object, 'status', 'currentMetrics')
  if (specs.length === 0) return '<none>'
  const texts = specs.map((spec, index) => hpaMetric(spec, current[index]))
  const shown = texts.slice(0, 2).join(', ')
  return texts.length > 2 ? `${shown} + ${texts.length - 2} more...` : shown
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
