/**
 * Encodes errors: the Status object as JSON, YAML or protobuf, and its headers. It also has the messages that
 * clients of the API server know, so that every stage uses the same wording.
 */
import { indentJson } from '../codec/json-indent.js'
import { jsonToYaml } from '../codec/json-to-yaml.js'
import { encodeStatus } from '../codec/protobuf/encode.js'
import { type ApiResource, resourceId } from '../model/api-resource.js'
import {
  AlreadyExistsError,
  ConflictError,
  MethodNotAllowedError,
  NotFoundError,
  type StatusDetails,
  type StatusError,
} from '../model/status.js'
import { type Encoding, JSON_MEDIA_TYPE, PROTOBUF_MEDIA_TYPE, YAML_MEDIA_TYPE } from './accept.js'

export interface StatusResponse {
  readonly code: number
  /** The names of the headers are in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

export function statusResponse(
  error: StatusError,
  encoding: Encoding,
  options: { pretty?: boolean } = {},
): StatusResponse {
  const status = error.toStatus()
  if (encoding === 'protobuf') {
    return { code: error.code, headers: statusHeaders(error, PROTOBUF_MEDIA_TYPE), body: encodeStatus(status) }
  }
  const json = Buffer.from(JSON.stringify(status))
  const contentType = encoding === 'yaml' ? YAML_MEDIA_TYPE : JSON_MEDIA_TYPE
  const body =
    encoding === 'yaml'
      ? Buffer.from(jsonToYaml(json))
      : Buffer.concat([options.pretty === true ? indentJson(json) : json, NEWLINE])
  return { code: error.code, headers: statusHeaders(error, contentType), body }
}

const NEWLINE = Buffer.from('\n')

/** Adds `retry-after` whenever the details contain a delay. */
function statusHeaders(error: StatusError, contentType: string): Record<string, string> {
  // The message repeats text from the client, so nosniff keeps browsers from reading it as HTML.
  const headers: Record<string, string> = {
    'content-type': contentType,
    'cache-control': 'no-cache, private',
    'x-content-type-options': 'nosniff',
  }
  const seconds = error.details?.retryAfterSeconds
  if (seconds !== undefined && seconds > 0) headers['retry-after'] = String(Math.ceil(seconds))
  return headers
}

type ResourceName = Pick<ApiResource, 'group' | 'plural'>

/** As in the API server, `kind` in the details of a request's error is the plural of the resource. */
function detailsOf({ group, plural }: ResourceName, name: string): StatusDetails {
  return { ...(name === '' ? {} : { name }), ...(group === '' ? {} : { group }), kind: plural }
}

/** Returns an error such as `pods "a" not found` or `deployments.apps "a" not found`. */
export function objectNotFoundError(resource: ResourceName, name: string): NotFoundError {
  return new NotFoundError(`${resourceId(resource)} ${JSON.stringify(name)} not found`, {
    details: detailsOf(resource, name),
  })
}

export function alreadyExistsError(resource: ResourceName, name: string, isDeleting = false): AlreadyExistsError {
  const when = isDeleting ? 'object is being deleted: ' : ''
  return new AlreadyExistsError(`${when}${resourceId(resource)} ${JSON.stringify(name)} already exists`, {
    details: detailsOf(resource, name),
  })
}

/** @param why the reason. Default: the object was changed since it was read. */
export function conflictError(
  resource: ResourceName,
  name: string,
  why = 'the object has been modified; please apply your changes to the latest version and try again',
): ConflictError {
  return new ConflictError(`Operation cannot be fulfilled on ${resourceId(resource)} ${JSON.stringify(name)}: ${why}`, {
    details: detailsOf(resource, name),
  })
}

/** @param verb as in RBAC: `list`, `create`, `deletecollection`. */
export function methodNotAllowedError(resource: ResourceName, verb: string): MethodNotAllowedError {
  return new MethodNotAllowedError(
    `${verb} is not supported on resources of kind ${JSON.stringify(resourceId(resource))}`,
    { details: detailsOf(resource, '') },
  )
}
