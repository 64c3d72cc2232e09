/**
 * Reads `--proto-descriptors FILE`: additional kinds, or newer kinds of Kubernetes, from a FileDescriptorSet written
 * by `protoc --include_imports --descriptor_set_out=FILE` or `buf build`.
 *
 * - A message whose field 1 is `metadata` of type ObjectMeta is a kind; `isPackageOf` decides its apiVersion.
 * - A message that is also in the table keeps the table's description of its fields, because a descriptor does not
 *   say what Kubernetes inlines or leaves out. Fields that only the descriptor has come after those.
 * - All other fields have the descriptor's json_name. Empty strings, bytes, arrays and maps are left out; numbers and
 *   booleans are written when present. 64-bit integers are JSON numbers, as everywhere in Kubernetes, and enums are
 *   their names.
 * - Time, MicroTime, Duration, Quantity, IntOrString, RawExtension, FieldsV1 and JSON are recognized by their full
 *   names.
 */
import { fromBinary } from '@bufbuild/protobuf'
import {
  type DescriptorProto,
  type EnumDescriptorProto,
  type FieldDescriptorProto,
  FieldDescriptorProto_Label as Label,
  FieldDescriptorProto_Type as Type,
  type FileDescriptorSet,
  FileDescriptorSetSchema,
} from '@bufbuild/protobuf/wkt'

import { CodecError } from './codec-error.js'
import type { Field, Message, ScalarType, Schema, SpecialType } from './schema.js'
import { SCALAR_WIRE_TYPES } from './wire.js'

const META = 'k8s.io.apimachinery.pkg.apis.meta.v1'
const APIEXTENSIONS = 'k8s.io.apiextensions_apiserver.pkg.apis.apiextensions'

const SPECIAL_TYPES: ReadonlyMap<string, SpecialType> = new Map([
  [`${META}.Time`, 'time'],
  [`${META}.MicroTime`, 'microtime'],
  [`${META}.Duration`, 'duration'],
  [`${META}.FieldsV1`, 'json'],
  ['k8s.io.apimachinery.pkg.api.resource.Quantity', 'quantity'],
  ['k8s.io.apimachinery.pkg.util.intstr.IntOrString', 'intorstring'],
  ['k8s.io.apimachinery.pkg.runtime.RawExtension', 'json'],
  [`${APIEXTENSIONS}.v1.JSON`, 'json'],
  [`${APIEXTENSIONS}.v1beta1.JSON`, 'json'],
])

interface Declarations {
  readonly messages: Map<string, DescriptorProto>
  readonly enums: Map<string, EnumDescriptorProto>
  readonly packages: Set<string>
}

/**
 * Returns the schema with the messages of the set.
 *
 * @param kinds `group/version/Kind` → full message name, for packages that are not named by convention.
 * @throws CodecError when the bytes are not a FileDescriptorSet, or use groups, which have no form in Kubernetes'
 * JSON.
 */
export function loadDescriptors(bytes: Buffer, base: Schema, kinds: ReadonlyMap<string, string> = new Map()): Schema {
  const declarations = declare(parse(bytes))
  const messages: Message[] = []
  for (const [fullName, descriptor] of declarations.messages) {
    if (descriptor.options?.mapEntry === true || SPECIAL_TYPES.has(fullName)) continue
    messages.push(toMessage(fullName, descriptor, declarations, base.message(fullName)))
  }
  for (const [kind, fullName] of kinds) {
    if (!declarations.messages.has(fullName) && base.message(fullName) === undefined) {
      throw new CodecError(
        'unknown-kind',
        `${kind} is declared as message ${fullName}, which is not in the descriptors`,
      )
    }
  }
  return base.with({ messages, packages: declarations.packages, kinds })
}

