/**
 * A second set of definitions, modelled on what delivery, mesh, gateway, composition and autoscaling controllers
 * install: cases that the first set does not cover.
 */
import type { Change } from '../definition-set.js'
import {
  AGE,
  anything,
  bytes,
  column,
  conditionColumn,
  conditions,
  dateTime,
  type Definition,
  flag,
  int32,
  integer,
  type JsonObject,
  listBy,
  listOf,
  mapOf,
  object,
  text,
} from '../../support/definition.js'
import { markNumber } from '../lossless.js'

const texts = listOf(text)
const textMap = mapOf(text)
const intOrString: JsonObject = {
  anyOf: [{ type: 'integer' }, { type: 'string' }],
  'x-kubernetes-int-or-string': true,
}
const status = { status: {} } as const

const helm = object({
  valueFiles: texts,
  parameters: listOf(object({ name: text, value: text, forceString: flag })),
  valuesObject: anything,
  skipCrds: flag,
})
const source = object(
  { repoURL: text, path: text, targetRevision: text, chart: text, ref: text, helm },
  { required: ['repoURL'] },
)

/** No subresources; a member next to spec and status; column names with spaces; lists of lists of options. */
const applications: Definition = {
  group: 'deploy.example.org',
  kind: 'Application',
  plural: 'applications',
  shortNames: ['app', 'apps', 'applicationsindeploymentpipelines'],
  scope: 'Namespaced',
  versions: [
    {
      name: 'v1alpha1',
      storage: true,
      schema: object(
        {
          apiVersion: text,
          kind: text,
          metadata: object({ name: { ...text, maxLength: 200 } }),
          spec: object(
            {
              project: text,
              source,
              sources: listOf(source),
              destination: object({ server: text, namespace: text, name: text }),
              syncPolicy: object({
                automated: object({ prune: flag, selfHeal: flag }),
                syncOptions: texts,
                retry: object({
                  limit: integer,
                  backoff: object({ duration: text, factor: integer, maxDuration: text }),
                }),
              }),
              ignoreDifferences: listOf(
                object({ group: text, kind: text, jsonPointers: texts }, { required: ['kind'] }),
              ),
              revisionHistoryLimit: integer,
            },
            { required: ['destination', 'project'] },
          ),
          operation: object({ initiatedBy: object({ username: text }), sync: object({ revision: text }) }),
          status: object({
            conditions: listOf(object({ type: text, message: text }, { required: ['type', 'message'] })),
            health: object({ status: text }),
            history: listOf(object({ id: integer, revision: text, deployedAt: dateTime }, { required: ['id'] })),
            reconciledAt: dateTime,
            sync: object({ status: text, revision: text, comparedTo: object({ source }) }, { required: ['status'] }),
          }),
        },
        { required: ['metadata', 'spec'] },
      ),
      subresources: {},
      selectableFields: ['.spec.project', '.spec.destination.namespace'],
      additionalPrinterColumns: [
        column('Sync Status', 'string', '.status.sync.status'),
        column('Health Status', 'string', '.status.health.status'),
        column('Revision', 'string', '.status.sync.revision', { priority: 10 }),
        column('Deployed', 'date', '.status.history[-1:].deployedAt'),
        column('Ids', 'integer', '.status.history[*].id', { priority: 1 }),
      ],
    },
  ],
}

const route = object({
  name: text,
  match: listOf(
    object({
      uri: object(
        { exact: text, prefix: text, regex: text },
        {
          oneOf: [
            { not: { anyOf: [{ required: ['exact'] }, { required: ['prefix'] }] } },
            { required: ['exact'] },
            { required: ['prefix'] },
          ],
        },
      ),
      headers: mapOf(object({ exact: text, regex: text })),
    }),
  ),
  route: listOf(
    object(
      {
        destination: object({
          host: text,
          port: object({ number: { type: 'integer', maximum: 4_294_967_295, minimum: 0 } }),
        }),
        weight: int32,
      },
      { required: ['destination'] },
    ),
  ),
  timeout: {
    type: 'string',
    'x-kubernetes-validations': [{ rule: "self == '' || duration(self) >= duration('1ms')", message: 'too short' }],
  },
  retries: object({ attempts: int32, retryRemoteLocalities: { ...flag, nullable: true } }, { nullable: true }),
})

