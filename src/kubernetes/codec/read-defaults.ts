/**
 * Applies what API servers change in an object between etcd and the client. They clear some members before writing an
 * object and fill them in when reading it, or the reverse. Here the object is changed once, when its value is read
 * from etcd, so that JSON, protobuf, tables, selectors and watches all show the same object.
 *
 * Other defaults are set before an object is written, so they are stored. Defaults that newer releases have added
 * since the object was written are left to those releases.
 *
 * Source: kubernetes 1.37, pkg/apis/{core,batch,networking}/v1/defaults.go and pkg/registry/core/service/storage.
 */
import { type ScannedObject, scanObject } from './json-scan.js'
import {
  encodeJsonTree,
  isRecord,
  type JsonRecord,
  readJsonTree,
  record,
  recordAt,
  setMember,
  textMember,
} from './json-tree.js'
import { appendAt, contentsAt, removeAt } from './protobuf/edit.js'
import { openEnvelope, rawOf } from './protobuf/envelope.js'
import { enveloped } from './protobuf/resource-version-splice.js'
import { kubernetesSchema } from './protobuf/schema.js'
import { lengthField } from './protobuf/wire.js'
import { MAX_JSON_DEPTH } from '../model/limits.js'

const NAMESPACE_NAME_LABEL = 'kubernetes.io/metadata.name'

/** The members of an object, whatever its storage format. A path consists of JSON names: `status.phase`. */
interface Fields {
  /** Whether anything was changed. */
  readonly isChanged: boolean
  /** Returns '' when absent. */
  text(path: string): string
  /** Returns the entries of a string map; empty when absent. */
  entries(path: string): ReadonlyMap<string, string>
  setText(path: string, text: string): void
  setEntries(path: string, entries: ReadonlyMap<string, string>): void
  remove(path: string): void
}

type Rule = (fields: Fields) => void

const RULES: ReadonlyMap<string, Rule> = new Map([
  ['v1 PersistentVolumeClaim', (fields) => fillPhase(fields, 'Pending')],
  ['v1 PersistentVolume', (fields) => fillPhase(fields, 'Pending')],
  [
    'v1 Namespace',
    (fields) => {
      fillPhase(fields, 'Active')
      const name = fields.text('metadata.name')
      if (name !== '' && fields.entries('metadata.labels').get(NAMESPACE_NAME_LABEL) !== name) {
        fields.setEntries('metadata.labels', new Map([[NAMESPACE_NAME_LABEL, name]]))
      }
    },
  ],
  ['batch/v1 Job', (fields) => fillFromTemplate(fields, ['metadata.labels'])],
  ['v1 ReplicationController', (fields) => fillFromTemplate(fields, ['metadata.labels', 'spec.selector'])],
  [
    'networking.k8s.io/v1 IngressClass',
    (fields) => {
      // The parameters have had a scope since 1.21.
      if (fields.text('spec.parameters.name') === '' || fields.text('spec.parameters.scope') !== '') return
      fields.setText('spec.parameters.scope', 'Cluster')
    },
  ],
  [
    'v1 Service',
    (fields) => {
      // An ExternalName service has no such policy, but old releases stored one.
      if (fields.text('spec.type') !== 'ExternalName' || fields.text('spec.internalTrafficPolicy') === '') return
      fields.remove('spec.internalTrafficPolicy')
    },
  ],
])

function fillPhase(fields: Fields, phase: string): void {
  if (fields.text('status.phase') === '') fields.setText('status.phase', phase)
}

/** An object created from a template gets the template's labels if it has none of its own. */
function fillFromTemplate(fields: Fields, into: readonly string[]): void {
  const missing = into.filter((path) => fields.entries(path).size === 0)
  const labels = missing.length === 0 ? null : fields.entries('spec.template.metadata.labels')
  if (labels === null || labels.size === 0) return
  for (const path of missing) fields.setEntries(path, labels)
}

/** Returns a stored protobuf value as clients see it: nearly always unchanged, otherwise a copy. @throws CodecError */
export function readProtobuf(value: Buffer, apiVersion: string, kind: string): Buffer {
  const rule = RULES.get(`${apiVersion} ${kind}`)
  if (rule === undefined) return value
  const fields = new ProtobufFields(rawOf(openEnvelope(value)), apiVersion, kind)
  rule(fields)
  return fields.isChanged ? enveloped(apiVersion, kind, fields.raw) : value
}

/** Members that no rule reads. They can be most of an object. */
const UNREAD: ReadonlySet<string> = new Set(['managedFields', 'containers'])

/** `readProtobuf` for a stored JSON object. */
export function readJson(object: ScannedObject): ScannedObject {
  const rule = RULES.get(`${object.apiVersion} ${object.kind}`)
  const root = rule === undefined ? null : readJsonTree(object.bytes, MAX_JSON_DEPTH, UNREAD)
  if (rule === undefined || !isRecord(root)) return object
  const fields = new JsonFields(root)
  rule(fields)
  return (fields.isChanged ? scanObject(encodeJsonTree(root)) : null) ?? object
}

class ProtobufFields implements Fields {
  isChanged = false

  constructor(
    public raw: Buffer,
    private readonly apiVersion: string,
    private readonly kind: string,
  ) {}

  text(path: string): string {
    return contentsAt(this.raw, this.#numbersOf(path)).at(-1)?.toString('utf8') ?? ''
  }

  entries(path: string): ReadonlyMap<string, string> {
    const textOf = (entry: Buffer, number: number): string => contentsAt(entry, [number]).at(-1)?.toString('utf8') ?? ''
    return new Map(contentsAt(this.raw, this.#numbersOf(path)).map((entry) => [textOf(entry, 1), textOf(entry, 2)]))
  }

  setText(path: string, text: string): void {
    this.#become(appendAt(this.raw, this.#numbersOf(path), Buffer.from(text, 'utf8')))
  }

  setEntries(path: string, entries: ReadonlyMap<string, string>): void {
    for (const [key, text] of entries) {
      const entry = Buffer.concat([lengthField(1, key), lengthField(2, text)])
      this.#become(appendAt(this.raw, this.#numbersOf(path), entry))
    }
  }

  remove(path: string): void {
    this.#become(removeAt(this.raw, this.#numbersOf(path)))
  }

  #become(raw: Buffer): void {
    this.raw = raw
    this.isChanged = true
  }

  /** Returns the field numbers of the path's members. */
  #numbersOf(path: string): readonly number[] {
    const schema = kubernetesSchema()
    let message = schema.messageOfKind(this.apiVersion, this.kind)
    return path.split('.').map((name) => {
      const field = message!.fields.find(({ jsonName }) => jsonName === name)!
      message = schema.message(field.messageName)
      return field.number
    })
  }
}

class JsonFields implements Fields {
  isChanged = false

  constructor(private readonly root: JsonRecord) {}

  text(path: string): string {
    return textMember(this.root, ...path.split('.'))
  }

  entries(path: string): ReadonlyMap<string, string> {
    const map = recordAt(this.root, ...path.split('.'))
    return new Map(Object.keys(map ?? {}).map((name) => [name, textMember(map, name)]))
  }

  setText(path: string, text: string): void {
    setMember(this.root, path.split('.'), text)
    this.isChanged = true
  }

  setEntries(path: string, entries: ReadonlyMap<string, string>): void {
    const all = [...this.entries(path), ...entries]
    setMember(this.root, path.split('.'), record(Object.fromEntries(all)))
    this.isChanged = true
  }

  remove(path: string): void {
    const names = path.split('.')
    delete recordAt(this.root, ...names.slice(0, -1))?.[names.at(-1)!]
    this.isChanged = true
  }
}
