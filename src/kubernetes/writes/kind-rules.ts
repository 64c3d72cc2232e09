/**
 * The rules for writes to a served resource: the shape and schema of its objects, its subresources, and the few
 * things that an API server itself does to some built-in kinds. Built-in kinds get their defaults. Only the names and
 * types of their members are validated, and there are no admission plugins, because both belong to a kube-apiserver.
 */
import { exactCopy } from '../codec/exact-json.js'
import {
  cloneTree,
  ensureRecord,
  equalTrees,
  goJson,
  isRecord,
  type JsonRecord,
  member,
  record,
  recordAt,
  recordsAt,
  textMember,
  treeFrom,
} from '../codec/json-tree.js'
import type { DefinedSchema } from '../codec/defined-schema.js'
import { fillDefinition, storageVersionOf } from '../codec/versions/custom-resource-definition.js'
import { CodecError } from '../codec/protobuf/codec-error.js'
import { coerceEmbedded, fillDefaults, pruneNulls, pruneUnknown } from '../codec/structural-change.js'
import { readDefinition } from '../dialect/crd.js'
import type { ScalePaths, ServedResource } from '../dialect/resource-registry.js'
import { hasGeneration, isCreatedByPut, isPutVersioned, keptByStatus } from '../dialect/well-known-resources.js'
import { apiVersion, resourceId } from '../model/api-resource.js'
import { RequestEntityTooLargeError } from '../model/status.js'
import type { BuiltInDefaults } from './built-in-defaults.js'
import type { CanonicalForm } from './canonical-form.js'
import { unevaluatedRules, unevaluatedRulesOf } from './cel-rules.js'
import { configMapProblems, secretProblems } from './configuration-rules.js'
import { type FieldProblem, forbiddenField, invalid, notSupported, required } from './field-errors.js'
import { schemaProblem } from './schema-keywords.js'
import { dropUnknownFields } from './known-fields.js'
import { typeProblem } from './member-types.js'
import { labelProblem } from './object-names.js'
import { type BuiltInShapes, customShape, type Shape } from './shape.js'
import { oncePer } from '../../support/memo.js'

export interface KindRules {
  readonly shape: Shape
  /** The schema of a custom resource. */
  readonly schema: Readonly<Record<string, unknown>> | undefined
  readonly hasStatus: boolean
  /** As in `well-known-resources.ts`. A write of the status keeps all metadata of newer kinds. */
  readonly keptByStatus: readonly string[] | null
  readonly hasGeneration: boolean
  readonly scale: ScalePaths | null
  /** Whether an update must name the version that it replaces. */
  readonly requiresVersion: boolean
  /** Whether a PUT creates a missing object. */
  readonly createsOnUpdate: boolean
  /** Whether strategic merge patches are accepted. They exist only for kinds whose shape is built in. */
  readonly takesStrategicPatch: boolean
  /** Returns the problem with the first member of a wrong type; null if there is none. */
  readonly typeProblem: (object: JsonRecord) => string | null
  /** Removes what an object may not contain. @returns the removed paths. */
  readonly dropUnknown: (object: JsonRecord) => readonly string[]
  /** Fills in the defaults in place. */
  readonly fillDefaults: (object: JsonRecord) => void
  /** An object with no members set. */
  readonly empty: JsonRecord
}

const DEFINITIONS = 'customresourcedefinitions.apiextensions.k8s.io'

const SCOPES = ['Cluster', 'Namespaced']

export class KindRulebook {
  constructor(
    private readonly shapes: BuiltInShapes,
    private readonly defaults: BuiltInDefaults,
    private readonly form: CanonicalForm,
  ) {}