function parse(bytes: Buffer): FileDescriptorSet {
  let set: FileDescriptorSet
  try {
    set = fromBinary(FileDescriptorSetSchema, bytes)
  } catch (error) {
    throw new CodecError(
      'malformed',
      `not a FileDescriptorSet: ${error instanceof Error ? error.message : 'unreadable'}`,
    )
  }
  if (set.file.length === 0) throw new CodecError('malformed', 'the FileDescriptorSet contains no file')
  return set
}

function declare(set: FileDescriptorSet): Declarations {
  const declarations: Declarations = { messages: new Map(), enums: new Map(), packages: new Set() }
  const add = (prefix: string, messages: DescriptorProto[], enums: EnumDescriptorProto[]): void => {
    for (const each of enums) declarations.enums.set(prefix + each.name, each)
    for (const each of messages) {
      declarations.messages.set(prefix + each.name, each)
      add(`${prefix}${each.name}.`, each.nestedType, each.enumType)
    }
  }
  for (const file of set.file) {
    add(file.package === '' ? '' : `${file.package}.`, file.messageType, file.enumType)
    declarations.packages.add(file.package)
  }
  return declarations
}

function toMessage(
  fullName: string,
  descriptor: DescriptorProto,
  declarations: Declarations,
  known: Message | undefined,
): Message {
  const numbers = new Set(known?.fields.map((field) => field.number))
  const names = new Set(known?.fields.map((field) => field.jsonName))
  const added = descriptor.field
    .map((field) => toField(fullName, field, declarations))
    .filter((field) => !numbers.has(field.number) && !names.has(field.jsonName))
  const first = descriptor.field.find((field) => field.number === 1)
  return {
    fullName,
    form: known?.form ?? 'object',
    isKind: known?.isKind ?? (first?.name === 'metadata' && first.typeName === `.${META}.ObjectMeta`),
    fields: [...(known?.fields ?? []), ...added],
  }
}

function toField(messageName: string, field: FieldDescriptorProto, declarations: Declarations): Field {
  const isRepeated = field.label === Label.REPEATED
  const typeName = field.typeName.replace(/^\./, '')
  const entry = isRepeated && field.type === Type.MESSAGE ? declarations.messages.get(typeName) : undefined
  const isMap = entry?.options?.mapEntry === true
  const key = isMap ? entry.field.find(({ number }) => number === 1) : undefined
  const value = isMap ? entry.field.find(({ number }) => number === 2) : undefined
  const ofValue = value ?? field
  const valueName = ofValue.typeName.replace(/^\./, '')
  const special = SPECIAL_TYPES.get(valueName)
  const type = ofValue.type === Type.MESSAGE ? (special ?? 'message') : scalarType(ofValue.type)
  if (type === undefined) throw new CodecError('unsupported', `${messageName}.${field.name} is a group`)
  const isText = type === 'string' || type === 'bytes'
  return {
    number: field.number,
    jsonName: field.jsonName === '' ? lowerCamelCase(field.name) : field.jsonName,
    isOmittedWhenEmpty: true,
    isOmittedWhenZero: false,
    label: isMap ? 'map' : isRepeated ? 'repeated' : isText ? 'value' : 'pointer',
    type,
    messageName: type === 'message' ? valueName : '',
    keyType: key === undefined ? 'string' : (scalarType(key.type) ?? 'string'),
    enumNames: type === 'enum' ? enumNames(valueName, declarations) : null,
  }
}

/** Returns undefined for a group, and for a message. */
function scalarType(type: Type): ScalarType | undefined {
  const name = Type[type].toLowerCase()
  return Object.hasOwn(SCALAR_WIRE_TYPES, name) ? (name as ScalarType) : undefined
}

function enumNames(fullName: string, declarations: Declarations): ReadonlyMap<number, string> {
  return new Map(declarations.enums.get(fullName)?.value.map(({ number, name }) => [number, name]))
}

/** Derives a missing json_name as protoc does. */
function lowerCamelCase(name: string): string {
  return name.replace(/_+([a-zA-Z0-9])/g, (_, letter: string) => letter.toUpperCase())
}
