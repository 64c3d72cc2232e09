/**
 * Custom resource definitions like those in real clusters; the comment before each says what it covers. They follow the
 * shapes of certificate, gateway and rollout controllers, but none is copied.
 */
import type { Change } from '../definition-set.js'
import {
  AGE,
  anything,
  column,
  conditions,
  dateTime,
  type Definition,
  flag,
  int32,
  integer,
  listBy,
  listOf,
  mapOf,
  object,
  text,
} from '../../support/definition.js'

/**
 * Two served versions without conversion, defaults in both, pruning, status, short names: as in certificate managers.
 */
const certificates: Definition = {
  group: 'pki.example.com',
  kind: 'Certificate',
  plural: 'certificates',
  shortNames: ['cert', 'certs'],
  categories: ['pki', 'all'],
  scope: 'Namespaced',
  conversion: { strategy: 'None' },
  versions: [
    {
      name: 'v1alpha1',
      deprecated: true,
      deprecationWarning: 'pki.example.com/v1alpha1 Certificate is deprecated; use "pki.example.com/v1"',
      schema: object({
        spec: object({
          secretName: text,
          duration: { ...text, default: '24h' },
          dnsNames: listOf(text),
          legacy: { ...flag, default: true },
        }),
        status: object({ conditions }),
      }),
      subresources: { status: {} },
      selectableFields: ['.spec.secretName'],
    },
    {
      name: 'v1',
      storage: true,
      schema: object({
        spec: object(
          {
            secretName: { ...text, description: 'Where the key pair goes.' },
            duration: { ...text, default: '2160h' },
            renewBefore: text,
            dnsNames: listOf(text),
            revisionHistoryLimit: integer,
            privateKey: object(
              { algorithm: { ...text, enum: ['RSA', 'ECDSA'], default: 'RSA' }, size: { ...integer, default: 2048 } },
              { default: {} },
            ),
            issuerRef: object({ name: text, kind: { ...text, default: 'Issuer' } }),
            usages: listOf(object({ name: text, critical: { ...flag, default: false } })),
          },
          { required: ['secretName'] },
        ),
        status: object({ conditions, notAfter: dateTime, revision: integer }),
      }),
      subresources: { status: {} },
      selectableFields: ['.spec.secretName', '.spec.issuerRef.kind'],
      additionalPrinterColumns: [
        column('Ready', 'string', '.status.conditions[?(@.type=="Ready")].status'),
        column('Secret', 'string', '.spec.secretName', { description: 'Of the key pair.' }),
        column('Issuer', 'string', '.spec.issuerRef.name', { priority: 1 }),
        column('Expires', 'date', '.status.notAfter'),
        AGE,
      ],
    },
  ],
}

/**
 * Stored in a version older than the newest served one; one version that is not served; a deprecation without a warning
 * text.
 */
const gateways: Definition = {
  group: 'net.example.com',
  kind: 'Gateway',
  plural: 'gateways',
  shortNames: ['gtw'],
  scope: 'Namespaced',
  versions: [
    { name: 'v1alpha2', served: false, deprecated: true },
    {
      name: 'v1beta1',
      storage: true,
      deprecated: true,
      schema: object({
        spec: object({
          className: text,
          listeners: listBy(
            'name',
            object(
              {
                name: text,
                port: int32,
                protocol: { ...text, default: 'HTTP' },
              },
              { required: ['name'] },
            ),
          ),
          infrastructure: anything,
        }),
        status: object({ conditions, addresses: listOf(object({ type: text, value: text })) }),
      }),
      subresources: { status: {} },
      additionalPrinterColumns: [
        column('Class', 'string', '.spec.className'),
        column('Ports', 'string', '.spec.listeners[*].port'),
        column('Address', 'string', '.status.addresses[0].value'),
        AGE,
      ],
    },
    {
      name: 'v1',
      schema: object({
        spec: object({
          className: { ...text, default: 'standard' },
          listeners: listOf(object({ name: text, port: int32 })),
          port: { 'x-kubernetes-int-or-string': true },
        }),
      }),
      subresources: { status: {} },
      selectableFields: ['.spec.className'],
    },
  ],
}

/** Scale and status, a label selector in the scale, whole embedded templates. */
const rollouts: Definition = {
  group: 'flow.example.com',
  kind: 'Rollout',
  plural: 'rollouts',
  shortNames: ['ro'],
  categories: ['all'],
  scope: 'Namespaced',
  versions: [
    {
      name: 'v1',
      storage: true,
      schema: object({
        spec: object({
          replicas: { ...int32, default: 1 },
          paused: flag,
          maxSurge: { 'x-kubernetes-int-or-string': true, default: '25%' },
          template: {
            type: 'object',
            'x-kubernetes-embedded-resource': true,
            'x-kubernetes-preserve-unknown-fields': true,
          },
          strategy: object({
            canary: object({ steps: listOf(anything) }),
          }),
        }),
        status: object({ replicas: { type: 'integer' }, selector: text, phase: text, conditions }),
      }),
      subresources: {
        status: {},
        scale: {
          specReplicasPath: '.spec.replicas',
          statusReplicasPath: '.status.replicas',
          labelSelectorPath: '.status.selector',
        },
      },
      selectableFields: ['.spec.paused', '.spec.replicas', '.status.phase'],
      additionalPrinterColumns: [
        column('Desired', 'integer', '.spec.replicas'),
        column('Current', 'integer', '.status.replicas'),
        column('Phase', 'string', '.status.phase'),
        column('Paused', 'boolean', '.spec.paused'),
        AGE,
      ],
    },
  ],
}

