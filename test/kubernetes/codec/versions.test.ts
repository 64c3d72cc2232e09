import t from 'tap'

import { type ScannedObject, scanObject, spliceResourceVersion } from '../../../src/kubernetes/codec/json-scan.js'
import { isProtobuf, openEnvelope } from '../../../src/kubernetes/codec/protobuf/envelope.js'
import { decodeObject } from '../../../src/kubernetes/codec/protobuf/decode.js'
import { withResourceVersion } from '../../../src/kubernetes/codec/protobuf/resource-version-splice.js'
import { kubernetesSchema, type Message, type Schema } from '../../../src/kubernetes/codec/protobuf/schema.js'
import { readJson, readProtobuf } from '../../../src/kubernetes/codec/read-defaults.js'
import { canConvert, convert, hasSameMessage } from '../../../src/kubernetes/codec/versions/convert.js'
import { RENAMED } from '../../../src/kubernetes/codec/versions/renamed-kinds.js'
import { toRevision } from '../../../src/engine/model/revision.js'
import { apiServer120, apiTestData, conversions137 } from '../../support/protobuf-data.js'

const schema = kubernetesSchema()

function inVersion(object: ScannedObject, apiVersion: string): ScannedObject {
  if (object.apiVersion === apiVersion) return object
  return scanObject(convert(object.bytes, object.apiVersion, apiVersion, object.kind)!)!
}

function converted(object: object, from: string, to: string, kind: string): Record<string, unknown> | null {
  const json = convert(Buffer.from(JSON.stringify({ kind, apiVersion: from, ...object })), from, to, kind)
  return json === null ? null : (JSON.parse(json.toString()) as Record<string, unknown>)
}

void t.test(
  'objects stored by kube-apiserver 1.20 are served as it answered them, with their resourceVersions',
  (t) => {
    const { stored, answers } = apiServer120()
    let compared = 0
    let inAnotherVersion = 0
    for (const { key, value, modRevision } of stored) {
      const answer = answers.get(key)
      if (answer === undefined) continue
      const { apiVersion } = answer.object
      const object = isProtobuf(value) ? decodeObject(readStored(value), schema) : readJson(scanObject(value)!)
      const served = spliceResourceVersion(inVersion(object, apiVersion), toRevision(modRevision))
      const { selfLink: _, ...metadata } = answer.object.metadata
      t.same(JSON.parse(served.toString()), { ...answer.object, metadata }, key)
      compared++
      if (object.apiVersion !== apiVersion) inAnotherVersion++
    }
    t.equal(compared, answers.size)
    t.ok(inAnotherVersion >= 3, `${inAnotherVersion} were stored in another version`)
    t.end()
  },
)

void t.test('random objects are converted as Kubernetes 1.37 converts them', (t) => {
  let compared = 0
  for (const { kind, stored, value, answers } of conversions137()) {
    const decoded = decodeObject(value, schema)
    for (const [apiVersion, answer] of Object.entries(answers)) {
      if (!canConvert(stored, apiVersion, decoded.kind)) continue
      const json = convert(decoded.bytes, stored, apiVersion, decoded.kind)
      t.same(JSON.parse(json?.toString() ?? 'null'), answer, `${kind} ${stored} as ${apiVersion}`)
      compared++
    }
  }
  t.ok(compared > 150, `${compared} were compared`)
  t.end()
})

void t.test('kinds declared to differ only in name have the same fields in every version', (t) => {
  const differences = (a: Message, b: Message, path: string, seen: Set<string>): string[] => {
    const pair = `${a.fullName} ${b.fullName}`
    if (a === b || seen.has(pair)) return []
    seen.add(pair)
    const others = new Map(b.fields.map((field) => [field.number, field]))
    return a.fields.flatMap((field) => {
      const other = others.get(field.number)
      const where = `${path}.${field.jsonName}`
      // A kind in only one of them is newer than the other or long gone: it is kept as an unknown one.
      if (other === undefined) return []
      const isSame = other.jsonName === field.jsonName && other.type === field.type && isList(other) === isList(field)
      if (!isSame) return [`${where} is ${other.jsonName}`]
      if (field.type !== 'message') return []
      return differences(messageOf(schema, field.messageName), messageOf(schema, other.messageName), where, seen)
    })
  }
  const isList = (field: { label: string }): boolean => field.label === 'repeated' || field.label === 'map'
  for (const [kinds, apiVersions] of RENAMED) {
    for (const kind of kinds) {
      const messages = apiVersions.map((apiVersion) => schema.messageOfKind(apiVersion, kind))
      const known = messages.filter((message) => message !== undefined)
      t.ok(known.length >= 1, kind)
      for (const message of known.slice(1)) t.same(differences(known[0]!, message, kind, new Set()), [], kind)
    }
  }
  t.end()
})

