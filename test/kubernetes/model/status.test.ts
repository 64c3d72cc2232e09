/** The part of a request that an error repeats is bounded, however long the client made it. */
import t from 'tap'
import {
  BehindError,
  BusyError,
  EngineError,
  RevisionExpiredError,
  RevisionUnknownError,
  SealedError,
  UnansweredError,
  UnservedError,
  WithheldError,
} from '../../../src/engine/model/errors.js'
import { keyFromText } from '../../../src/engine/model/event.js'
import type { Revision } from '../../../src/engine/model/revision.js'
import { BadRequestError, InvalidError, type Status } from '../../../src/kubernetes/model/status.js'
import { statusOf } from '../../../src/kubernetes/model/status-of.js'
import { startApp } from '../../support/app.js'

const LONG = 'a'.repeat(1_000_000)
/** The maximum size of a response with a hundred causes. */
const MOST_BYTES = 200_000

void t.test('a text of usual length is unchanged, a longer one is cut', (t) => {
  t.equal(new BadRequestError('x'.repeat(60_000)).message.length, 60_000)
  t.equal(new BadRequestError(LONG).message.length, 64 * 1024 + 3)
  const { details } = new BadRequestError('no', { details: { name: LONG, kind: 'pods', retryAfterSeconds: 1 } })
  t.match(details, { name: /^a{1024}\.{3}$/, kind: 'pods', retryAfterSeconds: 1 })
  const problem = { reason: 'FieldValueInvalid', message: 'no', field: `metadata.labels[${LONG}]` }
  const { causes = [] } = InvalidError.forFields('Pod', '', 'name', [problem]).toStatus().details ?? {}
  t.match(causes, [{ reason: 'FieldValueInvalid', message: 'no', field: /^metadata\.labels\[a+\.{3}$/ }])
  t.end()
})

void t.test('no answer repeats text that a client can make arbitrarily long', async (t) => {
  const { url } = await startApp(t, { flags: ['--enable-writes'] })
  const maps = '/api/v1/namespaces/default/configmaps'
  const ask = async (method: string, path: string, body: object): Promise<{ code: number; bytes: number }> => {
    const headers = { 'content-type': 'application/json' }
    const answer = await fetch(`${url}${path}`, { method, headers, body: JSON.stringify(body) })
    return { code: answer.status, bytes: (await answer.arrayBuffer()).byteLength }
  }
  const map = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a' } }
  t.equal((await ask('POST', maps, map)).code, 201)
  const rows: readonly (readonly [string, number, string, string, object])[] = [
    ['name', 422, 'POST', maps, { ...map, metadata: { name: LONG } }],
    ['kind', 400, 'POST', maps, { ...map, kind: LONG }],
    ['apiVersion', 400, 'POST', maps, { ...map, apiVersion: LONG }],
    ['unknown field', 400, 'POST', `${maps}?fieldValidation=Strict`, { ...map, [LONG]: 1 }],
    ['uid', 409, 'PUT', `${maps}/a`, { ...map, metadata: { name: 'a', uid: LONG } }],
  ]
  for (const [name, code, method, path, body] of rows) {
    const answer = await ask(method, path, body)
    t.equal(answer.code, code, name)
    t.ok(answer.bytes < MOST_BYTES, `${name}: ${answer.bytes} bytes`)
  }
})

void t.test("each of the engine's errors has Kubernetes' code, reason and words", (t) => {
  class UnknownError extends EngineError {}
  const [five, nine] = [5, 9] as Revision[]
  const sealed = new Map([[keyFromText('/registry/secrets/x/a'), 'no key']])
  const corrupt = /^StorageError: corrupt object, Code: 7, Key: \/registry\/secrets\/x\/a, .*: no key$/
  const tooLarge = { causes: [{ reason: 'ResourceVersionTooLarge' }] }
  const rows: readonly (readonly [EngineError, Partial<Status> | { readonly message: RegExp }])[] = [
    [
      new RevisionExpiredError(five!, nine!),
      { code: 410, reason: 'Expired', message: 'too old resource version: 5 (8)' },
    ],
    [
      new RevisionExpiredError(null, null),
      { code: 410, reason: 'Expired', message: 'The resourceVersion for the provided list is too old.' },
    ],
    [
      new RevisionUnknownError(nine!, five!),
      {
        code: 410,
        reason: 'Expired',
        message: 'resource version 9 has never existed here: the storage is at 5',
        details: tooLarge,
      },
    ],
    [
      new BehindError(nine!, five!),
      {
        code: 504,
        reason: 'Timeout',
        message: 'Timeout: Too large resource version: 9, current: 5',
        details: { ...tooLarge, retryAfterSeconds: 1 },
      },
    ],
    [
      new BusyError('full', 7),
      { code: 429, reason: 'TooManyRequests', message: 'full', details: { retryAfterSeconds: 7 } },
    ],
    [
      new SealedError('secrets', sealed, 'object'),
      { code: 500, reason: 'InternalError', message: /^Internal error occurred: StorageError: / },
    ],
    [
      new SealedError('secrets', sealed, 'list'),
      {
        code: 500,
        reason: 'StorageReadError',
        details: { name: 'list', kind: 'secrets', causes: [{ message: corrupt }] },
      },
    ],
    [
      new SealedError('secrets', sealed, 'watch'),
      {
        code: 429,
        message: /^storage is \(re\)initializing: failed to list .*: no key$/,
        details: { retryAfterSeconds: 1 },
      },
    ],
    [new WithheldError('too large'), { code: 501, reason: 'NotImplemented', message: 'too large' }],
    [
      new UnansweredError('pods: no answer'),
      { code: 504, reason: 'Timeout', message: 'Timeout: pods: no answer', details: { retryAfterSeconds: 1 } },
    ],
    [new UnservedError('gone', 1), { code: 503, reason: 'ServiceUnavailable', details: { retryAfterSeconds: 1 } }],
    [new UnknownError('new'), { code: 500, reason: 'InternalError', message: 'an internal error occurred' }],
  ] as never
  for (const [error, expected] of rows) t.match(statusOf(error).toStatus(), expected, error.name)
  t.equal(statusOf(new UnservedError('later', 0)).toStatus().details, undefined)
  t.end()
})
