/** PROTOCOL section 6: errors. */
import t from 'tap'
import { pod } from '../support/pod.js'
import { type Row, checkRows, status } from './row.js'
import { overEveryUpstream } from './world.js'

const PODS = '/api/v1/namespaces/default/pods'
const refused = status(405, 'MethodNotAllowed', /^the server does not allow this method on the requested resource/)
const missing = status(404, 'NotFound', 'the server could not find the requested resource')
const body = JSON.stringify(pod('x'))

const ROWS: readonly Row[] = [
  ...(['POST', 'DELETE'] as const).map((method) => ({
    promise: `${method} of a collection is 405`,
    path: PODS,
    method,
    body,
    code: 405,
    has: refused,
  })),
  ...(['PUT', 'PATCH', 'DELETE', 'POST'] as const).map((method) => ({
    promise: `${method} of an object is 405`,
    path: `${PODS}/a`,
    method,
    body,
    code: 405,
    has: refused,
  })),
  ...['PROPFIND', 'TRACE', 'QUERY'].flatMap((method) =>
    [PODS, `${PODS}/a`].map((path) => ({ promise: `${method} ${path} is 405`, path, method, code: 405, has: refused })),
  ),
  {
    promise: 'a method of WebDAV on a path that leads nowhere is 404',
    path: '/nothing',
    method: 'PROPFIND',
    code: 404,
    has: missing,
  },
  { promise: 'OPTIONS of an object is 405', path: `${PODS}/a`, method: 'OPTIONS', code: 405, has: refused },
  {
    promise: 'a write of an unknown resource is 404',
    path: '/api/v1/namespaces/default/nothings',
    method: 'POST',
    body,
    code: 404,
    has: missing,
  },
  // Only the API server serves these.
  ...['/apis/authentication.k8s.io/v1/tokenreviews', '/api/v1/namespaces/default/bindings'].map((path) => ({
    promise: `a resource that can only be created is 405 by GET: ${path}`,
    path,
    code: 405,
    has: refused,
  })),
  ...['/apis/authentication.k8s.io/v1/tokenreviews/x', '/api/v1/bindings'].map((path) => ({
    promise: `a path that no method has is 404: ${path}`,
    path,
    code: 404,
    has: missing,
  })),
  {
    promise: 'a binding cannot be created here',
    path: '/api/v1/namespaces/default/bindings',
    method: 'POST',
    body,
    code: 404,
    has: missing,
  },
  {
    promise: 'a write in an unsupported format is 405 unread',
    path: PODS,
    method: 'POST',
    headers: { 'content-type': 'text/csv' },
    body: 'a,b',
    code: 405,
    has: refused,
  },
  {
    promise: 'a missing object is 404 with its group',
    path: '/apis/apps/v1/namespaces/default/deployments/x',
    code: 404,
    has: {
      ...status(404, 'NotFound', 'deployments.apps "x" not found'),
      details: { name: 'x', group: 'apps', kind: 'deployments' },
    },
  },
  {
    promise: 'the error of a limit that is not a number names the parameter',
    path: `${PODS}?limit=x`,
    code: 400,
    has: status(400, 'BadRequest', 'limit'),
  },
  {
    promise: 'an invalid name is 400',
    path: `${PODS}/a%25b`,
    code: 400,
    has: status(400, 'BadRequest', `Name parameter invalid: "a%b": may not contain '%'`),
  },
  {
    promise: 'a body with a GET is ignored',
    path: `${PODS}/a`,
    headers: { 'content-type': 'application/json' },
    body: '{',
    code: 200,
  },
  ...(
    [
      ['abc', 'invalid duration "abc"'],
      ['10', 'missing unit in duration "10"'],
      ['1x', 'unknown unit "x" in duration "1x"'],
      ['1s2', 'missing unit in duration "1s2"'],
      ['--1s', 'invalid duration "--1s"'],
      ['3000000h', 'invalid duration "3000000h"'],
    ] as const
  ).flatMap(([timeout, why]) =>
    [PODS, `${PODS}/a`, '/apis', '/api/v1/namespaces/default/nothings'].map((path) => ({
      promise: `a timeout of ${timeout} is 400: ${path}`,
      path: `${path}?timeout=${timeout}`,
      code: 400,
      has: status(400, 'BadRequest', `invalid timeout specified in the request URL - time: ${why}`),
    })),
  ),
  ...['1s', '1h2m3.5s', '-1.5µs', '0', ''].map((timeout) => ({
    promise: `a timeout of ${timeout} is one`,
    path: `${PODS}/a?timeout=${encodeURIComponent(timeout)}`,
    code: 200,
  })),
  { promise: 'an unknown parameter is ignored', path: `${PODS}/a?export=true&x=%ff`, code: 200 },
]

overEveryUpstream(t, 'errors', { seeds: [{ 'pods/default/a': pod('a') }] }, async (t, w) => {
  await checkRows(
    t,
    w,
    ROWS.map((row) => ({
      ...row,
      sends: {
        'content-type': 'application/json',
        'cache-control': 'no-cache, private',
        ...(row.code === 200 ? {} : { 'x-content-type-options': 'nosniff' }),
      },
    })),
  )
})

overEveryUpstream(
  t,
  'too many watchers of one client',
  { seeds: [{ 'pods/default/a': pod('a') }], flags: ['--max-watchers-per-client=1'] },
  async (t, w) => {
    const one = await w.watch(`${PODS}?watch=1`)
    await one.events.first(1)
    await checkRows(t, w, [
      {
        promise: 'is 429, with Retry-After',
        path: `${PODS}?watch=1`,
        code: 429,
        has: { ...status(429, 'TooManyRequests', /./), details: { retryAfterSeconds: Number } },
        sends: { 'retry-after': /^[1-9]\d*$/ },
      },
    ])
    one.close()
  },
)