const virtualService: JsonObject = object({
  spec: object({
    hosts: texts,
    gateways: texts,
    exportTo: texts,
    http: listOf(route),
    tcp: listOf(object({ match: listOf(object({ port: { type: 'integer' }, sourceLabels: textMap })) })),
  }),
  status: anything,
})
const meshColumns = [
  column('Gateways', 'string', '.spec.gateways', { description: 'The names of gateways that apply these routes.' }),
  column('Hosts', 'string', '.spec.hosts', { description: 'The destination hosts.' }),
  { ...AGE, description: 'When it was created.' },
]

/**
 * Three versions with the same schema, the middle one stored; a free-form status; oneOf, nullable and rules in lists.
 */
const virtualServices: Definition = {
  group: 'networking.mesh.example.org',
  kind: 'VirtualService',
  plural: 'virtualservices',
  shortNames: ['vs'],
  categories: ['mesh', 'networking-mesh'],
  scope: 'Namespaced',
  versions: ['v1alpha3', 'v1beta1', 'v1'].map((name) => ({
    name,
    storage: name === 'v1beta1',
    schema: virtualService,
    subresources: status,
    additionalPrinterColumns: meshColumns,
    ...(name === 'v1alpha3' ? { deprecated: true } : {}),
  })),
}

const parentReference = {
  group: { ...text, default: 'gateway.example.org', maxLength: 253 },
  kind: { ...text, default: 'Gateway' },
  namespace: text,
  name: text,
  sectionName: text,
  port: int32,
}
const backend = {
  group: { ...text, default: '' },
  kind: { ...text, default: 'Service' },
  name: text,
  port: int32,
  weight: { ...int32, default: 1 },
}
const pathMatch: JsonObject = object(
  { type: { ...text, default: 'PathPrefix' }, value: { ...text, default: '/', maxLength: 1024 } },
  { default: { type: 'PathPrefix', value: '/' } },
)

function httpRoute(more: JsonObject = {}): JsonObject {
  const rules = {
    ...listOf(
      object({
        matches: {
          ...listOf(
            object({
              path: pathMatch,
              method: text,
              headers: listBy(
                'name',
                object(
                  { name: text, value: text, type: { ...text, default: 'Exact' } },
                  { required: ['name', 'value'] },
                ),
              ),
            }),
          ),
          default: [{ path: { type: 'PathPrefix', value: '/' } }],
          maxItems: 64,
        },
        filters: listOf(object({ type: text, extensionRef: object({ name: text }) }, { required: ['type'] })),
        backendRefs: listOf(object({ ...backend, filters: listOf(object({ type: text })) }, { required: ['name'] })),
        timeouts: object({ request: { ...text, pattern: '^([0-9]{1,5}(h|m|s|ms)){1,4}$' } }),
      }),
    ),
    default: [{ matches: [{ path: { type: 'PathPrefix', value: '/' } }] }],
    maxItems: 16,
  }
  return object(
    {
      spec: object({
        hostnames: { ...texts, 'x-kubernetes-list-type': 'set' },
        parentRefs: { ...listOf(object(parentReference, { required: ['name'] })), 'x-kubernetes-list-type': 'atomic' },
        rules,
        ...more,
      }),
      status: object(
        {
          parents: listOf(
            object(
              { conditions, controllerName: text, parentRef: object(parentReference, { required: ['name'] }) },
              { required: ['controllerName', 'parentRef'] },
            ),
          ),
        },
        { required: ['parents'], default: { parents: [] } },
      ),
    },
    { required: ['spec'] },
  )
}

/** Defaults in lists within lists, a default status, an older version with a warning. */
const httpRoutes: Definition = {
  group: 'gateway.example.org',
  kind: 'HTTPRoute',
  plural: 'httproutes',
  categories: ['gateway-api'],
  scope: 'Namespaced',
  versions: [
    {
      name: 'v1',
      storage: true,
      schema: httpRoute(),
      subresources: status,
      additionalPrinterColumns: [column('Hostnames', 'string', '.spec.hostnames'), AGE],
    },
    {
      name: 'v1beta1',
      deprecated: true,
      deprecationWarning: 'The v1beta1 version of HTTPRoute has been deprecated and will be removed, "v1" is there',
      schema: httpRoute({ useDefaultGateways: { ...text, default: 'None' } }),
      subresources: status,
      additionalPrinterColumns: [column('Hostnames', 'string', '.spec.hostnames[0]'), AGE],
    },
  ],
}