function readStored(value: Buffer): Buffer {
  const { apiVersion, kind } = openEnvelope(value)
  return readProtobuf(value, apiVersion, kind)
}

function messageOf(from: Schema, name: string): Message {
  return from.message(name)!
}

void t.test('a renamed kind changes its apiVersion and nothing else, in JSON and in protobuf', (t) => {
  for (const { name, protobuf, json } of apiTestData('head')) {
    const { apiVersion, kind } = json as { apiVersion: string; kind: string }
    for (const [kinds, apiVersions] of RENAMED) {
      if (!kinds.includes(kind) || !apiVersions.includes(apiVersion)) continue
      for (const other of apiVersions) {
        t.equal(hasSameMessage(apiVersion, other, kind), true)
        t.same(converted(json, apiVersion, other, kind), { ...json, apiVersion: other }, `${name} as ${other}`)
        if (schema.messageOfKind(other, kind) === undefined) continue
        const { bytes, unknownFields } = decodeObject(withResourceVersion(protobuf, '1', other), schema)
        const back = convert(bytes, other, apiVersion, kind)!
        if (unknownFields === 0)
          t.equal(back.toString(), decodeObject(protobuf, schema).bytes.toString(), `${name} ${other}`)
      }
    }
  }
  t.end()
})

void t.test('members that are not converted keep their spelling, to the last digit', (t) => {
  const text =
    '{"kind":"Lease","apiVersion":"coordination.k8s.io/v1beta1","spec":{"n":9007199254740993,"e":1.0e2,"\\u0061":"\\/"}}'
  const json = convert(Buffer.from(text), 'coordination.k8s.io/v1beta1', 'coordination.k8s.io/v1', 'Lease')
  t.equal(json?.toString(), text.replace('v1beta1', 'v1'))
  t.end()
})

void t.test('the key of a pod’s certificate request is a member of v1beta1 alone', (t) => {
  const [v1, v1beta1] = ['certificates.k8s.io/v1', 'certificates.k8s.io/v1beta1'] as const
  const members = { maxExpirationSeconds: 3600, stubPKCS10Request: 'eA==', unverifiedUserAnnotations: { a: 'b' } }
  const old = { spec: { pkixPublicKey: 'eA==', proofOfPossession: null, ...members } }
  t.match(converted(old, v1beta1, v1, 'PodCertificateRequest'), { apiVersion: v1, spec: members })
  const back = converted({ spec: members }, v1, v1beta1, 'PodCertificateRequest')
  t.same(back?.['spec'], { ...members, pkixPublicKey: null, proofOfPossession: null })
  t.equal(hasSameMessage(v1beta1, v1, 'PodCertificateRequest'), false)
  t.end()
})

void t.test('an object that cannot be converted is absent', (t) => {
  for (const [from, to, kind] of [
    ['v1', 'v2', 'Pod'],
    ['apps/v1', 'batch/v1', 'Deployment'],
    ['extensions/v1beta1', 'apps/v1', 'Deployment'],
    ['apiextensions.k8s.io/v1', 'apiextensions.k8s.io/v1beta1', 'CustomResourceDefinition'],
    ['policy/v1beta1', 'policy/v1', 'PodSecurityPolicy'],
  ] as const) {
    t.equal(converted({}, from, to, kind), null, `${kind} ${from} as ${to}`)
    t.equal(canConvert(from, to, kind), false)
  }
  t.equal(canConvert('v1', 'v1', 'Pod'), true)
  t.equal(convert(Buffer.from('[]'), 'policy/v1beta1', 'policy/v1', 'PodDisruptionBudget'), null)
  t.end()
})

