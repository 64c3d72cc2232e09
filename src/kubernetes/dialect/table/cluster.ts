/** Rows of the cluster itself: nodes, namespaces, events, configuration, permissions, policies, extensions. */
import { ageOf } from '../../../support/human-duration.js'
import { countAt, entriesAt, field, has, isTrue, listAt, numberAt, scalarAt, textAt } from '../../../support/fields.js'
import {
  AGE,
  aged,
  boolean,
  column,
  conditionOf,
  count,
  firstFew,
  flag,
  integer,
  length,
  NAME,
  named,
  nameOf,
  type Printer,
  printer,
  reference,
  text,
  wide,
} from './printer.js'

const ROLE_LABEL = 'node-role.kubernetes.io/'

const kernelVersion = text('status.nodeInfo.kernelVersion', '<unknown>')
const nodeAddress = (type: string) => (node: unknown) =>
  textAt(
    listAt(node, 'status', 'addresses').find((address) => textAt(address, 'type') === type),
    'address',
  ) || '<none>'

const WEBHOOKS = aged(integer('Webhooks', 'Number of its webhooks.', length('webhooks')))

const PARAM_KIND = column(
  'ParamKind',
  'Kind of its parameters.',
  reference('spec.paramKind', ['apiVersion', 'kind'], '<unset>'),
)

const POLICY_BINDING = aged(
  column('PolicyName', 'Policy it binds.', 'spec.policyName'),
  column('ParamRef', 'Parameters it binds the policy with.', (object) => {
    const name = textAt(object, 'spec', 'paramRef', 'name')
    if (name !== '') return `${textAt(object, 'spec', 'paramRef', 'namespace') || '*'}/${name}`
    const chosen = field(object, 'spec', 'paramRef', 'selector')
    return has(chosen) ? goSelector(chosen) : '<unset>'
  }),
)

/** Returns the selector as Go prints the value, which is what the API server shows. */
function goSelector(selector: unknown): string {
  const labels = entriesAt(selector, 'matchLabels')
    .map(([key, value]) => `${key}: ${String(value)},`)
    .toSorted()
  const expressions = listAt(selector, 'matchExpressions').map((expression) => {
    const [key, operator] = [textAt(expression, 'key'), textAt(expression, 'operator')]
    const values = listAt(expression, 'values').map(String).join(' ')
    return `LabelSelectorRequirement{Key:${key},Operator:${operator},Values:[${values}],},`
  })
  const all = `MatchLabels:map[string]string{${labels.join('')}},MatchExpressions:[]LabelSelectorRequirement{${expressions.join('')}},`
  return `&LabelSelector{${all}}`
}

const subjects = (kind: string) => (binding: unknown) =>
  listAt(binding, 'subjects')
    .filter((subject) => textAt(subject, 'kind') === kind)
    .map((subject) => (kind === 'ServiceAccount' ? `${textAt(subject, 'namespace')}/` : '') + textAt(subject, 'name'))
    .join(', ')

const BINDING = named(
  column('Role', 'Role it grants.', reference('roleRef', ['kind', 'name'])),
  AGE,
  wide('Users', 'Users it grants it to.', subjects('User')),
  wide('Groups', 'Groups it grants it to.', subjects('Group')),
  wide('ServiceAccounts', 'Service accounts it grants it to.', subjects('ServiceAccount')),
)

