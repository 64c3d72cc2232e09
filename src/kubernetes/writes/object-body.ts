/** Parses the body of a write in any format into a tree. kubectl sends built-in kinds as protobuf. */
import { CodecError } from '../codec/protobuf/codec-error.js'
import { decodeObject } from '../codec/protobuf/decode.js'
import { type Envelope, openEnvelope } from '../codec/protobuf/envelope.js'
import type { Schema } from '../codec/protobuf/schema.js'
import {
  isRecord,
  type Json,
  type JsonRecord,
  jsonText,
  type ParsedJson,
  parseJsonTree,
  record,
  textMember,
} from '../codec/json-tree.js'
import { parseYamlTree } from '../codec/yaml-tree.js'
import { bodyMediaType } from '../dialect/media-type.js'
import { apiVersion, type ApiResource } from '../model/api-resource.js'
import { BadRequestError, RequestEntityTooLargeError, UnsupportedMediaTypeError } from '../model/status.js'
import { MAX_BODY_MESSAGES } from '../model/limits.js'

const PROTOBUF = 'application/vnd.kubernetes.protobuf'
const OBJECT_TYPES = ['application/json', 'application/yaml', PROTOBUF] as const

export interface ReadBody extends ParsedJson {
  readonly value: JsonRecord
  /** The body itself, if it is JSON. */
  readonly json: Buffer | null
}

/**
 * @param holds what the resource stores; undefined if the body is not stored.
 * @throws BadRequestError, UnsupportedMediaTypeError
 */
export function readObject(
  contentType: string | undefined,
  body: Buffer,
  schema: Schema,
  holds?: ApiResource['holds'],
): ReadBody {
  const type = bodyMediaType(contentType, OBJECT_TYPES)
  const { value, duplicates } = decode(
    type === PROTOBUF ? fromProtobuf(body, schema) : body,
    type === 'application/yaml',
    holds,
  )
  if (!isRecord(value)) throw new BadRequestError('the body of the request must be an object')
  return { value, duplicates, json: type === 'application/json' ? body : null }
}

/** Parses the optional body of a delete; null if there is none. */
export function readOptionalObject(contentType: string | undefined, body: Buffer, schema: Schema): Json {
  return body.length === 0 ? null : readObject(contentType, body, schema).value
}

/** Parses the body of an access review, as plain values. @throws BadRequestError, UnsupportedMediaTypeError */
export function parseReviewBody(
  contentType: string | undefined,
  body: Buffer,
  schema: Schema,
  { group, kind }: { readonly group: string; readonly kind: string },
): object {
  const expected = { group, version: 'v1', kind }
  // Other kinds take longer to read than reviews do.
  if (bodyMediaType(contentType, OBJECT_TYPES) === PROTOBUF) checkType(record({ ...typeOf(body) }), expected)
  const { value } = readObject(contentType, body, schema)
  checkType(value, expected)
  return JSON.parse(jsonText(value)) as object
}

/** The type that a body names. @throws UnsupportedMediaTypeError */
function typeOf(body: Buffer): Pick<Envelope, 'apiVersion' | 'kind'> {
  try {
    const { apiVersion, kind } = openEnvelope(body)
    return { apiVersion, kind }
  } catch (error) {
    throw unreadable(error)
  }
}

/** Fields that are not in the schema would be lost, so a client that sends some must send JSON instead. */
function fromProtobuf(body: Buffer, schema: Schema): Buffer {
  try {
    const { bytes, unknownFields } = decodeObject(body, schema, {
      keepResourceVersion: true,
      withoutDefaults: true,
      maxMessages: MAX_BODY_MESSAGES,
    })
    if (unknownFields === 0) return bytes
    throw new UnsupportedMediaTypeError('the body has protobuf fields that this server does not know: send JSON')
  } catch (error) {
    throw unreadable(error)
  }
}

function unreadable(error: unknown): unknown {
  if (!(error instanceof CodecError)) return error
  if (error.code === 'too-large' || error.code === 'too-deep') {
    return new RequestEntityTooLargeError(`the body cannot be read as protobuf: ${error.message}`)
  }
  return new UnsupportedMediaTypeError(`the body cannot be read as protobuf, send JSON: ${error.message}`)
}

/**
 * Refuses numbers beyond a double, except in values of a declared prefix, which then become text.
 * @throws BadRequestError with the position, if it is known.
 */
export function decode(body: Buffer, isYaml: boolean, holds?: ApiResource['holds']): ParsedJson {
  try {
    if (!isYaml) return parseJsonTree(body, holds === 'values' ? 'any' : 'float64')
    return parseYamlTree(body.toString('utf8'))
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    throw new BadRequestError(`couldn't read the body as ${isYaml ? 'YAML' : 'JSON'}: ${error.message}`)
  }
}

/** Gives an object without a type the type of the path. @throws BadRequestError when the object has another type. */
export function checkType(object: JsonRecord, expected: Pick<ApiResource, 'group' | 'version' | 'kind'>): void {
  for (const name of ['kind', 'apiVersion']) {
    const value = object[name] ?? null
    if (value !== null && typeof value !== 'string') {
      throw new BadRequestError(`the ${name} of the object must be a string: ${jsonText(value).slice(0, 100)}`)
    }
  }
  const version = textMember(object, 'apiVersion')
  const kind = textMember(object, 'kind')
  if (version !== '' && version !== apiVersion(expected)) {
    throw new BadRequestError(
      `the API version in the data (${version}) does not match the expected API version (${apiVersion(expected)})`,
    )
  }
  if (kind !== '' && kind !== expected.kind) {
    throw new BadRequestError(`the kind in the data (${kind}) does not match the expected kind (${expected.kind})`)
  }
}