/** Columns with filters in both kinds of quotes, bytes, maps of lists, nested fields to select by. */
const requests: Definition = {
  group: 'certs.example.org',
  kind: 'CertificateRequest',
  plural: 'certificaterequests',
  shortNames: ['cr', 'crs'],
  categories: ['certs'],
  scope: 'Namespaced',
  versions: [
    {
      name: 'v1',
      storage: true,
      schema: object({
        spec: object(
          {
            duration: text,
            request: bytes,
            extra: mapOf(texts),
            groups: { ...texts, 'x-kubernetes-list-type': 'atomic' },
            isCA: flag,
            issuerRef: object({ group: text, kind: text, name: text }, { required: ['name'] }),
            username: text,
            serial: { ...integer, default: markNumber('9007199254740993') },
            limits: mapOf({ ...integer, default: markNumber('9223372036854775807') }),
            share: { type: 'number', default: markNumber('0.10') },
          },
          { required: ['issuerRef', 'request'] },
        ),
        status: object({
          conditions,
          certificate: bytes,
          failureTime: dateTime,
        }),
      }),
      subresources: status,
      selectableFields: [
        '.spec.issuerRef.group',
        '.spec.issuerRef.kind',
        '.spec.issuerRef.name',
        '.spec.isCA',
        '.spec.serial',
      ],
      additionalPrinterColumns: [
        column('Approved', 'string', '.status.conditions[?(@.type == "Approved")].status'),
        conditionColumn('Denied', 'Denied'),
        conditionColumn('Ready', 'Ready'),
        column('Issuer', 'string', '.spec.issuerRef.name'),
        column('Requester', 'string', '.spec.username'),
        column('Status', 'string', '.status.conditions[?(@.type=="Ready")].message', { priority: 1 }),
        column('Serial', 'integer', '.spec.serial', { priority: 1 }),
        column('Failed', 'date', '.status.failureTime', { priority: 1 }),
        AGE,
      ],
    },
  ],
}

const composite: JsonObject = object(
  {
    spec: object(
      {
        compositionRef: object({ name: text }, { required: ['name'] }),
        compositionSelector: object({ matchLabels: textMap }, { required: ['matchLabels'] }),
        compositionUpdatePolicy: { ...text, enum: ['Automatic', 'Manual'], default: 'Automatic' },
        resourceRefs: {
          ...listOf(object({ apiVersion: text, kind: text, name: text }, { required: ['apiVersion', 'kind'] })),
          'x-kubernetes-list-type': 'atomic',
        },
        parameters: object({ storageGB: { type: 'integer' }, version: { type: 'number' }, size: intOrString }),
        writeConnectionSecretToRef: object({ name: text, namespace: text }, { required: ['name', 'namespace'] }),
      },
      { required: ['parameters'] },
    ),
    status: object(
      { conditions, connectionDetails: object({ lastPublishedTime: dateTime }) },
      { 'x-kubernetes-preserve-unknown-fields': true },
    ),
  },
  { required: ['spec'] },
)

/** Cluster-scoped, stored in a version that is no longer served, long names. */
const composites: Definition = {
  group: 'database.platform.example.org',
  kind: 'CompositePostgreSQLInstance',
  plural: 'compositepostgresqlinstances',
  shortNames: ['xpostgresqlinstance', 'xpostgresqlinstancesofthewholeplatform'],
  categories: ['composite', 'managed', 'platform'],
  scope: 'Cluster',
  conversion: { strategy: 'None' },
  versions: [
    {
      name: 'v1alpha1',
      storage: true,
      served: false,
      schema: { ...composite, description: 'As of old.' },
    },
    {
      name: 'v1beta1',
      schema: composite,
      subresources: status,
      additionalPrinterColumns: [
        conditionColumn('SYNCED', 'Synced'),
        conditionColumn('READY', 'Ready'),
        column('COMPOSITION', 'string', '.spec.compositionRef.name'),
        column('CONNECTION-SECRET', 'string', '.spec.writeConnectionSecretToRef.name', { priority: 1 }),
        column('SIZE', 'string', '.spec.parameters.size'),
        column('VERSION', 'number', '.spec.parameters.version', { format: 'double' }),
        column('AGE', 'date', '.metadata.creationTimestamp'),
      ],
      selectableFields: ['.spec.compositionUpdatePolicy', '.spec.compositionRef.name'],
    },
  ],
}