void t.test('an Ingress is converted with backends, named and numbered ports, and path types', (t) => {
  const old = {
    metadata: { name: 'i' },
    spec: {
      backend: { serviceName: 'd', servicePort: 'http' },
      rules: [
        {
          host: 'h',
          http: {
            paths: [
              { path: '/', pathType: 'Exact', backend: { serviceName: 's', servicePort: 80 } },
              { backend: { servicePort: 0, resource: { kind: 'K', name: 'r' } } },
            ],
          },
        },
        { host: 'empty' },
      ],
    },
    status: { loadBalancer: {} },
  }
  const now = {
    metadata: { name: 'i' },
    spec: {
      defaultBackend: { service: { name: 'd', port: { name: 'http' } } },
      rules: [
        {
          host: 'h',
          http: {
            paths: [
              { path: '/', pathType: 'Exact', backend: { service: { name: 's', port: { number: 80 } } } },
              { pathType: 'ImplementationSpecific', backend: { resource: { kind: 'K', name: 'r' } } },
            ],
          },
        },
        { host: 'empty' },
      ],
    },
    status: { loadBalancer: {} },
  }
  for (const group of ['networking.k8s.io', 'extensions']) {
    const from = `${group}/v1beta1`
    t.match(converted(old, from, 'networking.k8s.io/v1', 'Ingress'), now)
    const back = converted(now, 'networking.k8s.io/v1', from, 'Ingress')
    const paths = old.spec.rules[0]!.http!.paths.map((path) => ({ pathType: 'ImplementationSpecific', ...path }))
    const rules = [{ host: 'h', http: { paths } }, { host: 'empty' }]
    t.same(back?.['spec'], { ...old.spec, rules })
  }
  t.end()
})

void t.test('an Event is the same event in both groups', (t) => {
  const core = apiTestData('head').find(({ name }) => name === 'core.v1.Event')!.json
  const events = apiTestData('head').find(({ name }) => name === 'events.k8s.io.v1.Event')!.json
  const there = converted(core, 'v1', 'events.k8s.io/v1', 'Event')!
  t.same(Object.keys(there).toSorted(), Object.keys(events).toSorted())
  t.match(there, { note: core['message'], regarding: core['involvedObject'], deprecatedCount: core['count'] })
  t.same(converted(there, 'events.k8s.io/v1', 'v1', 'Event'), core)

  const plain = {
    metadata: { name: 'e' },
    involvedObject: { kind: 'Pod' },
    reason: 'r',
    message: 'm',
    source: {},
    firstTimestamp: null,
    lastTimestamp: null,
    eventTime: null,
    reportingComponent: '',
    reportingInstance: '',
  }
  const asEvents = converted(plain, 'v1', 'events.k8s.io/v1', 'Event')!
  t.equal('reportingController' in asEvents, false)
  t.same(converted(asEvents, 'events.k8s.io/v1', 'v1', 'Event'), { kind: 'Event', apiVersion: 'v1', ...plain })
  const withNulls = converted({ ...plain, source: null, involvedObject: null }, 'v1', 'events.k8s.io/v1', 'Event')
  t.match(withNulls, { deprecatedSource: {}, regarding: {} }, 'structs are never null')
  t.end()
})