  readonly of = oncePer((served: ServedResource) => this.#make(served))

  #make(served: ServedResource): KindRules {
    const { resource, origin, subresources } = served
    const version = apiVersion(resource)
    const builtIn = origin === 'well-known' ? this.shapes.ofKind(version, resource.kind) : undefined
    const schema = origin === 'custom' ? served.schema : undefined
    // Only threads check written objects. Parsing a schema takes too long for the event loop, which only removes
    // objects.
    let shape = builtIn
    const shapeOf = (): Shape => (shape ??= customShape(schema?.parsed, this.shapes.objectMeta))
    return {
      typeProblem: (object) =>
        builtIn === undefined
          ? typeProblem(object['metadata'] ?? null, this.shapes.objectMeta)
          : typeProblem(object, builtIn),
      ...(schema === undefined
        ? {
            dropUnknown: (object) => dropUnknownFields(object, shapeOf()),
            fillDefaults: (object) => {
              if (origin === 'declared') return this.form.settleMetadata(object)
              if (builtIn === undefined) return this.form.settleCustom(object)
              // Go reads the values inside a schema (defaults, enums) as it reads custom resources.
              if (resourceId(resource) === DEFINITIONS) goJson(object)
              this.form.settle(version, resource.kind, object)
              this.defaults.fill(version, resource.kind, object)
            },
          }
        : this.#bySchema(schema, served.definition?.preservesUnknownFields ?? false)),
      get shape() {
        return shapeOf()
      },
      get schema() {
        return schema?.parsed
      },
      empty: builtIn === undefined ? record() : this.form.empty(version, resource.kind),
      hasStatus: subresources.status,
      keptByStatus: origin === 'well-known' ? keptByStatus(resource) : null,
      hasGeneration: origin !== 'well-known' || hasGeneration(resource),
      scale: subresources.scale,
      requiresVersion: origin === 'custom' || isPutVersioned(resource),
      createsOnUpdate: origin === 'declared' || isCreatedByPut(resource),
      takesStrategicPatch: builtIn !== undefined,
    }
  }

  /**
   * Does the same to objects of a definition as reads do (`kubernetes/codec/read-rules.ts`), and also reports what
   * was removed.
   */
  #bySchema(schema: DefinedSchema, keepsUnknown: boolean): Pick<KindRules, 'dropUnknown' | 'fillDefaults'> {
    return {
      dropUnknown: (object) => {
        const inMetadata = dropUnknownFields(object['metadata'] ?? null, this.shapes.objectMeta)
        const unknown = { path: [], found: inMetadata.map((path) => `metadata.${path}`) }
        if (!keepsUnknown) pruneUnknown(object, schema.structural, true, unknown)
        return unknown.found.sort()
      },
      fillDefaults: (object) => {
        this.form.settleCustom(object)
        coerceEmbedded(object, schema.structural)
        if (!keepsUnknown) pruneNulls(object, schema.structural)
        try {
          fillDefaults(object, schema.structural)
        } catch (error) {
          if (!(error instanceof CodecError)) throw error
          throw new RequestEntityTooLargeError(`Request entity too large: ${error.message}`)
        }
      },
    }
  }
}

/** The user with whose permissions a write happens. */
export interface Requester {
  readonly name: string
  readonly uid: string
  readonly groups: readonly string[]
  readonly extra: Readonly<Record<string, readonly string[]>>
}

/** The rules of one kind that no schema states: the fields that an API server sets, and the objects that it refuses. */
interface OwnRules {
  /**
   * Sets what the server itself adds.
   * @param before null for a new object. @param now RFC 3339. @param requester null if the server authenticates no one.
   */
  readonly prepare?: (object: JsonRecord, before: JsonRecord | null, now: string, requester: Requester | null) => void
  readonly problems?: (before: JsonRecord | null, after: JsonRecord, etcdPrefix: string) => readonly FieldProblem[]
}

const OWN_RULES: Readonly<Record<string, OwnRules>> = {
  namespaces: {
    prepare: (object, before) => {
      labelWithName(object)
      if (before === null) addFinalizer(object)
      else keepFinalizers(object, before)
    },
    problems: (before, after) => (before === null ? [] : phaseProblems(before, after)),
  },
  pods: {
    prepare: (object, before) => {
      if (before === null) object['status'] = record({ phase: 'Pending' })
    },
  },
  secrets: {
    prepare: foldStringData,
    problems: (before, after) => [...immutableProblems(before, after, ['data']), ...secretProblems(before, after)],
  },
  configmaps: {
    problems: (before, after) => [
      ...immutableProblems(before, after, ['data', 'binaryData']),
      ...configMapProblems(after),
    ],
  },
  'certificatesigningrequests.certificates.k8s.io': {
    prepare: (object, before, _now, requester) => {
      if (before === null) return setRequester(object, requester)
      object['spec'] = cloneTree(before['spec'] ?? null)
      keepVerdicts(object, before)
    },
    problems: (before, after) => (before === null ? [] : verdictProblems(before, after)),
  },
  'podcertificaterequests.certificates.k8s.io': {
    problems: (before, { spec = null }) =>
      before === null || equalTrees(before['spec'] ?? null, spec) ? [] : [invalid('spec', spec, 'field is immutable')],
  },
  [DEFINITIONS]: {
    prepare: (object, before, now) => {
      fillDefinition(object)
      if (before === null || !equalTrees(object['spec'], before['spec'])) establish(object, now)
    },
    problems: definitionProblems,
  },
}

export function ownRulesOf({ resource }: ServedResource): OwnRules {
  const id = resourceId(resource)
  return Object.hasOwn(OWN_RULES, id) ? OWN_RULES[id]! : {}
}

