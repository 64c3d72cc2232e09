/**
 * What API servers change in an object between etcd and every answer: members that are cleared before an object is
 * written and filled in when it is read, or the reverse. They are changed once, when a value is read from etcd, so that
 * JSON, protobuf, tables, selectors and watches all show the same object.
 *
 * Other defaults are set before an object is written, so they are stored. Defaults added by releases newer than the
 * object are left to those releases.
 *
 * Source: kubernetes 1.37, pkg/apis/{core,batch,networking}/v1/defaults.go and pkg/registry/core/service/storage.
 */
import { type ScannedObject, scanObject } from './json-scan.js'
import { appendAt, contentsAt, removeAt } from './protobuf/edit.js'
import { openEnvelope, rawOf } from './protobuf/envelope.js'
import { enveloped } from './protobuf/resource-version.js'
import { lengthField } from './protobuf/wire.js'
import { JsonObject } from './versions/json-object.js'

/** A member of a message, by its name in JSON and its number on the wire. */
type Member = readonly [name: string, number: number]
type Path = readonly Member[]

const METADATA: Member = ['metadata', 1]
const SPEC: Member = ['spec', 2]
const NAME: Path = [METADATA, ['name', 1]]
const LABELS: Path = [METADATA, ['labels', 11]]
const PHASE: Path = [
  ['status', 3],
  ['phase', 1],
]
const SERVICE_TYPE: Path = [SPEC, ['type', 4]]
const INTERNAL_TRAFFIC_POLICY: Path = [SPEC, ['internalTrafficPolicy', 22]]
const PARAMETERS: Path = [SPEC, ['parameters', 2]]
const PARAMETERS_SCOPE: Path = [...PARAMETERS, ['scope', 4]]
const CONTROLLER_SELECTOR: Path = [SPEC, ['selector', 2]]
const NAMESPACE_NAME_LABEL = 'kubernetes.io/metadata.name'

/** The members of an object, whatever its storage format. */
interface Fields {
  /** Whether anything was changed. */
  readonly isChanged: boolean
  /** Returns '' when absent. */
  text(path: Path): string
  /** Returns the entries of a string map; empty when absent. */
  entries(path: Path): ReadonlyMap<string, string>
  setText(path: Path, text: string): void
  setEntries(path: Path, entries: ReadonlyMap<string, string>): void
  remove(path: Path): void
}

type Rule = (fields: Fields) => void

const RULES: ReadonlyMap<string, Rule> = new Map([
  ['v1 PersistentVolumeClaim', (fields) => fillPhase(fields, 'Pending')],
  ['v1 PersistentVolume', (fields) => fillPhase(fields, 'Pending')],
  [
    'v1 Namespace',
    (fields) => {
      fillPhase(fields, 'Active')
      const name = fields.text(NAME)
      if (name !== '' && fields.entries(LABELS).get(NAMESPACE_NAME_LABEL) !== name) {
        fields.setEntries(LABELS, new Map([[NAMESPACE_NAME_LABEL, name]]))
      }
    },
  ],
  ['batch/v1 Job', (fields) => fillEntries(fields, templateLabels(6), [LABELS])],
  ['v1 ReplicationController', (fields) => fillEntries(fields, templateLabels(3), [LABELS, CONTROLLER_SELECTOR])],
  [
    'networking.k8s.io/v1 IngressClass',
    (fields) => {
      // The parameters have had a scope since 1.21.
      if (fields.text([...PARAMETERS, ['name', 3]]) === '' || fields.text(PARAMETERS_SCOPE) !== '') return
      fields.setText(PARAMETERS_SCOPE, 'Cluster')
    },
  ],
  [
    'v1 Service',
    (fields) => {
      // An ExternalName service has no such policy, but old releases stored one.
      if (fields.text(SERVICE_TYPE) !== 'ExternalName' || fields.text(INTERNAL_TRAFFIC_POLICY) === '') return
      fields.remove(INTERNAL_TRAFFIC_POLICY)
    },
  ],
])

function fillPhase(fields: Fields, phase: string): void {
  if (fields.text(PHASE) === '') fields.setText(PHASE, phase)
}