void t.test('the top-level members of a CustomResourceDefinition move into every version', (t) => {
  const from = 'apiextensions.k8s.io/v1beta1'
  const to = 'apiextensions.k8s.io/v1'
  const kind = 'CustomResourceDefinition'
  const names = { plural: 'things', kind: 'Thing' }
  const top = {
    group: 'g.io',
    names,
    validation: { openAPIV3Schema: { type: 'object' } },
    subresources: { status: {} },
    additionalPrinterColumns: [{ name: 'A', type: 'date', JSONPath: '.a' }],
    versions: [
      { name: 'v1', served: true, storage: true },
      { name: 'v2', served: true, storage: false },
    ],
    conversion: { strategy: 'Webhook', webhookClientConfig: { service: { name: 's', namespace: 'n' } } },
  }
  const inside = {
    schema: top.validation,
    subresources: top.subresources,
    additionalPrinterColumns: [{ name: 'A', type: 'date', jsonPath: '.a' }],
  }
  t.same(converted({ spec: top, status: { storedVersions: [] } }, from, to, kind), {
    kind,
    apiVersion: to,
    spec: {
      group: 'g.io',
      names: { plural: 'things', singular: 'thing', kind: 'Thing', listKind: 'ThingList' },
      scope: 'Namespaced',
      versions: top.versions.map((version) => ({ ...version, ...inside })),
      conversion: {
        strategy: 'Webhook',
        webhook: {
          clientConfig: { service: { name: 's', namespace: 'n', port: 443 } },
          conversionReviewVersions: ['v1beta1'],
        },
      },
      preserveUnknownFields: true,
    },
    status: { storedVersions: ['v1'] },
  })
  const own = {
    name: 'v1',
    served: true,
    storage: true,
    schema: { openAPIV3Schema: {} },
    additionalPrinterColumns: [{ JSONPath: '.b' }],
  }
  const perVersion = converted(
    { spec: { group: 'g', names, versions: [own], preserveUnknownFields: false } },
    from,
    to,
    kind,
  )
  t.match(perVersion, {
    spec: {
      versions: [{ schema: { openAPIV3Schema: {} }, additionalPrinterColumns: [{ jsonPath: '.b' }] }],
      conversion: { strategy: 'None' },
    },
  })
  t.notOk('preserveUnknownFields' in (perVersion!['spec'] as object))
  const oldest = converted({ spec: { group: 'g', names, version: 'v1alpha1' } }, from, to, kind)
  t.match(oldest, { spec: { versions: [{ name: 'v1alpha1', served: true, storage: true }] } })
  t.end()
})

void t.test('the zone and node of an EndpointSlice leave its topology', (t) => {
  const old = {
    metadata: {},
    endpoints: [
      {
        addresses: ['a'],
        topology: { 'kubernetes.io/hostname': 'n1', 'topology.kubernetes.io/zone': 'z' },
        nodeName: 'n1',
      },
      { addresses: ['b'], topology: { 'kubernetes.io/hostname': 'other', x: 'y' }, nodeName: 'n1' },
      { addresses: ['c'] },
    ],
  }
  const now = converted(old, 'discovery.k8s.io/v1beta1', 'discovery.k8s.io/v1', 'EndpointSlice')!
  t.same(now['endpoints'], [
    { addresses: ['a'], nodeName: 'n1', zone: 'z' },
    { addresses: ['b'], deprecatedTopology: { 'kubernetes.io/hostname': 'other', x: 'y' }, nodeName: 'n1' },
    { addresses: ['c'] },
  ])
  const back = converted(now, 'discovery.k8s.io/v1', 'discovery.k8s.io/v1beta1', 'EndpointSlice')!
  t.same(back['endpoints'], old.endpoints)
  t.end()
})

void t.test('an empty selector of a PodDisruptionBudget keeps its meaning', (t) => {
  const label = 'pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match'
  const matching = (operator: string): object => ({ matchExpressions: [{ key: label, operator }] })
  for (const [v1beta1, v1] of [
    [{}, matching('Exists')],
    [matching('DoesNotExist'), {}],
    [{ matchLabels: { a: 'b' } }, { matchLabels: { a: 'b' } }],
    [null, null],
  ] as const) {
    const budget = (selector: object | null): object => ({ spec: { selector, minAvailable: 1 } })
    t.match(converted(budget(v1beta1), 'policy/v1beta1', 'policy/v1', 'PodDisruptionBudget'), budget(v1))
    t.match(converted(budget(v1), 'policy/v1', 'policy/v1beta1', 'PodDisruptionBudget'), budget(v1beta1))
  }
  t.equal(hasSameMessage('policy/v1beta1', 'policy/v1', 'PodDisruptionBudget'), false)
  t.end()
})

