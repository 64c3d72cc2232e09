/**
 * Makes `src/kubernetes/codec/protobuf/kubernetes-schema.ts` from the API's published facts. Run by hand when the API has moved
 * on:
 *
 *     node .build/test/support/generate-kubernetes-schema.js \
 *       kubernetes/api@COMMIT-OR-TAG=DIR kubernetes/apimachinery@COMMIT-OR-TAG=DIR … > src/kubernetes/codec/protobuf/kubernetes-schema.ts
 *
 * Each argument is a checked-out repository. Earlier ones win: later ones are older releases. They add messages, kinds
 * and field numbers that have since been removed, because etcd may still hold them; and they tell which members are
 * younger than they are. Go writes to the wire whatever is not a pointer, empty or not, so such a member that is not
 * there was unknown to the API server that wrote the object, and it is left out rather than written empty.
 *
 * `generated.proto` says which message a field number holds and its wire type; the json tags of the Go structs say the
 * name, the place among the members, what is inlined, what is left out when empty and what is a pointer (left out when
 * absent, but written when present and empty). Neither alone is enough. Only facts are taken; no text is.
 */
import { readFileSync, readdirSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'

interface ProtoField {
  readonly number: number
  readonly name: string
  readonly label: 'optional' | 'repeated' | 'map'
  /** A scalar's name or a full message name without its leading dot; of a map's values for a map. */
  readonly type: string
}

interface GoField {
  readonly number: number
  readonly jsonName: string
  readonly isInline: boolean
  readonly isPointer: boolean
  readonly isOmittedWhenEmpty: boolean
}

interface GoStruct {
  readonly hasTypeMeta: boolean
  readonly fields: readonly GoField[]
}

interface Package {
  readonly name: string
  readonly apiVersion: string
  readonly messages: Map<string, ProtoField[]>
  readonly structs: Map<string, GoStruct>
  /** `type ExtraValue []string`: one repeated field named items, in JSON the bare array. */
  readonly slices: Set<string>
}

interface OutputField {
  readonly number: number
  readonly text: string
  /** The same when not every release has it: written only when it is there. */
  readonly legacyText: string
  readonly refersTo: string | undefined
}

interface OutputMessage {
  readonly mark: string
  readonly fields: OutputField[]
}

const META = 'k8s.io.apimachinery.pkg.apis.meta.v1'
const SCALARS = new Set(['string', 'bytes', 'bool', 'int32', 'int64', 'double'])
/** Messages whose JSON form is code in the Go types, not members: the decoder knows these by name. */
const SPECIAL: Record<string, string> = {
  [`${META}.Time`]: 'time',
  [`${META}.MicroTime`]: 'microtime',
  [`${META}.Duration`]: 'duration',
  [`${META}.FieldsV1`]: 'json',
  'k8s.io.apimachinery.pkg.api.resource.Quantity': 'quantity',
  'k8s.io.apimachinery.pkg.util.intstr.IntOrString': 'intorstring',
  'k8s.io.apimachinery.pkg.runtime.RawExtension': 'json',
}
for (const version of ['v1', 'v1beta1']) {
  const apiextensions = `k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.${version}`
  SPECIAL[`${apiextensions}.JSON`] = 'json'
}
/** Written as one of their members: `schema` or the other. */
const EITHER: Record<string, string> = {
  JSONSchemaPropsOrArray: '|array',
  JSONSchemaPropsOrBool: '|bool',
  JSONSchemaPropsOrStringArray: '|array',
}
/** Younger than their messages say: the message took the place of another one, which had the rest of its fields. */
const YOUNGER = new Set(['IngressClassParametersReference.scope'])
const ALIASES: Record<string, string> = { m: META, c: 'k8s.io.api.core.v1' }

function parseProto(text: string): { name: string; messages: Map<string, ProtoField[]> } {
  const name = /^package ([\w.]+);/m.exec(text)?.[1] ?? ''
  const messages = new Map<string, ProtoField[]>()
  let fields: ProtoField[] = []
  for (const line of text.split('\n')) {
    const message = /^message (\w+) \{/.exec(line)
    if (message !== null) {
      fields = []
      messages.set(message[1]!, fields)
      continue
    }
    const map = /^\s+map<string, ([\w.]+)> (\w+) = (\d+);/.exec(line)
    if (map !== null) {
      fields.push({ number: Number(map[3]), name: map[2]!, label: 'map', type: qualify(map[1]!, name) })
      continue
    }
    const field = /^\s+(optional|required|repeated) ([\w.]+) (\w+) = (\d+)/.exec(line)
    if (field === null) continue
    const label = field[1] === 'repeated' ? 'repeated' : 'optional'
    fields.push({ number: Number(field[4]), name: field[3]!, label, type: qualify(field[2]!, name) })
  }
  return { name, messages }
}

function qualify(type: string, packageName: string): string {
  if (SCALARS.has(type)) return type
  return type.includes('.') ? type.replace(/^\./, '') : `${packageName}.${type}`
}

function parseGo(text: string, structs: Map<string, GoStruct>, slices: Set<string>): void {
  for (const [, name] of text.matchAll(/^type (\w+) \[\]string$/gm)) slices.add(name!)
  for (const [, name, body] of text.matchAll(/^type (\w+) struct \{\n([\s\S]*?)^\}/gm)) {
    let hasTypeMeta = false
    const fields: GoField[] = []
    for (const line of body!.split('\n')) {
      const member = /^\s+(?:(\w+)\s+)?([^\s`/][^`]*?)\s+`([^`]*)`/.exec(line)
      if (member === null) continue
      const [, goName, goType, tags] = member as unknown as [string, string | undefined, string, string]
      const [jsonName = '', ...options] = (/json:"([^"]*)"/.exec(tags)?.[1] ?? '').split(',')
      if (goName === undefined && /(^|\.)TypeMeta$/.test(goType)) hasTypeMeta = true
      const protobuf = /protobuf:"\w+,(\d+)/.exec(tags)
      if (protobuf === null) continue
      fields.push({
        number: Number(protobuf[1]),
        jsonName,
        isInline: goName === undefined && (jsonName === '' || options.includes('inline')),
        isPointer: goType.startsWith('*'),
        isOmittedWhenEmpty: options.includes('omitempty'),
      })
    }
    structs.set(name!, { hasTypeMeta, fields })
  }
}

function readPackage(directory: string, repository: string): Package {
  const { name, messages } = parseProto(readFileSync(join(directory, 'generated.proto'), 'utf8'))
  const structs = new Map<string, GoStruct>()
  const slices = new Set<string>()
  let group = ''
  for (const file of readdirSync(directory)) {
    if (!file.endsWith('.go') || file.endsWith('.pb.go') || file.endsWith('_test.go')) continue
    const text = readFileSync(join(directory, file), 'utf8')
    parseGo(text, structs, slices)
    group = /^const GroupName = "([^"]*)"/m.exec(text)?.[1] ?? group
  }
  if (repository === 'kubernetes/apimachinery' && name !== META) group = ''
  const version = name.slice(name.lastIndexOf('.') + 1)
  return { name, apiVersion: group === '' ? version : `${group}/${version}`, messages, structs, slices }
}

function outputMessage(from: Package, name: string, all: Map<string, Package>): OutputMessage {
  const proto = new Map(from.messages.get(name)!.map((field) => [field.number, field]))
  const struct = from.structs.get(name) ?? definedElsewhere(name, all)
  const mark = from.slices.has(name) ? '[]' : (EITHER[name] ?? (struct?.hasTypeMeta === true ? '*' : ''))
  const goFields = struct?.fields ?? []
  const fields: OutputField[] = []
  for (const field of goFields) {
    const declared = proto.get(field.number)
    if (declared === undefined) continue
    proto.delete(field.number)
    if (field.jsonName === '-' && !field.isInline) continue
    const output = outputField(from, declared, field)
    fields.push(YOUNGER.has(`${name}.${field.jsonName}`) ? { ...output, text: output.legacyText } : output)
  }
  // A slice type has no struct; a struct that lost a member while its proto kept it does not write it.
  if (struct === undefined) for (const declared of proto.values()) fields.push(outputField(from, declared, undefined))
  return { mark, fields }
}

/** `type MatchCondition v1.MatchCondition`: the struct of the same name that has the facts. */
function definedElsewhere(name: string, all: Map<string, Package>): GoStruct | undefined {
  for (const other of all.values()) {
    const struct = other.structs.get(name)
    if (struct !== undefined && struct.fields.length > 0) return struct
  }
  return undefined
}

function outputField(from: Package, declared: ProtoField, go: GoField | undefined): OutputField {
  const isScalar = SCALARS.has(declared.type)
  const special = SPECIAL[declared.type]
  const refersTo = isScalar || special !== undefined ? undefined : declared.type
  const jsonName = go === undefined ? declared.name : go.isInline ? '' : go.jsonName
  const empty = go?.isOmittedWhenEmpty === true ? '?' : ''
  const label =
    declared.label === 'repeated' ? '[]' : declared.label === 'map' ? '{}' : go?.isPointer === true ? '*' : ''
  const type = isScalar ? declared.type : (special ?? shortName(declared.type, from.name))
  const legacyLabel = label === '' && !isScalar ? '*' : label
  return {
    number: declared.number,
    refersTo,
    text: `${jsonName}${empty}:${declared.number}:${label}${type}`,
    legacyText: `${jsonName}?:${declared.number}:${legacyLabel}${type}`,
  }
}

/** Messages start with a capital letter, scalars do not. */
function shortName(fullName: string, fromPackage: string): string {
  const dot = fullName.lastIndexOf('.')
  const packageName = fullName.slice(0, dot)
  const name = fullName.slice(dot + 1)
  if (packageName === fromPackage) return name
  const alias = Object.entries(ALIASES).find(([, value]) => value === packageName)?.[0]
  return `${alias ?? packageName}/${name}`
}

function findPackages(root: string): string[] {
  return readdirSync(root, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('generated.proto') && !path.includes('testapigroup') && !path.includes('vendor/'))
    .map((path) => join(root, dirname(path)))
    .sort((a, b) => (relative(root, a) < relative(root, b) ? -1 : 1))
}

interface Output {
  readonly apiVersion: string
  readonly messages: Map<string, OutputMessage>
}

function collect(sources: readonly { repository: string; root: string }[]): Map<string, Output> {
  const outputs = new Map<string, Output>()
  const seen = new Map<string, Package>()
  for (const { repository, root } of sources) {
    const packages = findPackages(root).map((directory) => readPackage(directory, repository))
    for (const each of packages) if (!seen.has(each.name)) seen.set(each.name, each)
    for (const each of packages) {
      const output = outputs.get(each.name) ?? { apiVersion: each.apiVersion, messages: new Map() }
      outputs.set(each.name, output)
      for (const name of each.messages.keys()) {
        if (SPECIAL[`${each.name}.${name}`] !== undefined) continue
        const message = outputMessage(each, name, seen)
        const known = output.messages.get(name)
        if (known === undefined) {
          output.messages.set(name, message)
          continue
        }
        const numbers = new Set(known.fields.map((field: OutputField) => field.number))
        const older = new Set(message.fields.map((field) => field.number))
        for (const [slot, field] of known.fields.entries()) {
          if (!older.has(field.number)) known.fields[slot] = { ...field, text: field.legacyText }
        }
        for (const field of message.fields) {
          const jsonName = field.text.split(/[?:]/)[0]!
          if (numbers.has(field.number) || !isFree(known, jsonName)) continue
          known.fields.push({ ...field, text: field.legacyText })
        }
      }
    }
  }
  return outputs
}

/** A member that was given another number keeps its name, if only one of the two is ever written. */
function isFree(message: OutputMessage, jsonName: string): boolean {
  return jsonName === '' || message.fields.every(({ text }) => !text.startsWith(`${jsonName}:`))
}

/** Everything reachable from a kind that is no list: lists are put together on the wire. */
function reachable(outputs: Map<string, Output>): Set<string> {
  const found = new Set<string>()
  const queue: string[] = [`${META}.Status`, `${META}.WatchEvent`]
  for (const [name, output] of outputs) {
    if (name === 'k8s.io.apimachinery.pkg.runtime') continue
    for (const [message, { mark }] of output.messages) {
      if (mark === '*' && (!message.endsWith('List') || name === META)) queue.push(`${name}.${message}`)
    }
  }
  for (let next = queue.pop(); next !== undefined; next = queue.pop()) {
    if (found.has(next)) continue
    found.add(next)
    const dot = next.lastIndexOf('.')
    const message = outputs.get(next.slice(0, dot))?.messages.get(next.slice(dot + 1))
    if (message === undefined) throw new Error(`${next} is referred to and not defined`)
    for (const field of message.fields) if (field.refersTo !== undefined) queue.push(field.refersTo)
  }
  return found
}

function print(outputs: Map<string, Output>, sources: readonly { repository: string; commit: string }[]): string {
  const wanted = reachable(outputs)
  const lines: string[] = Object.entries(ALIASES).map(([alias, name]) => `= ${alias} ${name}`)
  for (const [name, output] of outputs) {
    const messages = [...output.messages].filter(([message]) => wanted.has(`${name}.${message}`))
    if (messages.length === 0) continue
    lines.push(`@ ${name} ${output.apiVersion}`)
    for (const [message, { mark, fields }] of messages) {
      lines.push([message + mark, ...fields.map((field) => field.text)].join(' '))
    }
  }
  const references = new Map<string, string[]>()
  for (const { repository, commit } of sources) {
    references.set(repository, [...(references.get(repository) ?? []), commit])
  }
  return `/**
 * The messages of the Kubernetes API as a table: the data of \`schema.ts\`, which documents its notation.
 *
 * Made by \`test/support/generate-kubernetes-schema.ts\`; do not edit. Read off the published proto files and json tags of
${[...references].map(([repository, refs]) => ` * - ${repository}: ${refs.join(' ')}`).join('\n')}
 * the newest first; the older ones add what has been removed since, and show what is younger than they are. (Apache-2.0, The Kubernetes Authors.)
 */
export const KUBERNETES_SCHEMA = \`
${lines.join('\n')}
\`
`
}

const sources = process.argv.slice(2).map((argument) => {
  const match = /^([\w/-]+)@([\w.]+)=(.+)$/.exec(argument)
  if (match === null) throw new Error(`${argument} is not REPOSITORY@COMMIT-OR-TAG=DIRECTORY`)
  return { repository: match[1]!, commit: match[2]!, root: match[3]! }
})
process.stdout.write(print(collect(sources), sources))
