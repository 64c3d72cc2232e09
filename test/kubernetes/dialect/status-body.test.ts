import t from 'tap'
import { parse } from 'yaml'

import {
  alreadyExistsError,
  conflictError,
  methodNotAllowedError,
  objectNotFoundError,
  statusResponse,
} from '../../../src/kubernetes/dialect/status-body.js'
import { toRevision } from '../../../src/engine/model/revision.js'
import {
  ExpiredError,
  TooLargeResourceVersionError,
  TooManyRequestsError,
} from '../../../src/kubernetes/model/status.js'

const pods = { group: '', plural: 'pods' }
const deployments = { group: 'apps', plural: 'deployments' }

void t.test('a Status is the same object in JSON, indented JSON and YAML', async (t) => {
  const error = new TooLargeResourceVersionError(toRevision(9), toRevision(5))
  const wanted = {
    kind: 'Status',
    apiVersion: 'v1',
    metadata: {},
    status: 'Failure',
    message: 'Timeout: Too large resource version: 9, current: 5',
    reason: 'Timeout',
    details: {
      causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }],
      retryAfterSeconds: 1,
    },
    code: 504,
  }
  const json = statusResponse(error, 'json')
  t.equal(json.code, 504)
  t.equal(json.body.toString(), `${JSON.stringify(wanted)}\n`)
  t.strictSame(json.headers, {
    'content-type': 'application/json',
    'cache-control': 'no-cache, private',
    'x-content-type-options': 'nosniff',
    'retry-after': '1',
  })
  t.equal(statusResponse(error, 'json', { pretty: true }).body.toString(), `${JSON.stringify(wanted, null, 2)}\n`)
  const yaml = statusResponse(error, 'yaml')
  t.strictSame(parse(yaml.body.toString()), wanted)
  t.equal(yaml.headers['content-type'], 'application/yaml')
})

void t.test('Retry-After is sent whenever the details contain a delay, in whole seconds', async (t) => {
  t.equal(statusResponse(new TooManyRequestsError('listing', 7), 'json').headers['retry-after'], '7')
  t.equal(statusResponse(new TooManyRequestsError('listing', 0.2), 'json').headers['retry-after'], '1')
  t.notOk('retry-after' in statusResponse(ExpiredError.tooOld(toRevision(2), toRevision(9)), 'json').headers)
})

void t.test('errors have the texts that clients of the API server know', async (t) => {
  t.strictSame(objectNotFoundError(pods, 'a').toStatus(), {
    kind: 'Status',
    apiVersion: 'v1',
    metadata: {},
    status: 'Failure',
    message: 'pods "a" not found',
    reason: 'NotFound',
    details: { name: 'a', kind: 'pods' },
    code: 404,
  })
  t.match(objectNotFoundError(deployments, 'a').toStatus(), {
    message: 'deployments.apps "a" not found',
    details: { name: 'a', group: 'apps', kind: 'deployments' },
  })
  t.match(alreadyExistsError(pods, 'a').toStatus(), {
    code: 409,
    reason: 'AlreadyExists',
    message: 'pods "a" already exists',
  })
  t.match(conflictError(pods, 'a').toStatus(), {
    code: 409,
    reason: 'Conflict',
    message: /^Operation cannot be fulfilled on pods "a": the object has been modified; /,
  })
  t.match(methodNotAllowedError(deployments, 'delete').toStatus(), {
    code: 405,
    reason: 'MethodNotAllowed',
    message: 'delete is not supported on resources of kind "deployments.apps"',
  })
})
