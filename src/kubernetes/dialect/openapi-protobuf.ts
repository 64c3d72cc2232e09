/**
 * OpenAPI documents as protobuf (`openapi.v2.Document`, `openapi.v3.Document`), the form that client-go requests.
 * Members without a field in a message are its extensions, whose values are YAML: JSON is YAML.
 *
 * Source: gnostic-models, openapiv2/OpenAPIv2.proto and openapiv3/OpenAPIv3.proto, limited to what our documents use.
 */
import { BackwardWriter } from '../codec/protobuf/backward-writer.js'
import { exactText } from '../codec/exact-json.js'

/**
 * The content of a field. The messages of tables and of references are the same everywhere, so they have no separate
 * rows.
 */
export type FieldType =
  | 'text'
  | 'integer'
  | 'double'
  | 'boolean'
  /** Any JSON, as YAML. */
  | 'any'
  /** A number, a boolean or a text; the message cannot hold other values. */
  | 'scalar'
  | { readonly message: string }
  /** A message, or a `$ref` to one. */
  | { readonly messageOrReference: string }
  | { readonly each: FieldType }
  /** Members by name, in field `at` of a separate message. */
  | { readonly byName: FieldType; readonly at: number }
  /** One schema in a list of schemas. */
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

const schema: FieldType = { messageOrReference: 'Schema' }
const schemas: FieldType = { each: schema }
const operation: FieldType = { message: 'Operation' }
const parameters: FieldType = { each: { messageOrReference: 'Parameter' } }
const content: FieldType = { byName: { message: 'MediaType' }, at: 1 }

const v2 = {
  schema: { message: 'v2.Schema' },
  schemas: { byName: { message: 'v2.Schema' }, at: 1 },
  operation: { message: 'v2.Operation' },
  parameters: {
    each: {
      by: 'in',
      choices: {
        body: [[1, 1], 'v2.BodyParameter'],
        query: [[1, 2, 3], 'v2.QueryParameter'],
        path: [[1, 2, 4], 'v2.PathParameter'],
      },
    },
  },
} as const satisfies Readonly<Record<string, FieldType>>