void t.test('a HorizontalPodAutoscaler means the same in v1 and v2', (t) => {
  const kind = 'HorizontalPodAutoscaler'
  const v1 = {
    metadata: {
      name: 'h',
      annotations: {
        mine: 'kept',
        'autoscaling.alpha.kubernetes.io/metrics':
          '[{"type":"Pods","pods":{"metricName":"rps","targetAverageValue":"10"}},{"type":"External","external":{"metricName":"q","metricSelector":{"matchLabels":{"a":"b"}},"targetValue":"5"}}]',
        'autoscaling.alpha.kubernetes.io/current-metrics':
          '[{"type":"Resource","resource":{"name":"cpu","currentAverageUtilization":40,"currentAverageValue":"200m"}}]',
        'autoscaling.alpha.kubernetes.io/conditions':
          '[{"type":"AbleToScale","status":"True","lastTransitionTime":null}]',
        'autoscaling.alpha.kubernetes.io/behavior':
          '{"ScaleUp":null,"ScaleDown":{"StabilizationWindowSeconds":300,"SelectPolicy":null,"Policies":[{"Type":"Pods","Value":4,"PeriodSeconds":60}],"Tolerance":null}}',
      },
    },
    spec: {
      scaleTargetRef: { kind: 'Deployment', name: 'd' },
      minReplicas: 1,
      maxReplicas: 5,
      targetCPUUtilizationPercentage: 80,
    },
    status: { currentReplicas: 2, desiredReplicas: 3, currentCPUUtilizationPercentage: 40 },
  }
  const v2 = {
    kind,
    apiVersion: 'autoscaling/v2',
    metadata: { name: 'h', annotations: { mine: 'kept' } },
    spec: {
      scaleTargetRef: { kind: 'Deployment', name: 'd' },
      minReplicas: 1,
      maxReplicas: 5,
      metrics: [
        { type: 'Pods', pods: { metric: { name: 'rps' }, target: { type: 'AverageValue', averageValue: '10' } } },
        {
          type: 'External',
          external: {
            metric: { name: 'q', selector: { matchLabels: { a: 'b' } } },
            target: { type: 'Value', value: '5' },
          },
        },
        { type: 'Resource', resource: { name: 'cpu', target: { type: 'Utilization', averageUtilization: 80 } } },
      ],
      behavior: {
        scaleDown: { stabilizationWindowSeconds: 300, policies: [{ type: 'Pods', value: 4, periodSeconds: 60 }] },
      },
    },
    status: {
      currentReplicas: 2,
      desiredReplicas: 3,
      currentMetrics: [
        { type: 'Resource', resource: { name: 'cpu', current: { averageValue: '200m', averageUtilization: 40 } } },
      ],
      conditions: [{ type: 'AbleToScale', status: 'True', lastTransitionTime: null }],
    },
  }
  t.same(converted(v1, 'autoscaling/v1', 'autoscaling/v2', kind), v2)
  const back = converted(v2, 'autoscaling/v2', 'autoscaling/v1', kind)!
  t.match(back, { ...v1, metadata: { name: 'h' } })
  t.same((back['metadata'] as typeof v1.metadata).annotations, v1.metadata.annotations)
  const plain = {
    metadata: { name: 'h' },
    spec: { maxReplicas: 1 },
    status: { currentReplicas: 0, desiredReplicas: 0 },
  }
  t.same(converted(plain, 'autoscaling/v1', 'autoscaling/v2', kind), {
    kind,
    apiVersion: 'autoscaling/v2',
    metadata: { name: 'h' },
    spec: {
      maxReplicas: 1,
      metrics: [
        { type: 'Resource', resource: { name: 'cpu', target: { type: 'Utilization', averageUtilization: 80 } } },
      ],
    },
    status: { desiredReplicas: 0, currentMetrics: null },
  })
  t.end()
})

void t.test('every metric that a controller writes is converted, whatever its type', (t) => {
  const kind = 'HorizontalPodAutoscaler'
  const spec = { scaleTargetRef: { kind: 'Deployment', name: 'd' }, maxReplicas: 3 }
  const annotation = 'autoscaling.alpha.kubernetes.io/current-metrics'
  const cases: [name: string, metric: object, flat: string][] = [
    ['without a metrics API', { type: '' }, '{"type":""}'],
    ['without its member', { type: 'Resource' }, '{"type":"Resource"}'],
    ['of a later release', { type: 'Future', future: {} }, '{"type":"Future"}'],
    [
      'with the member of another type',
      { type: '', pods: { metric: { name: 'a<b&c' }, current: {} } },
      '{"type":"","pods":{"metricName":"a\\u003cb\\u0026c","currentAverageValue":"0"}}',
    ],
  ]
  for (const [name, metric, flat] of cases) {
    const v2 = { metadata: {}, spec, status: { desiredReplicas: 0, currentMetrics: [metric] } }
    const v1 = converted(v2, 'autoscaling/v2', 'autoscaling/v1', kind) as { metadata: { annotations: object } } | null
    t.same(v1?.metadata.annotations, { [annotation]: `[${flat}]` }, name)
    t.ok(converted(v1!, 'autoscaling/v1', 'autoscaling/v2', kind), name)
  }
  const targets = [70, 80].map((averageUtilization) => ({
    type: 'Resource',
    resource: { name: 'cpu', target: { type: 'Utilization', averageUtilization } },
  }))
  const two = converted({ metadata: {}, spec: { ...spec, metrics: targets } }, 'autoscaling/v2', 'autoscaling/v1', kind)
  t.match(two, { spec: { targetCPUUtilizationPercentage: 70 } })
  t.same(two?.['metadata'], {}, 'of two targets for the CPU the first counts')
  t.end()
})