export const clusterPrinters: Readonly<Record<string, Printer>> = {
  Node: named(
    column('Status', 'Whether it is ready and accepts pods.', nodeStatus),
    column('Roles', 'Its roles.', nodeRoles),
    AGE,
    column('Version', 'Version of its kubelet.', 'status.nodeInfo.kubeletVersion'),
    wide('Internal-IP', 'Address inside the cluster.', nodeAddress('InternalIP')),
    wide('External-IP', 'Address outside the cluster.', nodeAddress('ExternalIP')),
    wide('OS-Image', 'Operating system.', text('status.nodeInfo.osImage', '<unknown>')),
    wide('Kernel-Version', 'Kernel version and architecture.', (node) => {
      const architecture = textAt(node, 'status', 'nodeInfo', 'architecture')
      return kernelVersion(node) + (architecture === '' ? '' : ` (${architecture})`)
    }),
    wide('Container-Runtime', 'Container runtime.', text('status.nodeInfo.containerRuntimeVersion', '<unknown>')),
  ),
  Namespace: aged(column('Status', 'Whether it is active or being deleted.', text('status.phase', 'Active'))),
  Event: printer(
    column('Last Seen', 'Time since it was last seen.', (event, nowMs) =>
      has(event, 'series', 'lastObservedTime')
        ? ageOf(field(event, 'series', 'lastObservedTime'), nowMs)
        : lastSeen(event, nowMs),
    ),
    column('Type', 'Normal or Warning.', 'type'),
    column('Reason', 'Reason for the event, in one word.', 'reason'),
    column('Object', 'Object that the event is about.', (event) => {
      const target = involved(event)
      const kind = textAt(target, 'kind').toLowerCase()
      const name = textAt(target, 'name')
      return name === '' ? kind : `${kind}/${name}`
    }),
    wide('Subobject', 'Part of the object that the event is about.', (event) => textAt(involved(event), 'fieldPath')),
    wide('Source', 'Component that reported the event.', eventSource),
    column('Message', 'Description of what happened.', (event) =>
      (textAt(event, 'message') || textAt(event, 'note')).trim(),
    ),
    wide('First Seen', 'Time since it was first seen.', firstSeen),
    wide('Count', 'How often it was seen.', (event) =>
      has(event, 'series') ? countAt(event, 'series', 'count') : eventCount(event),
    ),
    column('Name', 'Name of the event.', nameOf, { priority: 1, format: 'name' }),
  ),
  ConfigMap: aged(
    column(
      'Data',
      'Number of entries.',
      (object) => entriesAt(object, 'data').length + entriesAt(object, 'binaryData').length,
    ),
  ),
  Secret: aged(
    column('Type', 'Type of the data.', text('type', 'Opaque')),
    column('Data', 'Number of entries.', (object) => entriesAt(object, 'data').length),
  ),
  ServiceAccount: aged(),
  ResourceQuota: aged(
    column('Request', 'What may be requested: used of granted.', (object) => quota(object, false)),
    column('Limit', 'What limits may add up to: used of granted.', (object) => quota(object, true)),
  ),
  PriorityClass: named(
    integer('Value', 'The priority; higher values go first.', count('value')),
    boolean('Global-Default', 'Whether it applies to pods that name no priority class.', flag('globalDefault')),
    AGE,
    column('PreemptionPolicy', 'Whether it may preempt other pods.', text('preemptionPolicy', 'PreemptLowerPriority')),
  ),
  RuntimeClass: aged(column('Handler', 'Handler that runs its pods on a node.', 'handler')),
  Lease: aged(column('Holder', 'Holder of the lease.', 'spec.holderIdentity')),
  LeaseCandidate: aged(
    column('LeaseName', 'Lease that it is a candidate for.', 'spec.leaseName'),
    column('BinaryVersion', 'Version of its binary.', 'spec.binaryVersion'),
    column('EmulationVersion', 'Version that it emulates.', 'spec.emulationVersion'),
  ),
  StorageVersion: aged(
    column(
      'CommonEncodingVersion',
      'Version that all servers store objects in, if they agree.',
      text('status.commonEncodingVersion', '<unset>'),
    ),
    column('StorageVersions', 'Storage version of each server.', (object) =>
      firstFew(
        listAt(object, 'status', 'storageVersions').map(
          (each) => `${textAt(each, 'apiServerID')}=${textAt(each, 'encodingVersion')}`,
        ),
        3,
        '<unset>',
      ),
    ),
  ),
  StorageVersionMigration: printer(
    { ...NAME, format: '' },
    column('Resource', 'The resource whose objects are rewritten.', (object) => {
      const group = textAt(object, 'spec', 'resource', 'group')
      return `${textAt(object, 'spec', 'resource', 'resource')}${group === '' ? '' : `.${group}`}`
    }),
    column('Status', 'Its progress.', (object) =>
      listAt(object, 'status', 'conditions')
        .filter((condition) => textAt(condition, 'status') === 'True')
        .map((condition) => textAt(condition, 'type'))
        .filter((type) => /^(Running|Failed|Succeeded)$/.test(type))
        .reduce((_, type) => type, 'Unknown'),
    ),
  ),
  RoleBinding: BINDING,
  ClusterRoleBinding: BINDING,
  MutatingWebhookConfiguration: WEBHOOKS,
  ValidatingWebhookConfiguration: WEBHOOKS,
  ValidatingAdmissionPolicy: aged(
    integer('Validations', 'Number of validations.', length('spec.validations')),
    PARAM_KIND,
  ),
  MutatingAdmissionPolicy: aged(integer('Mutations', 'Number of mutations.', length('spec.mutations')), PARAM_KIND),
  ValidatingAdmissionPolicyBinding: POLICY_BINDING,
  MutatingAdmissionPolicyBinding: POLICY_BINDING,
  FlowSchema: {
    ...named(
      column('PriorityLevel', 'Priority level of its requests.', 'spec.priorityLevelConfiguration.name'),
      column('MatchingPrecedence', 'Lower values are tried first.', count('spec.matchingPrecedence')),
      column(
        'DistinguisherMethod',
        'How its requests are distinguished.',
        text('spec.distinguisherMethod.type', '<none>'),
      ),
      AGE,
      column(
        'MissingPL',
        'Whether its priority level is missing.',
        (object) => textAt(conditionOf(object, 'Dangling'), 'status') || '?',
      ),
    ),
    order: (object) => countAt(object, 'spec', 'matchingPrecedence'),
  },
  PriorityLevelConfiguration: priorityLevel('NominalConcurrencyShares'),
  APIService: aged(
    column('Service', 'The service that serves it.', reference('spec.service', ['namespace', 'name'], 'Local')),
    column('Available', 'Whether it answers.', (object) => {
      const condition = conditionOf(object, 'Available')
      const status = textAt(condition, 'status') || 'Unknown'
      return status === 'False' ? `False (${textAt(condition, 'reason')})` : status
    }),
  ),
}