/** Signers issue certificates for the user in these fields, so they name the caller, whatever it sent. */
function setRequester(request: JsonRecord, requester: Requester | null): void {
  const spec = ensureRecord(request, 'spec')
  for (const field of ['username', 'uid', 'groups', 'extra']) delete spec[field]
  if (requester === null) return
  const { name, uid, groups, extra } = requester
  spec['username'] = name
  if (uid !== '') spec['uid'] = uid
  if (groups.length > 0) spec['groups'] = [...groups]
  if (Object.keys(extra).length > 0) spec['extra'] = treeFrom(extra)
}

/** The conditions that only the subresource `approval` changes, which this server does not serve. */
const VERDICTS = ['Approved', 'Denied']

const verdictsOf = (request: JsonRecord, verdict: string): readonly JsonRecord[] =>
  recordsAt(request, 'status', 'conditions').filter(({ type }) => type === verdict)

/** Restores changed verdicts. Those that were added or removed are a problem instead. */
function keepVerdicts(request: JsonRecord, before: JsonRecord): void {
  for (const verdict of VERDICTS) {
    const old = verdictsOf(before, verdict)
    const found = verdictsOf(request, verdict)
    if (old.length !== found.length) continue
    found.forEach((condition, i) => {
      for (const field in condition) delete condition[field]
      Object.assign(condition, cloneTree(old[i]!))
    })
  }
}

function verdictProblems(before: JsonRecord, request: JsonRecord): readonly FieldProblem[] {
  return VERDICTS.flatMap((verdict) => {
    const added = verdictsOf(request, verdict).length - verdictsOf(before, verdict).length
    if (added === 0) return []
    const what = added > 0 ? 'add' : 'remove'
    return [forbiddenField('status.conditions', `updates may not ${what} a condition of type "${verdict}"`)]
  })
}

function labelWithName(namespace: JsonRecord): void {
  const labels = ensureRecord(ensureRecord(namespace, 'metadata'), 'labels')
  labels['kubernetes.io/metadata.name'] = textMember(namespace, 'metadata', 'name')
}

/** Without the finalizer, an API server over the same etcd would delete the namespace without its contents. */
function addFinalizer(namespace: JsonRecord): void {
  const spec = ensureRecord(namespace, 'spec')
  const given = Array.isArray(spec['finalizers']) ? spec['finalizers'] : []
  spec['finalizers'] = given.includes('kubernetes') ? given : [...given, 'kubernetes']
}

/** Restores the finalizers, because only the subresource `finalize` changes them. */
function keepFinalizers(namespace: JsonRecord, before: JsonRecord): void {
  const finalizers = member(before, 'spec', 'finalizers')
  const spec = ensureRecord(namespace, 'spec')
  if (finalizers === undefined) delete spec['finalizers']
  else spec['finalizers'] = cloneTree(finalizers)
}

/** A namespace that is terminating without being deleted would refuse every new object forever. */
function phaseProblems(before: JsonRecord, namespace: JsonRecord): readonly FieldProblem[] {
  const phase = textMember(namespace, 'status', 'phase')
  if (phase === textMember(before, 'status', 'phase')) return []
  const isDeleting = textMember(namespace, 'metadata', 'deletionTimestamp') !== ''
  const [expected, when] = isDeleting ? ['Terminating', 'not empty'] : ['Active', 'empty']
  if (phase === expected) return []
  return [invalid('status.Phase', phase, `may only be '${expected}' if \`deletionTimestamp\` is ${when}`)]
}

/** Moves `stringData` into `data`, because a Secret's `stringData` is write-only. */
function foldStringData(object: JsonRecord): void {
  const text = object['stringData']
  delete object['stringData']
  if (!isRecord(text)) return
  const data = ensureRecord(object, 'data')
  for (const name in text) {
    if (typeof text[name] === 'string') data[name] = Buffer.from(text[name], 'utf8').toString('base64')
  }
}

/**
 * Sets the conditions of a definition immediately. The definition is served as soon as it is written, and no
 * controller would set them later.
 */
function establish(object: JsonRecord, now: string): void {
  const status = ensureRecord(object, 'status')
  const old = recordsAt(status, 'conditions')
  const condition = (type: string, reason: string, message: string): JsonRecord =>
    old.find((present) => present['type'] === type && present['status'] === 'True') ??
    record({ type, status: 'True', lastTransitionTime: now, reason, message })
  const rest = old.filter(({ type }) => type !== 'NamesAccepted' && type !== 'Established')
  status['conditions'] = [
    ...rest,
    condition('NamesAccepted', 'NoConflicts', 'no conflicts found'),
    condition('Established', 'InitialNamesAccepted', 'the initial names have been accepted'),
  ]
  const names = member(object, 'spec', 'names')
  if (isRecord(names)) status['acceptedNames'] = cloneTree(names)
  const earlier = Array.isArray(status['storedVersions']) ? status['storedVersions'] : []
  const name = storageVersionOf(object)
  status['storedVersions'] = name === '' || earlier.includes(name) ? earlier : [...earlier, name]
}

