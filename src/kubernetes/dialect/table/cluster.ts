/** Rows of the cluster itself: nodes, namespaces, events, configuration, permissions, policies, extensions. */
import { ageOf } from '../../../support/human-duration.js'
import { countAt, entriesAt, field, has, isTrue, listAt, numberAt, scalarAt, textAt } from '../../../support/fields.js'
import { conditionOf, AGE, column, firstFew, NAME, nameOf, type Printer, printer, wide } from './printer.js'

const ROLE_LABEL = 'node-role.kubernetes.io/'

const nodeInfo = (member: string) => (node: unknown) => textAt(node, 'status', 'nodeInfo', member) || '<unknown>'
const nodeAddress = (type: string) => (node: unknown) =>
  textAt(
    listAt(node, 'status', 'addresses').find((address) => textAt(address, 'type') === type),
    'address',
  ) || '<none>'

const WEBHOOKS = printer(
  NAME,
  column('Webhooks', 'integer', 'Number of its webhooks.', (object) => listAt(object, 'webhooks').length),
  AGE,
)

const PARAM_KIND = column('ParamKind', 'string', 'Kind of its parameters.', (object) => {
  const kind = field(object, 'spec', 'paramKind')
  return has(kind) ? `${textAt(kind, 'apiVersion')}/${textAt(kind, 'kind')}` : '<unset>'
})

const POLICY_BINDING = printer(
  NAME,
  column('PolicyName', 'string', 'Policy it binds.', (object) => textAt(object, 'spec', 'policyName')),
  column('ParamRef', 'string', 'Parameters it binds the policy with.', (object) => {
    const reference = field(object, 'spec', 'paramRef')
    if (!has(reference)) return '<unset>'
    const name = textAt(reference, 'name')
    if (name !== '') return `${textAt(reference, 'namespace') || '*'}/${name}`
    return has(reference, 'selector') ? goSelector(field(reference, 'selector')) : '<unset>'
  }),
  AGE,
)

/** The API server shows this selector as Go prints the value. */
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
    .map((subject) => (kind === 'ServiceAccount' ? `${textAt(subject, 'namespace')}/` : '') + nameOfSubject(subject))
    .join(', ')

const BINDING = printer(
  NAME,
  column('Role', 'string', 'Role it grants.', (binding) => {
    const role = field(binding, 'roleRef')
    return `${textAt(role, 'kind')}/${textAt(role, 'name')}`
  }),
  AGE,
  wide('Users', 'Users it grants it to.', subjects('User')),
  wide('Groups', 'Groups it grants it to.', subjects('Group')),
  wide('ServiceAccounts', 'Service accounts it grants it to.', subjects('ServiceAccount')),
)