void t.test('shares of zero in flowcontrol v1beta3 are marked, as by the API server 1.37', (t) => {
  const [beta, v1] = ['v1beta3', 'v1'].map((version) => `flowcontrol.apiserver.k8s.io/${version}`) as [string, string]
  const mark = { 'flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares': '' }
  const level = (annotations: object | null, shares: number): Record<string, unknown> => ({
    metadata: { name: 'a', ...(annotations === null ? {} : { annotations }) },
    spec: { type: 'Limited', limited: { nominalConcurrencyShares: shares, limitResponse: { type: 'Reject' } } },
  })
  const cases: readonly [from: Record<string, unknown>, to: Record<string, unknown>][] = [
    [level(mark, 0), level(null, 0)],
    [level({ ...mark, other: 'x' }, 0), level({ other: 'x' }, 0)],
    [level(null, 5), level(null, 5)],
  ]
  for (const [older, newer] of cases) {
    t.match(converted(older, beta, v1, 'PriorityLevelConfiguration'), newer)
    const back = converted(newer, v1, beta, 'PriorityLevelConfiguration')
    t.same(back?.['spec'], older['spec'])
    t.same(back?.['metadata'], older['metadata'])
  }
  const shown = converted(cases[0]![0], beta, v1, 'PriorityLevelConfiguration')
  t.same(shown?.['metadata'], { name: 'a' }, 'v1 has no mark')
  t.end()
})

void t.test('members that were moved or renamed are found in both versions', (t) => {
  const flow = 'flowcontrol.apiserver.k8s.io'
  const level = converted(
    { spec: { type: 'Limited', limited: { assuredConcurrencyShares: 7, limitResponse: {} } } },
    `${flow}/v1beta1`,
    `${flow}/v1`,
    'PriorityLevelConfiguration',
  )
  t.same(level?.['spec'], { type: 'Limited', limited: { nominalConcurrencyShares: 7, limitResponse: {} } })
  t.same(
    converted(
      { spec: { runtimeHandler: 'runc', overhead: { podFixed: {} } } },
      'node.k8s.io/v1alpha1',
      'node.k8s.io/v1',
      'RuntimeClass',
    ),
    { kind: 'RuntimeClass', apiVersion: 'node.k8s.io/v1', handler: 'runc', overhead: { podFixed: {} } },
  )
  const request = converted(
    {
      status: {
        conditions: [
          { type: 'Approved', reason: 'r' },
          { type: 'Failed', status: 'False' },
        ],
      },
    },
    'certificates.k8s.io/v1beta1',
    'certificates.k8s.io/v1',
    'CertificateSigningRequest',
  )
  t.same(request?.['status'], {
    conditions: [
      { type: 'Approved', status: 'True', reason: 'r' },
      { type: 'Failed', status: 'False' },
    ],
  })
  t.end()
})

void t.test('a definition whose versions share too much cannot be converted', (t) => {
  const validation = { openAPIV3Schema: { description: 'x'.repeat(30_000) } }
  const convertOf = (length: number): unknown => {
    const versions = Array.from({ length }, (_, i) => ({ name: `v${i + 1}`, served: true, storage: i === 0 }))
    const from = 'apiextensions.k8s.io/v1beta1'
    return converted({ spec: { validation, versions } }, from, 'apiextensions.k8s.io/v1', 'CustomResourceDefinition')
  }
  t.ok(convertOf(100))
  t.throws(() => convertOf(1_000), { name: 'CodecError', code: 'too-large' })
  t.end()
})