/** An object created from a template gets the template's labels if it has none of its own. */
function fillEntries(fields: Fields, from: Path, into: readonly Path[]): void {
  const missing = into.filter((path) => fields.entries(path).size === 0)
  const entries = missing.length === 0 ? null : fields.entries(from)
  if (entries === null || entries.size === 0) return
  for (const path of missing) fields.setEntries(path, entries)
}

function templateLabels(templateNumber: number): Path {
  return [SPEC, ['template', templateNumber], ...LABELS]
}

/** Returns a stored protobuf value as it is read: nearly always itself, otherwise a changed copy. @throws CodecError */
export function readProtobuf(value: Buffer, apiVersion: string, kind: string): Buffer {
  const rule = RULES.get(`${apiVersion} ${kind}`)
  if (rule === undefined) return value
  const fields = new ProtobufFields(rawOf(openEnvelope(value)))
  rule(fields)
  return fields.isChanged ? enveloped(apiVersion, kind, fields.raw) : value
}

/** The same for a stored JSON object. */
export function readJson(object: ScannedObject): ScannedObject {
  const rule = RULES.get(`${object.apiVersion} ${object.kind}`)
  const root = rule === undefined ? null : JsonObject.parse(object.bytes)
  if (rule === undefined || root === null) return object
  const fields = new JsonFields(root)
  rule(fields)
  return (fields.isChanged ? scanObject(root.toBuffer()) : null) ?? object
}

class ProtobufFields implements Fields {
  isChanged = false

  constructor(public raw: Buffer) {}

  text(path: Path): string {
    return contentsAt(this.raw, numbersOf(path)).at(-1)?.toString('utf8') ?? ''
  }

  entries(path: Path): ReadonlyMap<string, string> {
    const textOf = (entry: Buffer, number: number): string => contentsAt(entry, [number]).at(-1)?.toString('utf8') ?? ''
    return new Map(contentsAt(this.raw, numbersOf(path)).map((entry) => [textOf(entry, 1), textOf(entry, 2)]))
  }

  setText(path: Path, text: string): void {
    this.#become(appendAt(this.raw, numbersOf(path), Buffer.from(text, 'utf8')))
  }

  setEntries(path: Path, entries: ReadonlyMap<string, string>): void {
    for (const [key, text] of entries) {
      const entry = Buffer.concat([lengthField(1, key), lengthField(2, text)])
      this.#become(appendAt(this.raw, numbersOf(path), entry))
    }
  }

  remove(path: Path): void {
    this.#become(removeAt(this.raw, numbersOf(path)))
  }

  #become(raw: Buffer): void {
    this.raw = raw
    this.isChanged = true
  }
}

function numbersOf(path: Path): readonly number[] {
  return path.map(([, number]) => number)
}

class JsonFields implements Fields {
  isChanged = false

  constructor(private readonly root: JsonObject) {}

  text(path: Path): string {
    return this.#parentOf(path)?.text(lastName(path)) ?? ''
  }

  entries(path: Path): ReadonlyMap<string, string> {
    const map = this.#parentOf(path)?.object(lastName(path)) ?? null
    return new Map(map?.names().map((name) => [name, map.text(name)]))
  }

  setText(path: Path, text: string): void {
    this.#change(path, (parent) => parent.set(lastName(path), text))
  }

  setEntries(path: Path, entries: ReadonlyMap<string, string>): void {
    this.#change(path, (parent) => {
      const all = new Map([...this.entries(path), ...entries])
      const sorted = JsonObject.empty()
      for (const name of [...all.keys()].toSorted()) sorted.set(name, all.get(name)!)
      parent.set(lastName(path), sorted)
    })
  }

  remove(path: Path): void {
    this.#change(path, (parent) => parent.delete(lastName(path)))
  }

  #parentOf(path: Path): JsonObject | null {
    let object: JsonObject | null = this.root
    for (const [name] of path.slice(0, -1)) object = object?.object(name) ?? null
    return object
  }

  #change(path: Path, change: (parent: JsonObject) => void): void {
    const inside = (object: JsonObject, [first, ...rest]: Path): JsonObject => {
      if (first === undefined || rest.length === 0) change(object)
      else object.set(first[0], inside(object.object(first[0]) ?? JsonObject.empty(), rest))
      return object
    }
    inside(this.root, path)
    this.isChanged = true
  }
}

function lastName(path: Path): string {
  return path.at(-1)![0]
}
