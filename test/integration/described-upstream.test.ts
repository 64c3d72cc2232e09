/** A server behind `--upstream` sends its OpenAPI documents, which say what can be written there, and else its own. */
import t from 'tap'
import { startServer } from '../support/server-process.js'
import { startApp } from '../support/app.js'
import { until } from '../support/until.js'

void t.test('OpenAPI documents are those of the upstream while it answers', async (t) => {
  const upstream = await startApp(t, { flags: ['--enable-writes'] })
  const server = await startServer(t, { flags: ['--port=0', `--upstream=${upstream.url}`] })
  const paths = ['/openapi/v2', '/openapi/v3', '/openapi/v3/api/v1']
  const get = async (url: string): Promise<{ code: number; etag: string | null; body: string }> => {
    const response = await fetch(url, { headers: { accept: 'application/json' } })
    return { code: response.status, etag: response.headers.get('etag'), body: await response.text() }
  }
  for (const path of paths) {
    const [theirs, ours] = [await get(upstream.url + path), await get(server.url + path)]
    t.equal(theirs.code, 200)
    t.same(ours, theirs, path)
  }
  const { etag, body } = await get(`${server.url}${paths[2]}`)
  t.match(body, /"patch"/)
  const again = await fetch(`${server.url}${paths[2]}`, {
    headers: { 'if-none-match': etag!, accept: 'application/json' },
  })
  t.equal(again.status, 304)
  await upstream.app.stop()
  await until(async () => !(await get(`${server.url}${paths[2]}`)).body.includes('"patch"'), 'our own document')
  await get(`${server.url}${paths[0]}`)
  t.equal(server.log().split('sending our own').length, 2, 'the log says so once')
})