/** Every type and format of a printer column, and the JSONPath features that columns use. */
const samples: Definition = {
  group: 'types.example.com',
  kind: 'Sample',
  plural: 'samples',
  scope: 'Cluster',
  versions: [
    {
      name: 'v1',
      storage: true,
      schema: anything,
      additionalPrinterColumns: [
        column('Int', 'integer', '.spec.integer', { format: 'int64' }),
        column('Int32', 'integer', '.spec.small', { format: 'int32' }),
        column('Float', 'number', '.spec.float', { format: 'float' }),
        column('Double', 'number', '.spec.double', { format: 'double' }),
        column('Bool', 'boolean', '.spec.flag'),
        column('Text', 'string', '.spec.text'),
        column('Bytes', 'string', '.spec.bytes', { format: 'byte' }),
        column('Password', 'string', '.spec.password', { format: 'password', priority: 1 }),
        column('Moment', 'string', '.spec.moment', { format: 'date-time' }),
        column('Since', 'date', '.spec.moment'),
        column('Array', 'string', '.spec.list'),
        column('Object', 'string', '.spec.map'),
        column('First', 'string', '.spec.list[0]'),
        column('Last', 'string', '.spec.list[-1:]'),
        column('Slice', 'string', '.spec.list[0:2]'),
        column('Step', 'string', '.spec.list[0:4:2]'),
        column('Union', 'string', ".spec['text','integer']"),
        column('Dotted', 'string', ".metadata.annotations['example\\.com/dotted']"),
        column('Quoted', 'string', ".spec.map['a.b']"),
        column('Deep', 'string', '.spec.items..name'),
        column('Above', 'string', '.spec.items[?(@.size>3)].name'),
        column('AtMost', 'string', '.spec.items[?(@.size<=3)].name'),
        column('Having', 'string', '.spec.items[?(@.extra)].name'),
        column('NotOne', 'string', '.spec.items[?(@.name!="one")].size'),
        column('All', 'string', '.spec.items[*].name'),
        column('Null', 'string', '.spec.nothing'),
        column('IntOfText', 'integer', '.spec.text'),
        column('TextOfInt', 'string', '.spec.integer'),
        column('BoolOfText', 'boolean', '.spec.text'),
        column('NumberOfInt', 'number', '.spec.integer'),
        column('IntOfNumber', 'integer', '.spec.double'),
        column('Root', 'string', '.kind'),
        AGE,
      ],
    },
  ],
}

/** Hundreds of objects of any shape, with finalizers, owners and managed fields; no printer columns. */
const records: Definition = {
  group: 'data.example.com',
  kind: 'Record',
  plural: 'records',
  singular: 'record',
  shortNames: ['rec'],
  scope: 'Namespaced',
  versions: [{ name: 'v1', storage: true, schema: anything }],
}

/** Cluster-scoped, two versions; the older one is stored. */
const zones: Definition = {
  group: 'data.example.com',
  kind: 'Zone',
  plural: 'zones',
  scope: 'Cluster',
  versions: [
    {
      name: 'v1beta1',
      storage: true,
      schema: object({
        spec: object({
          region: text,
          weight: integer,
          limits: mapOf(integer),
          note: { ...text, nullable: true, default: 'none' },
          tags: { ...listOf(text), default: ['a', 'b'] },
        }),
      }),
      selectableFields: ['.spec.region', '.spec.note'],
      additionalPrinterColumns: [
        column('Region', 'string', '.spec.region'),
        column('Weight', 'integer', '.spec.weight'),
      ],
    },
    {
      name: 'v1',
      schema: object({
        spec: object({
          region: { ...text, default: 'anywhere' },
          weight: integer,
          quota: object({ cpu: { ...integer, default: 4 }, memory: text }, { default: { memory: '1Gi' } }),
          note: { ...text, default: 'some' },
        }),
      }),
      selectableFields: ['.spec.region', '.spec.quota.cpu', '.spec.note'],
    },
  ],
}