/** A scale with custom paths, columns over every trigger, maps of objects in the status. */
const scaledObjects: Definition = {
  group: 'autoscale.example.org',
  kind: 'ScaledObject',
  plural: 'scaledobjects',
  shortNames: ['so'],
  scope: 'Namespaced',
  versions: [
    {
      name: 'v1alpha1',
      storage: true,
      schema: object(
        {
          spec: object(
            {
              scaleTargetRef: object(
                { apiVersion: text, kind: text, name: text, envSourceContainerName: text },
                { required: ['name'] },
              ),
              pollingInterval: { ...int32, default: 30 },
              minReplicaCount: int32,
              maxReplicaCount: int32,
              workers: object({ count: { ...int32, default: 2 } }),
              fallback: object({ failureThreshold: int32, replicas: int32 }),
              advanced: object({
                restoreToOriginalReplicaCount: flag,
                behavior: object({
                  scaleDown: object({
                    stabilizationWindowSeconds: { ...int32, nullable: true },
                    policies: {
                      ...listOf(object({ type: text, value: int32, periodSeconds: { ...int32, default: 15 } })),
                      'x-kubernetes-list-type': 'atomic',
                    },
                  }),
                }),
              }),
              triggers: listOf(
                object(
                  {
                    type: text,
                    name: text,
                    useCachedMetrics: flag,
                    metadata: textMap,
                    authenticationRef: object({ name: text, kind: text }),
                  },
                  { required: ['type', 'metadata'] },
                ),
              ),
            },
            { required: ['scaleTargetRef', 'triggers'] },
          ),
          status: object({
            conditions: listOf(
              object({ type: text, status: text, reason: text, message: text }, { required: ['type', 'status'] }),
            ),
            health: mapOf(object({ numberOfFailures: int32, status: { ...text, default: 'Happy' } })),
            externalMetricNames: texts,
            originalReplicaCount: int32,
            lastActiveTime: dateTime,
            workers: object({ ready: int32, selector: text }),
          }),
        },
        { required: ['spec'] },
      ),
      subresources: {
        status: {},
        scale: {
          specReplicasPath: '.spec.workers.count',
          statusReplicasPath: '.status.workers.ready',
          labelSelectorPath: '.status.workers.selector',
        },
      },
      selectableFields: [
        '.spec.scaleTargetRef.name',
        '.spec.maxReplicaCount',
        '.spec.advanced.restoreToOriginalReplicaCount',
      ],
      additionalPrinterColumns: [
        column('ScaleTargetName', 'string', '.spec.scaleTargetRef.name'),
        column('Min', 'integer', '.spec.minReplicaCount'),
        column('Max', 'integer', '.spec.maxReplicaCount'),
        column('Triggers', 'string', '.spec.triggers[*].type'),
        column('Authentication', 'string', '.spec.triggers[*].authenticationRef.name'),
        column('Ready', 'string', '.status.conditions[?(@.type=="Ready")].status'),
        column('Active', 'string', '.status.conditions[?(@.type=="Active")].status'),
        column('Fallback', 'string', '.status.conditions[?(@.type=="Fallback")].status'),
        column('Failures', 'integer', '.status.health.s0.numberOfFailures', { priority: 1 }),
        column('LastActive', 'date', '.status.lastActiveTime'),
        AGE,
      ],
    },
  ],
}