export const clusterPrinters: Readonly<Record<string, Printer>> = {
  Node: printer(
    NAME,
    column('Status', 'string', 'Whether it is ready and accepts pods.', nodeStatus),
    column('Roles', 'string', 'Its roles.', nodeRoles),
    AGE,
    column('Version', 'string', 'Version of its kubelet.', (node) =>
      textAt(node, 'status', 'nodeInfo', 'kubeletVersion'),
    ),
    wide('Internal-IP', 'Address inside the cluster.', nodeAddress('InternalIP')),
    wide('External-IP', 'Address outside the cluster.', nodeAddress('ExternalIP')),
    wide('OS-Image', 'Operating system.', nodeInfo('osImage')),
    wide('Kernel-Version', 'Kernel, and the processor it is for.', (node) => {
      const architecture = textAt(node, 'status', 'nodeInfo', 'architecture')
      return nodeInfo('kernelVersion')(node) + (architecture === '' ? '' : ` (${architecture})`)
    }),
    wide('Container-Runtime', 'Container runtime.', nodeInfo('containerRuntimeVersion')),
  ),
  Namespace: printer(
    NAME,
    column(
      'Status',
      'string',
      'Whether it is active or being deleted.',
      (object) => textAt(object, 'status', 'phase') || 'Active',
    ),
    AGE,
  ),
  Event: printer(
    column('Last Seen', 'string', 'Time since it was last seen.', (event, nowMs) =>
      has(event, 'series', 'lastObservedTime')
        ? ageOf(field(event, 'series', 'lastObservedTime'), nowMs)
        : lastSeen(event, nowMs),
    ),
    column('Type', 'string', 'Normal or Warning.', (event) => textAt(event, 'type')),
    column('Reason', 'string', 'What happened, in a word.', (event) => textAt(event, 'reason')),
    column('Object', 'string', 'What it happened to.', (event) => {
      const target = involved(event)
      const kind = textAt(target, 'kind').toLowerCase()
      const name = textAt(target, 'name')
      return name === '' ? kind : `${kind}/${name}`
    }),
    wide('Subobject', 'The part it happened to.', (event) => textAt(involved(event), 'fieldPath')),
    wide('Source', 'Component that reported the event.', eventSource),
    column('Message', 'string', 'What happened, in a sentence.', (event) =>
      (textAt(event, 'message') || textAt(event, 'note')).trim(),
    ),
    wide('First Seen', 'Time since it was first seen.', firstSeen),
    wide('Count', 'How often it was seen.', (event) =>
      has(event, 'series') ? countAt(event, 'series', 'count') : eventCount(event),
    ),
    column('Name', 'string', 'Name of the event.', nameOf, { priority: 1, format: 'name' }),
  ),
  ConfigMap: printer(
    NAME,
    column(
      'Data',
      'string',
      'Number of entries.',
      (object) => entriesAt(object, 'data').length + entriesAt(object, 'binaryData').length,
    ),
    AGE,
  ),
  Secret: printer(
    NAME,
    column('Type', 'string', 'What it is for.', (object) => textAt(object, 'type') || 'Opaque'),
    column('Data', 'string', 'Number of entries.', (object) => entriesAt(object, 'data').length),
    AGE,
  ),
  ServiceAccount: printer(NAME, AGE),
  ResourceQuota: printer(
    NAME,
    column('Request', 'string', 'What may be requested: used of granted.', (object) => quota(object, false)),
    column('Limit', 'string', 'What limits may add up to: used of granted.', (object) => quota(object, true)),
    AGE,
  ),
  PriorityClass: printer(
    NAME,
    column('Value', 'integer', 'The priority; higher values go first.', (object) => countAt(object, 'value')),
    column('Global-Default', 'boolean', 'Whether it applies to pods that name no priority class.', (object) =>
      isTrue(object, 'globalDefault'),
    ),
    AGE,
    column(
      'PreemptionPolicy',
      'string',
      'Whether others make room for it.',
      (object) => textAt(object, 'preemptionPolicy') || 'PreemptLowerPriority',
    ),
  ),
  RuntimeClass: printer(
    NAME,
    column('Handler', 'string', 'What runs its pods on a node.', (object) => textAt(object, 'handler')),
    AGE,
  ),
  Lease: printer(
    NAME,
    column('Holder', 'string', 'Who holds it.', (object) => textAt(object, 'spec', 'holderIdentity')),
    AGE,
  ),
  LeaseCandidate: printer(
    NAME,
    column('LeaseName', 'string', 'The lease it could hold.', (object) => textAt(object, 'spec', 'leaseName')),
    column('BinaryVersion', 'string', 'Version of its program.', (object) => textAt(object, 'spec', 'binaryVersion')),
    column('EmulationVersion', 'string', 'Version that it behaves as.', (object) =>
      textAt(object, 'spec', 'emulationVersion'),
    ),
    AGE,
  ),
  StorageVersion: printer(
    NAME,
    column(
      'CommonEncodingVersion',
      'string',
      'Version in which all servers store.',
      (object) => textAt(object, 'status', 'commonEncodingVersion') || '<unset>',
    ),
    column('StorageVersions', 'string', 'Storage version of each server.', (object) =>
      firstFew(
        listAt(object, 'status', 'storageVersions').map(
          (each) => `${textAt(each, 'apiServerID')}=${textAt(each, 'encodingVersion')}`,
        ),
        3,
        '<unset>',
      ),
    ),
    AGE,
  ),
  StorageVersionMigration: printer(
    { ...NAME, format: '' },
    column('Resource', 'string', 'The resource whose objects are rewritten.', (object) => {
      const group = textAt(object, 'spec', 'resource', 'group')
      return `${textAt(object, 'spec', 'resource', 'resource')}${group === '' ? '' : `.${group}`}`
    }),
    column('Status', 'string', 'Its progress.', (object) =>
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
  ValidatingAdmissionPolicy: printer(
    NAME,
    column(
      'Validations',
      'integer',
      'Number of validations.',
      (object) => listAt(object, 'spec', 'validations').length,
    ),
    PARAM_KIND,
    AGE,
  ),
  MutatingAdmissionPolicy: printer(
    NAME,
    column('Mutations', 'integer', 'Number of mutations.', (object) => listAt(object, 'spec', 'mutations').length),
    PARAM_KIND,
    AGE,
  ),
  ValidatingAdmissionPolicyBinding: POLICY_BINDING,
  MutatingAdmissionPolicyBinding: POLICY_BINDING,
  FlowSchema: {
    ...printer(
      NAME,
      column('PriorityLevel', 'string', 'Priority level of its requests.', (object) =>
        textAt(object, 'spec', 'priorityLevelConfiguration', 'name'),
      ),
      column('MatchingPrecedence', 'string', 'Lower values are tried first.', (object) =>
        countAt(object, 'spec', 'matchingPrecedence'),
      ),
      column(
        'DistinguisherMethod',
        'string',
        'How its requests are distinguished.',
        (object) => textAt(object, 'spec', 'distinguisherMethod', 'type') || '<none>',
      ),
      AGE,
      column(
        'MissingPL',
        'string',
        'Whether its priority level is missing.',
        (object) => textAt(conditionOf(object, 'Dangling'), 'status') || '?',
      ),
    ),
    order: (object) => countAt(object, 'spec', 'matchingPrecedence'),
  },
  PriorityLevelConfiguration: priorityLevel('NominalConcurrencyShares'),
  APIService: printer(
    NAME,
    column('Service', 'string', 'The service that serves it.', (object) => {
      const service = field(object, 'spec', 'service')
      return has(service) ? `${textAt(service, 'namespace')}/${textAt(service, 'name')}` : 'Local'
    }),
    column('Available', 'string', 'Whether it answers.', (object) => {
      const condition = conditionOf(object, 'Available')
      const status = textAt(condition, 'status') || 'Unknown'
      return status === 'False' ? `False (${textAt(condition, 'reason')})` : status
    }),
    AGE,
  ),
}

/** v1beta1 and v1beta2 call these shares AssuredConcurrencyShares. */
export function priorityLevel(shares: 'NominalConcurrencyShares' | 'AssuredConcurrencyShares'): Printer {
  const member = shares.slice(0, 1).toLowerCase() + shares.slice(1)
  const limited =
    (...path: readonly string[]) =>
    (object: unknown) =>
      numberAt(object, 'spec', 'limited', ...path) ?? '<none>'
  return printer(
    NAME,
    column('Type', 'string', 'Limited or exempt.', (object) => textAt(object, 'spec', 'type')),
    column(shares, 'string', 'Its share of the requests at one time.', limited(member)),
    column('Queues', 'string', 'Queues it has.', limited('limitResponse', 'queuing', 'queues')),
    column('HandSize', 'string', 'Queues a flow is dealt.', limited('limitResponse', 'queuing', 'handSize')),
    column(
      'QueueLengthLimit',
      'string',
      'Requests a queue holds.',
      limited('limitResponse', 'queuing', 'queueLengthLimit'),
    ),
    AGE,
  )
}

function nameOfSubject(subject: unknown): string {
  return textAt(subject, 'name')
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