export const OPENAPI_MESSAGES: Readonly<Record<string, MessageTable>> = {
  'v2.Document': {
    fields: {
      swagger: [1, 'text'],
      info: [2, { message: 'v2.Info' }],
      paths: [8, { byName: { message: 'v2.PathItem' }, at: 2 }],
      definitions: [9, v2.schemas],
    },
    extensions: 16,
  },
  'v2.Info': { fields: { title: [1, 'text'], version: [2, 'text'] }, extensions: 7 },
  'v2.PathItem': {
    fields: {
      get: [2, v2.operation],
      put: [3, v2.operation],
      post: [4, v2.operation],
      delete: [5, v2.operation],
      patch: [8, v2.operation],
      parameters: [9, v2.parameters],
    },
    extensions: 10,
  },
  'v2.Operation': {
    fields: {
      produces: [6, { each: 'text' }],
      consumes: [7, { each: 'text' }],
      parameters: [8, v2.parameters],
      responses: [9, { byName: { onlyOf: { message: 'v2.Response' } }, at: 1 }],
    },
    extensions: 13,
  },
  'v2.BodyParameter': {
    fields: { name: [2, 'text'], in: [3, 'text'], required: [4, 'boolean'], schema: [5, v2.schema] },
    extensions: 6,
  },
  'v2.QueryParameter': {
    fields: { required: [1, 'boolean'], in: [2, 'text'], name: [4, 'text'], type: [6, 'text'], uniqueItems: [20, 'boolean'] },
    extensions: 23,
  },
  'v2.PathParameter': {
    fields: { required: [1, 'boolean'], in: [2, 'text'], name: [4, 'text'], type: [5, 'text'], uniqueItems: [19, 'boolean'] },
    extensions: 22,
  },
  'v2.Response': { fields: { description: [1, 'text'], schema: [2, { onlyOf: v2.schema }] }, extensions: 5 },
  'v2.Schema': {
    fields: {
      $ref: [1, 'text'],
      format: [2, 'text'],
      title: [3, 'text'],
      description: [4, 'text'],
      multipleOf: [6, 'double'],
      maximum: [7, 'double'],
      exclusiveMaximum: [8, 'boolean'],
      minimum: [9, 'double'],
      exclusiveMinimum: [10, 'boolean'],
      maxLength: [11, 'integer'],
      minLength: [12, 'integer'],
      pattern: [13, 'text'],
      maxItems: [14, 'integer'],
      minItems: [15, 'integer'],
      uniqueItems: [16, 'boolean'],
      maxProperties: [17, 'integer'],
      minProperties: [18, 'integer'],
      required: [19, { each: 'text' }],
      enum: [20, { each: 'any' }],
      additionalProperties: [21, { booleanOr: v2.schema }],
      type: [22, { onlyOf: 'text' }],
      items: [23, { onlyOf: v2.schema }],
      properties: [25, v2.schemas],
    },
    extensions: 31,
  },
  Document: {
    fields: {
      openapi: [1, 'text'],
      info: [2, { message: 'Info' }],
      paths: [4, { byName: { message: 'PathItem' }, at: 1 }],
      components: [5, { message: 'Components' }],
    },
    extensions: 9,
  },
  Info: { fields: { title: [1, 'text'], version: [6, 'text'] }, extensions: 7 },
  Components: { fields: { schemas: [1, { byName: schema, at: 1 }] }, extensions: 10 },
  PathItem: {
    fields: {
      get: [4, operation],
      put: [5, operation],
      post: [6, operation],
      delete: [7, operation],
      patch: [10, operation],
      parameters: [13, parameters],
    },
    extensions: 14,
  },
  Operation: {
    fields: {
      tags: [1, { each: 'text' }],
      description: [3, 'text'],
      operationId: [5, 'text'],
      parameters: [6, parameters],
      requestBody: [7, { messageOrReference: 'RequestBody' }],
      responses: [8, { byName: { messageOrReference: 'Response' }, at: 2 }],
    },
    extensions: 13,
  },
  Parameter: {
    fields: { name: [1, 'text'], in: [2, 'text'], description: [3, 'text'], required: [4, 'boolean'], schema: [10, schema] },
    extensions: 14,
  },
  RequestBody: { fields: { content: [2, content], required: [3, 'boolean'] }, extensions: 4 },
  Response: { fields: { description: [1, 'text'], content: [3, content] }, extensions: 5 },
  MediaType: { fields: { schema: [1, schema] }, extensions: 5 },
  Schema: {
    fields: {
      nullable: [1, 'boolean'],
      title: [9, 'text'],
      multipleOf: [10, 'double'],
      maximum: [11, 'double'],
      exclusiveMaximum: [12, 'boolean'],
      minimum: [13, 'double'],
      exclusiveMinimum: [14, 'boolean'],
      maxLength: [15, 'integer'],
      minLength: [16, 'integer'],
      pattern: [17, 'text'],
      maxItems: [18, 'integer'],
      minItems: [19, 'integer'],
      uniqueItems: [20, 'boolean'],
      maxProperties: [21, 'integer'],
      minProperties: [22, 'integer'],
      required: [23, { each: 'text' }],
      enum: [24, { each: 'any' }],
      type: [25, 'text'],
      allOf: [26, schemas],
      oneOf: [27, schemas],
      anyOf: [28, schemas],
      not: [29, { message: 'Schema' }],
      items: [30, { onlyOf: schema }],
      properties: [31, { byName: schema, at: 1 }],
      additionalProperties: [32, { booleanOr: schema }],
      default: [33, 'scalar'],
      description: [34, 'text'],
      format: [35, 'text'],
    },
    extensions: 36,
  },
} // prettier-ignore

type Members = Readonly<Record<string, unknown>>

/** @param document in its JSON form. */
export function openApiProtobuf(version: 'v2' | 'v3', document: object): Buffer {
  const out = new BackwardWriter()
  writeMessage(out, version === 'v2' ? 'v2.Document' : 'Document', document as Members)
  return Buffer.from(out.finish())
}

/** Everything is written from the end: the last member first. */
function writeMessage(out: BackwardWriter, name: string, members: Members): void {
  const { fields, extensions } = OPENAPI_MESSAGES[name]!
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

/** The message cannot hold a list or an object. */
function writeScalar(out: BackwardWriter, value: unknown): void {
  if (typeof value === 'number' || typeof value === 'bigint') out.doubleField(1, Number(value))
  else if (typeof value === 'boolean') out.integerField(2, Number(value))
  else if (typeof value === 'string') out.textField(3, value)
}