/** Nested objects: whole embedded ones, nullable, in lists and in maps, with declared parts. */
const bundles: Definition = {
  group: 'bundle.example.org',
  kind: 'Bundle',
  plural: 'bundles',
  scope: 'Namespaced',
  versions: [
    {
      name: 'v1',
      storage: true,
      schema: object({
        spec: object({
          encryptedData: { ...textMap, 'x-kubernetes-preserve-unknown-fields': true },
          template: object(
            {
              data: { ...textMap, nullable: true },
              immutable: flag,
              metadata: { ...anything, nullable: true },
              type: text,
            },
            { nullable: true },
          ),
          resources: listOf({
            ...anything,
            'x-kubernetes-embedded-resource': true,
            nullable: true,
          }),
          byName: mapOf(
            object(
              { spec: object({ on: { ...flag, default: true }, note: { ...text, nullable: true } }) },
              { 'x-kubernetes-embedded-resource': true },
            ),
          ),
          job: object(
            { spec: object({ template: { ...anything, 'x-kubernetes-embedded-resource': true } }) },
            { 'x-kubernetes-embedded-resource': true, nullable: true },
          ),
          steps: listBy(
            'name',
            object(
              { name: text, with: { ...anything, nullable: true }, timeout: { ...intOrString, default: '1m' } },
              { required: ['name'] },
            ),
          ),
          selector: {
            ...object({
              matchLabels: textMap,
              matchExpressions: listOf(object({ key: text, operator: text, values: texts })),
            }),
            'x-kubernetes-map-type': 'atomic',
          },
        }),
        status: { ...anything, properties: { observed: integer, phase: { ...text, default: 'Pending' } } },
      }),
      subresources: { status: {} },
      selectableFields: ['.status.phase', '.spec.template.immutable'],
      additionalPrinterColumns: [
        column('Synced', 'string', '.status.conditions[?(@.type=="Synced")].status'),
        column('Kinds', 'string', '.spec.resources[*].kind'),
        column('Steps', 'string', '.spec.steps[?(@.timeout)].name'),
        column('First', 'string', '.spec.steps[0].with'),
        column('Second', 'string', '.spec.steps[1:].name'),
        column('Type', 'string', '.spec.template.type'),
        column('Observed', 'integer', '.status.observed'),
        AGE,
      ],
    },
  ],
}

/** Versions whose order differs from that of their names; one with the same schema as its neighbour. */
const versions: Definition = {
  group: 'many.tools-2.example.org',
  kind: 'Tool',
  plural: 'tools',
  scope: 'Cluster',
  versions: ['v2', 'v10', 'v11beta2', 'v10beta3', 'v3beta1', 'v12alpha1', 'v11alpha2', 'foo1', 'foo10', 'v1'].map(
    (name) => ({
      name,
      storage: name === 'v3beta1',
      served: name !== 'v11alpha2',
      ...(name.startsWith('foo') ? { deprecated: true } : {}),
      schema: name === 'v1' ? object({ spec: object({ size: intOrString }) }) : anything,
      additionalPrinterColumns: [column('Size', name === 'v2' ? 'integer' : 'string', '.spec.size')],
    }),
  ),
}

/** A second kind in an existing group, without objects. */
const projects: Definition = {
  group: 'deploy.example.org',
  kind: 'AppProject',
  plural: 'appprojects',
  shortNames: ['appproj', 'appprojs'],
  categories: ['all'],
  scope: 'Namespaced',
  versions: [
    { name: 'v1alpha1', storage: true, schema: object({ spec: object({ description: text }) }) },
    { name: 'v1', schema: object({ spec: anything }) },
  ],
}

export const definitions: readonly Definition[] = [
  applications,
  virtualServices,
  httpRoutes,
  requests,
  composites,
  scaledObjects,
  bundles,
  versions,
  projects,
]

/** Changes of definitions while watches run. */
export const changes: readonly Change[] = [
  {
    what: 'what is stored is pruned by a narrower schema, and a column filters',
    definition: {
      ...scaledObjects,
      versions: scaledObjects.versions.map((version) => ({
        ...version,
        schema: object({
          spec: object({
            scaleTargetRef: object({ name: text, kind: { ...text, default: 'Deployment' } }),
            maxReplicaCount: { ...int32, default: 100 },
            triggers: listOf(object({ type: text, metricType: { ...text, default: 'AverageValue' } })),
          }),
          status: anything,
        }),
        subresources: { status: {} },
        selectableFields: ['.spec.scaleTargetRef.kind', '.spec.maxReplicaCount'],
        additionalPrinterColumns: [
          column('Cron', 'string', '.spec.triggers[?(@.type=="cron")].metricType'),
          column('Max', 'string', '.spec.maxReplicaCount'),
        ],
      })),
    },
  },
  {
    what: 'the version that is stored and the one that is served come together',
    definition: {
      ...composites,
      versions: composites.versions.map((version) => ({
        ...version,
        served: true,
        storage: version.name === 'v1beta1',
        ...(version.name === 'v1alpha1' ? { deprecated: true } : {}),
      })),
    },
  },
  {
    what: 'unknown fields are kept from now on',
    definition: {
      ...httpRoutes,
      versions: httpRoutes.versions.map((version) => ({ ...version, schema: anything })),
    },
  },
  { what: 'one is deleted with all that was made of it', definition: virtualServices, isDeleted: true },
]