/** Everything that a schema does to an object on read, in both versions. */
const shapes: Definition = {
  group: 'shape.example.com',
  kind: 'Shape',
  plural: 'shapes',
  scope: 'Cluster',
  versions: [
    {
      name: 'v1',
      storage: true,
      schema: object({
        spec: object(
          {
            port: { 'x-kubernetes-int-or-string': true, default: 80 },
            ratio: { type: 'number', default: 1.5 },
            count: { ...integer, nullable: true, default: 3 },
            name: text,
            maybe: { ...text, nullable: true },
            anything: mapOf(true),
            texts: mapOf(text),
            counts: mapOf({ ...integer, default: 7 }),
            nested: mapOf(object({ on: { ...flag, default: true } })),
            items: listOf(object({ name: text, weight: { ...integer, default: 1 } })),
            numbers: listOf({ ...integer, default: 5 }),
            words: listOf(text),
            matrix: listOf(listOf(object({ x: integer }))),
            open: {
              type: 'object',
              'x-kubernetes-preserve-unknown-fields': true,
              properties: { closed: object({ a: { ...text, default: 'a' } }), list: listOf(object({ b: text })) },
            },
            template: object(
              { spec: object({ a: text }), replicas: { ...integer, default: 2 } },
              { 'x-kubernetes-embedded-resource': true },
            ),
            templates: listOf(object({ spec: object({}) }, { 'x-kubernetes-embedded-resource': true })),
            made: object({ deep: object({ er: { ...text, default: 'x' } }, { default: {} }) }, { default: {} }),
          },
          { default: { name: 'by default' } },
        ),
        status: object({ replicas: integer }),
      }),
      subresources: { scale: { specReplicasPath: '.spec.count', statusReplicasPath: '.status.replicas' } },
      selectableFields: ['.spec.name', '.spec.count', '.spec.made.deep.er'],
      additionalPrinterColumns: [
        column('Port', 'string', '.spec.port'),
        column('Count', 'integer', '.spec.count'),
        column('Deep', 'string', '.spec.made.deep.er'),
      ],
    },
    {
      name: 'v1beta1',
      deprecated: true,
      schema: object({
        spec: object({ name: { ...text, default: 'of beta' }, count: integer, maybe: text, texts: object({}) }),
      }),
      selectableFields: ['.spec.name'],
    },
  ],
}

/** A definition without objects. */
const policies: Definition = {
  group: 'none.example.com',
  kind: 'Policy',
  plural: 'policies',
  shortNames: ['pol'],
  categories: ['policies'],
  scope: 'Cluster',
  versions: [{ name: 'v1', storage: true }, { name: 'v2alpha1' }],
}

/** Converted by a webhook that cannot be reached: objects stored in the other version cannot be shown. */
const hooks: Definition = {
  group: 'conv.example.com',
  kind: 'Hook',
  plural: 'hooks',
  scope: 'Namespaced',
  conversion: {
    strategy: 'Webhook',
    webhook: { conversionReviewVersions: ['v1'], clientConfig: { url: 'https://127.0.0.1:1/convert' } },
  },
  versions: [{ name: 'v1', storage: true }, { name: 'v2' }],
}

/** Asks for a kind that another definition of the group has: its names are not accepted, and it is not served. */
const pretenders: Definition = {
  group: 'flow.example.com',
  kind: 'Rollout',
  plural: 'pretenders',
  isRefused: true,
  singular: 'pretender',
  scope: 'Namespaced',
  versions: [{ name: 'v1', storage: true }],
}

export const definitions: readonly Definition[] = [
  certificates,
  gateways,
  rollouts,
  samples,
  records,
  zones,
  shapes,
  policies,
  hooks,
  pretenders,
]

/** Changes of the definition while watches run: an added column, a different default, a field that becomes pruned. */
export const changes: readonly Change[] = [
  {
    what: 'a new column and another default',
    definition: {
      ...certificates,
      versions: certificates.versions.map((version) =>
        version.name === 'v1'
          ? {
              ...version,
              selectableFields: ['.spec.secretName', '.spec.added'],
              additionalPrinterColumns: [
                column('Secret', 'string', '.spec.secretName'),
                column('Duration', 'string', '.spec.duration'),
              ],
              schema: object({
                spec: object({
                  secretName: { ...text, default: 'unnamed' },
                  duration: { ...text, default: '1h' },
                  added: { ...text, default: 'later' },
                }),
                status: object({ conditions }),
              }),
            }
          : version,
      ),
    },
  },
  {
    what: 'the stored version moves on, and the older one is deprecated',
    definition: {
      ...zones,
      versions: zones.versions.map((version) => ({
        ...version,
        storage: version.name === 'v1',
        ...(version.name === 'v1beta1' ? { deprecated: true, deprecationWarning: 'zones move to v1' } : {}),
      })),
    },
  },
  {
    what: 'a schema where there was none, so that unknown fields go',
    definition: {
      ...records,
      versions: [
        {
          name: 'v1',
          storage: true,
          schema: object({
            spec: object({ tier: text, owner: text, added: { ...text, default: 'by a change' } }),
            data: mapOf(text),
          }),
          subresources: { status: {} },
        },
        { name: 'v2' },
      ],
    },
  },
  {
    what: 'an older version is no longer served',
    definition: {
      ...gateways,
      versions: gateways.versions.map((version) => ({ ...version, served: version.name === 'v1' })),
    },
  },
]
