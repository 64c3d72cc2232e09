/**
 * The OpenAPI v2 document as protobuf (`openapi.v2.Document`), the form that client-go requests. Members without a
 * field in the message are `vendor_extension`s, whose values are YAML: JSON is YAML.
 *
 * Source: gnostic-models, openapiv2/OpenAPIv2.proto.
 */
import { exactText } from '../codec/exact-json.js'
import { MessageWriter } from '../codec/protobuf/message-writer.js'
import type { V2Document } from './openapi-v2.js'
import type { JsonSchema } from './openapi-schema.js'

export function v2Protobuf({ swagger, info, paths, definitions }: V2Document): Buffer {
  const named = new MessageWriter()
  for (const [name, item] of Object.entries(paths)) named.message(2, namedMessage(name, pathItem(item)))
  return new MessageWriter()
    .text(1, swagger)
    .message(2, new MessageWriter().text(1, info.title).text(2, info.version))
    .message(8, named)
    .message(9, namedSchemas(definitions))
    .finish()
}

function namedMessage(name: string, value: MessageWriter): MessageWriter {
  return new MessageWriter().text(1, name).message(2, value)
}

/** Writes Definitions and Properties. */
function namedSchemas(schemas: Readonly<Record<string, JsonSchema>>): MessageWriter {
  const writer = new MessageWriter()
  for (const [name, value] of Object.entries(schemas)) writer.message(1, namedMessage(name, schema(value)))
  return writer
}

const METHODS: Readonly<Record<string, number>> = { get: 2, put: 3, post: 4, delete: 5, patch: 8 }

function pathItem(item: JsonSchema): MessageWriter {
  const writer = new MessageWriter()
  for (const [method, number] of Object.entries(METHODS)) {
    const found = item[method]
    if (found !== undefined) writer.message(number, operation(found as JsonSchema))
  }
  return parameters(writer, 9, item['parameters'])
}

function operation(operation: JsonSchema): MessageWriter {
  const writer = new MessageWriter()
  for (const type of texts(operation['produces'])) writer.text(6, type)
  for (const type of texts(operation['consumes'])) writer.text(7, type)
  parameters(writer, 8, operation['parameters'])
  const responses = new MessageWriter()
  for (const [code, response] of Object.entries(operation['responses'] as Readonly<Record<string, JsonSchema>>)) {
    const { description, schema: of } = response
    const said = new MessageWriter().text(1, String(description))
    if (of !== undefined) said.message(2, new MessageWriter().message(1, schema(of as JsonSchema)))
    responses.message(1, namedMessage(code, new MessageWriter().message(1, said)))
  }
  return extensions(writer.message(9, responses), 13, operation)
}

function parameters(writer: MessageWriter, number: number, given: unknown): MessageWriter {
  for (const parameter of (given ?? []) as readonly JsonSchema[])
    writer.message(number, new MessageWriter().message(1, parameterOf(parameter)))
  return writer
}

/** Writes a parameter: a body, or one of the others, whose messages have different field numbers. */
function parameterOf(parameter: JsonSchema): MessageWriter {
  const { name, in: place, type, schema: of, required } = parameter
  const [title, inPlace] = [String(name), String(place)]
  if (inPlace === 'body') {
    const body = new MessageWriter()
      .text(2, title)
      .text(3, inPlace)
      .integer(4, Number(required === true))
    return new MessageWriter().message(1, body.message(5, schema(of as JsonSchema)))
  }
  const start = new MessageWriter()
    .integer(1, Number(required === true))
    .text(2, inPlace)
    .text(4, title)
  const isPath = inPlace === 'path'
  const rest = start.text(isPath ? 5 : 6, String(type)).integer(isPath ? 18 : 19, 1)
  return new MessageWriter().message(2, new MessageWriter().message(isPath ? 4 : 3, rest))
}

/** String fields of Schema. */
const TEXTS: Readonly<Record<string, number>> = { $ref: 1, format: 2, title: 3, description: 4, pattern: 13 }
const NUMBERS: Readonly<Record<string, number>> = {
  maxLength: 11, minLength: 12, maxItems: 14, minItems: 15, maxProperties: 17, minProperties: 18,
} // prettier-ignore

function schema(schemaJson: JsonSchema): MessageWriter {
  const writer = new MessageWriter()
  for (const [name, number] of Object.entries(TEXTS)) {
    const text = schemaJson[name]
    if (typeof text === 'string') writer.text(number, text)
  }
  for (const [name, number] of Object.entries(NUMBERS)) {
    const value = schemaJson[name]
    if (typeof value === 'number') writer.integer(number, value)
  }
  for (const name of texts(schemaJson['required'])) writer.text(19, name)
  for (const value of (schemaJson['enum'] ?? []) as readonly unknown[]) writer.message(20, yaml(value))
  const { additionalProperties, type, items, properties } = schemaJson
  if (typeof additionalProperties === 'boolean')
    writer.message(21, new MessageWriter().integer(2, Number(additionalProperties)))
  else if (additionalProperties !== undefined)
    writer.message(21, new MessageWriter().message(1, schema(additionalProperties as JsonSchema)))
  if (typeof type === 'string') writer.message(22, new MessageWriter().text(1, type))
  if (items !== undefined) writer.message(23, new MessageWriter().message(1, schema(items as JsonSchema)))
  if (properties !== undefined) writer.message(25, namedSchemas(properties as Readonly<Record<string, JsonSchema>>))
  return extensions(writer, 31, schemaJson)
}

function extensions(writer: MessageWriter, number: number, members: JsonSchema): MessageWriter {
  for (const [name, value] of Object.entries(members))
    if (name.startsWith('x-')) writer.message(number, namedMessage(name, yaml(value)))
  return writer
}

function yaml(value: unknown): MessageWriter {
  return new MessageWriter().text(2, exactText(value))
}

function texts(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : []
}