/**
 * Returns a warning about the rules that an API server would check but this server does not; null if there are none.
 */
export function unchecked(served: ServedResource, object: JsonRecord, schema: KindRules['schema']): string | null {
  if (schema !== undefined) return unevaluatedRules(schema)
  return resourceId(served.resource) === DEFINITIONS ? unevaluatedRulesOf(object) : null
}

function immutableProblems(before: JsonRecord | null, after: JsonRecord, names: readonly string[]): FieldProblem[] {
  if (before?.['immutable'] !== true) return []
  const why = 'field is immutable when `immutable` is set'
  const problems = names
    .filter((name) => !equalTrees(before[name], after[name]))
    .map((name) => forbiddenField(name, why))
  return after['immutable'] === true ? problems : [forbiddenField('immutable', why), ...problems]
}

function definitionProblems(before: JsonRecord | null, definition: JsonRecord, etcdPrefix: string): FieldProblem[] {
  const reading = readDefinition(exactCopy(definition), etcdPrefix)
  if (reading.kind === 'not-served')
    return [invalid('spec', textMember(definition, 'metadata', 'name'), reading.reason)]
  const problems: FieldProblem[] = []
  const name = `${textMember(definition, 'spec', 'names', 'plural')}.${textMember(definition, 'spec', 'group')}`
  const given = textMember(definition, 'metadata', 'name')
  if (given !== name) problems.push(invalid('metadata.name', given, `must be spec.names.plural+"."+spec.group`))
  const versions = recordsAt(definition, 'spec', 'versions')
  versions.forEach((version, i) => {
    const schema = recordAt(version, 'schema', 'openAPIV3Schema')
    const problem = schema === null ? null : schemaProblem(exactCopy(schema))
    if (problem !== null) problems.push(invalid(`spec.versions[${i}].schema.openAPIV3Schema`, '', problem))
  })
  return [
    ...problems,
    ...scopeProblems(textMember(definition, 'spec', 'scope')),
    ...versionProblems(versions),
    ...storedProblems(before, definition, versions),
  ]
}

function scopeProblems(scope: string): readonly FieldProblem[] {
  if (scope === '') return [required('spec.scope')]
  return SCOPES.includes(scope) ? [] : [notSupported('spec.scope', scope, SCOPES)]
}

function versionProblems(versions: readonly JsonRecord[]): readonly FieldProblem[] {
  const field = 'spec.versions'
  const problems: FieldProblem[] = []
  const names = versions.map((version) => textMember(version, 'name'))
  names.forEach((name, i) => {
    const problem = labelProblem(name)
    if (problem !== null) problems.push(invalid(`${field}[${i}].name`, name, problem))
  })
  if (new Set(names).size < names.length) problems.push(invalid(field, versions, 'must contain unique version names'))
  const stored = versions.filter(({ storage }) => storage === true)
  if (stored.length > 1) {
    problems.push(invalid(field, versions, 'must have exactly one version marked as storage version'))
  }
  return problems
}

/** Refuses changes that would make stored objects unreadable or leave them under keys that are no longer read. */
function storedProblems(
  before: JsonRecord | null,
  definition: JsonRecord,
  versions: readonly JsonRecord[],
): readonly FieldProblem[] {
  const problems: FieldProblem[] = []
  for (const path of before !== null && isEstablished(before) ? [['scope'], ['names', 'kind']] : []) {
    const value = textMember(definition, 'spec', ...path)
    if (value === textMember(before, 'spec', ...path)) continue
    problems.push(invalid(`spec.${path.join('.')}`, value, 'field is immutable'))
  }
  const names = new Set(versions.map((version) => textMember(version, 'name')))
  const stored = member(definition, 'status', 'storedVersions')
  for (const [i, name] of (Array.isArray(stored) ? stored : []).entries()) {
    if (typeof name !== 'string' || names.has(name)) continue
    const why = `missing from spec.versions; ${name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in ${name} and removes ${name} from status.storedVersions`
    problems.push(invalid(`status.storedVersions[${i}]`, name, why))
  }
  return problems
}

function isEstablished(definition: JsonRecord): boolean {
  return recordsAt(definition, 'status', 'conditions').some(
    ({ type, status }) => type === 'Established' && status === 'True',
  )
}