/** @param shares AssuredConcurrencyShares in v1beta1 and v1beta2, NominalConcurrencyShares in later versions. */
export function priorityLevel(shares: 'NominalConcurrencyShares' | 'AssuredConcurrencyShares'): Printer {
  const member = shares.slice(0, 1).toLowerCase() + shares.slice(1)
  const limited =
    (...path: readonly string[]) =>
    (object: unknown) =>
      numberAt(object, 'spec', 'limited', ...path) ?? '<none>'
  return aged(
    column('Type', 'Limited or exempt.', 'spec.type'),
    column(shares, 'Its share of the concurrent requests.', limited(member)),
    column('Queues', 'Number of its queues.', limited('limitResponse', 'queuing', 'queues')),
    column('HandSize', 'Number of queues assigned to each flow.', limited('limitResponse', 'queuing', 'handSize')),
    column(
      'QueueLengthLimit',
      'Maximum number of requests in a queue.',
      limited('limitResponse', 'queuing', 'queueLengthLimit'),
    ),
  )
}

function nodeStatus(node: unknown): string {
  const ready = conditionOf(node, 'Ready')
  const status = ready === undefined ? 'Unknown' : textAt(ready, 'status') === 'True' ? 'Ready' : 'NotReady'
  return isTrue(node, 'spec', 'unschedulable') ? `${status},SchedulingDisabled` : status
}

function nodeRoles(node: unknown): string {
  const roles = new Set<string>()
  for (const [key, value] of entriesAt(node, 'metadata', 'labels')) {
    if (key.startsWith(ROLE_LABEL) && key.length > ROLE_LABEL.length) roles.add(key.slice(ROLE_LABEL.length))
    else if (key === 'kubernetes.io/role' && typeof value === 'string' && value !== '') roles.add(value)
  }
  return [...roles].sort().join(',') || '<none>'
}

/** The member is `involvedObject` in core/v1 and `regarding` in events.k8s.io/v1. */
function involved(event: unknown): unknown {
  return field(event, 'involvedObject') ?? field(event, 'regarding')
}

function firstSeen(event: unknown, nowMs: number): string {
  const first = field(event, 'firstTimestamp') ?? field(event, 'deprecatedFirstTimestamp')
  return ageOf(first ?? field(event, 'eventTime'), nowMs)
}

function lastSeen(event: unknown, nowMs: number): string {
  const last = field(event, 'lastTimestamp') ?? field(event, 'deprecatedLastTimestamp')
  return last === undefined || last === null ? firstSeen(event, nowMs) : ageOf(last, nowMs)
}

function eventCount(event: unknown): number {
  return countAt(event, 'count') || countAt(event, 'deprecatedCount') || 1
}

function eventSource(event: unknown): string {
  const source = field(event, 'source') ?? field(event, 'deprecatedSource')
  const component =
    textAt(source, 'component') || textAt(event, 'reportingComponent') || textAt(event, 'reportingController')
  const host = textAt(source, 'host') || textAt(event, 'reportingInstance')
  return host === '' ? component : `${component}, ${host}`
}

function quota(object: unknown, limits: boolean): string {
  return entriesAt(object, 'status', 'hard')
    .filter(([name]) => name.startsWith('limits.') === limits)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, hard]) => `${name}: ${scalarAt('0', object, 'status', 'used', name)}/${String(hard)}`)
    .join(', ')
}
