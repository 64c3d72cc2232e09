/**
 * Writes OpenAPI documents as protobuf (`openapi.v2.Document`, `openapi.v3.Document`), the form that client-go
 * requests. Members without a field in a message become its extensions. Their values are YAML, and JSON is valid
 * YAML.
 *
 * The messages are in `openapi-messages.txt`, one per line: a name, the number of the extensions' field, and the
 * fields as `name:number:type`. A type is one of `FieldType` or the name of a message. These may precede it:
 *
 * - `[]`: a list.
 * - `{N}`: members by name, in field N of a separate message.
 * - `ref/`: a `$ref` may take its place.
 * - `boolean/`: a boolean may take its place.
 * - `one/`: the only item of a list.
 *
 * `in/` lists the messages that the member `in` chooses.
 */
import { BackwardWriter } from '../codec/protobuf/backward-writer.js'
import { exactText } from '../codec/exact-json.js'
import { readPackageFile } from '../../support/package-file.js'

/** `any` is any JSON, as YAML. `scalar` is a number, boolean or text, because its message cannot hold other values. */
const SIMPLE = ['text', 'integer', 'double', 'boolean', 'any', 'scalar'] as const

/**
 * The content of a field. The messages of tables and of references are the same everywhere, so they have no rows of
 * their own.
 */
export type FieldType =
  | (typeof SIMPLE)[number]
  | { readonly message: string }
  /** A message, or a `$ref` to one. */
  | { readonly messageOrReference: string }
  | { readonly each: FieldType }
  /** Members by name, in field `at` of a separate message. */
  | { readonly byName: FieldType; readonly at: number }
  /** The only schema in a list of schemas. */
  | { readonly onlyOf: FieldType }
  /** A boolean, or something else. */
  | { readonly booleanOr: FieldType }
  /** A message chosen by the text of its member `by`, and the numbers of the fields that lead to it. */
  | {
      readonly by: string
      readonly choices: Readonly<Record<string, readonly [path: readonly number[], name: string]>>
    }

interface MessageTable {
  readonly fields: Readonly<Record<string, readonly [number: number, type: FieldType]>>
  /** The field number of the extensions. */
  readonly extensions: number
}

const FILE = 'src/kubernetes/dialect/openapi-messages.txt'

let tables: ReadonlyMap<string, MessageTable> | null = null

/** @param name such as `Schema`, or `v2.Schema` in the older grammar. */
export function openApiMessage(name: string): MessageTable {
  tables ??= new Map(
    readPackageFile(FILE)
      .toString('utf8')
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'))
      .map(tableOf),
  )
  return tables.get(name)!
}

function tableOf(line: string): readonly [name: string, table: MessageTable] {
  const [name = '', extensions, ...fields] = line.split(' ')
  const parsed = fields.map((field) => {
    const [, member = '', number, type = ''] = /^([^:]+):(\d+):(.+)$/.exec(field)!
    return [member, [Number(number), typeOf(type)]] as const
  })
  return [name, { fields: Object.fromEntries(parsed), extensions: Number(extensions) }]
}

function typeOf(text: string): FieldType {
  const [, form, at, inner = ''] = /^(\[\]|\{(\d)\}|\w+\/)?(.+)$/.exec(text)!
  switch (form) {
    case undefined:
      return SIMPLE.find((type) => type === text) ?? { message: text }
    case '[]':
      return { each: typeOf(inner) }
    case 'ref/':
      return { messageOrReference: inner }
    case 'one/':
      return { onlyOf: typeOf(inner) }
    case 'boolean/':
      return { booleanOr: typeOf(inner) }
    case 'in/':
      return { by: 'in', choices: Object.fromEntries(inner.split(',').map(choiceOf)) }
    default:
      return { byName: typeOf(inner), at: Number(at) }
  }
}

function choiceOf(text: string): readonly [value: string, choice: readonly [path: readonly number[], name: string]] {
  const [value = '', path = '', name = ''] = text.split(':')
  return [value, [path.split('.').map(Number), name]]
}

type Members = Readonly<Record<string, unknown>>

/** @param document in its JSON form. */
export function openApiProtobuf(version: 'v2' | 'v3', document: object): Buffer {
  const out = new BackwardWriter()
  writeMessage(out, version === 'v2' ? 'v2.Document' : 'Document', document as Members)
  return Buffer.from(out.finish())
}

/** Writes everything from the end: the last member first. */
function writeMessage(out: BackwardWriter, name: string, members: Members): void {
  const { fields, extensions } = openApiMessage(name)
  for (const [member, value] of Object.entries(members).toReversed()) {
    if (member.startsWith('x-')) out.field(extensions, () => writeEntry(out, member, 'any', value))
    else if (Object.hasOwn(fields, member) && value !== undefined && value !== null)
      writeField(out, ...fields[member]!, value)
  }
}

function writeField(out: BackwardWriter, number: number, type: FieldType, value: unknown): void {
  if (typeof type === 'object' && 'each' in type) {
    for (const item of (value as readonly unknown[]).toReversed()) writeField(out, number, type.each, item)
  } else if (type === 'text') out.textField(number, String(value))
  else if (type === 'integer' || type === 'double' || type === 'boolean') {
    // A zero value is omitted.
    if (Number(value) === 0) return
    if (type === 'double') out.doubleField(number, Number(value))
    else out.integerField(number, Number(value))
  } else out.field(number, () => writeContent(out, type, value))
}

function writeContent(
  out: BackwardWriter,
  type: Exclude<FieldType, 'text' | 'integer' | 'double' | 'boolean' | { each: FieldType }>,
  value: unknown,
): void {
  if (type === 'any') return out.textField(2, exactText(value))
  if (type === 'scalar') return writeScalar(out, value)
  const members = value as Members
  if ('message' in type) return writeMessage(out, type.message, members)
  if ('by' in type) {
    const [path, name] = type.choices[String(members[type.by])]!
    const inside = ([first, ...rest]: readonly number[]): void =>
      first === undefined ? writeMessage(out, name, members) : out.field(first, () => inside(rest))
    return inside(path)
  }
  if ('messageOrReference' in type) {
    const { $ref } = members
    return typeof $ref === 'string'
      ? out.field(2, () => out.textField(1, $ref))
      : out.field(1, () => writeMessage(out, type.messageOrReference, members))
  }
  if ('onlyOf' in type) return writeField(out, 1, type.onlyOf, value)
  if ('booleanOr' in type) {
    return typeof value === 'boolean' ? out.integerField(2, Number(value)) : writeField(out, 1, type.booleanOr, value)
  }
  for (const [name, one] of Object.entries(members).toReversed()) {
    out.field(type.at, () => writeEntry(out, name, type.byName, one))
  }
}

function writeEntry(out: BackwardWriter, name: string, type: FieldType, value: unknown): void {
  writeField(out, 2, type, value)
  out.textField(1, name)
}

/** Writes a scalar. The message cannot hold a list or an object. */
function writeScalar(out: BackwardWriter, value: unknown): void {
  if (typeof value === 'number' || typeof value === 'bigint') out.doubleField(1, Number(value))
  else if (typeof value === 'boolean') out.integerField(2, Number(value))
  else if (typeof value === 'string') out.textField(3, value)
}
