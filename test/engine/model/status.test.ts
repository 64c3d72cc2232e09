/** The part of a request that an error repeats is bounded, however long the client made it. */
import t from 'tap'
import { BadRequestError, InvalidError } from '../../../src/engine/model/status.js'
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
