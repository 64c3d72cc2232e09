/** Tests that the response for one object is gzipped from the API server's threshold on, and says so to caches. */
import { request } from 'node:http'
import { gunzipSync } from 'node:zlib'
import t from 'tap'
import { keyFromText } from '../../../../src/engine/model/event.js'
import { startApp } from '../../../support/app.js'
import { until } from '../../../support/until.js'

const PATH = '/api/v1/namespaces/default/configmaps'
const THRESHOLD = 128 * 1024

interface Answer {
  readonly code: number
  readonly encoding: string | undefined
  readonly vary: string
  readonly etag: string
  readonly body: Buffer
}

async function ask(url: string, method: string, headers: Readonly<Record<string, string>>, body = ''): Promise<Answer> {
  return await new Promise((resolve, reject) => {
    const sent = request(url, { method, headers: { 'content-type': 'application/json', ...headers } }, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('end', () => {
        const { 'content-encoding': encoding, vary = '', etag = '' } = response.headers
        resolve({ code: response.statusCode ?? 0, encoding, vary, etag, body: Buffer.concat(chunks) })
      })
    })
    sent.on('error', reject)
    sent.end(body)
  })
}

void t.test('an object larger than 128 KiB is gzipped for a client that takes gzip', async (t) => {
  const h = await startApp(t, { flags: ['--enable-writes'] })
  const create = async (name: string, bytes: number, headers = {}): Promise<Answer> => {
    const object = { metadata: { name }, data: { text: 'x'.repeat(bytes) } }
    return await ask(h.url + PATH, 'POST', headers, JSON.stringify(object))
  }
  const gzip = { 'accept-encoding': 'gzip' }
  const created = await create('large', 2 * THRESHOLD, gzip)
  t.equal(created.code, 201)
  t.equal(created.encoding, 'gzip', 'the answer to a write is one, too')
  const read = await ask(`${h.url}${PATH}/large`, 'GET', gzip)
  t.equal(read.encoding, 'gzip')
  t.match(read.vary, /\bAccept-Encoding\b/)
  const plain = await ask(`${h.url}${PATH}/large`, 'GET', {})
  t.equal(plain.encoding, undefined)
  t.match(plain.vary, /\bAccept-Encoding\b/, 'a cache must not give it to others only')
  const same = await ask(`${h.url}${PATH}/large`, 'GET', { 'if-none-match': plain.etag })
  t.match(same, { code: 304, vary: plain.vary }, 'a cache takes the headers of a 304')
  t.same(gunzipSync(read.body), plain.body)
  t.same(gunzipSync(created.body), plain.body)

  await create('small', 1)
  const { length: frame } = (await ask(`${h.url}${PATH}/small`, 'GET', gzip)).body
  await create('fits', THRESHOLD - frame - 20)
  await create('above', THRESHOLD - frame + 20)
  const fits = await ask(`${h.url}${PATH}/fits`, 'GET', gzip)
  t.ok(fits.body.length > THRESHOLD - 64 && fits.body.length <= THRESHOLD)
  t.equal(fits.encoding, undefined, 'up to 128 KiB')
  t.equal((await ask(`${h.url}${PATH}/above`, 'GET', gzip)).encoding, 'gzip', 'a little more')
})

void t.test('a value that is too large to serve is not found, with a warning as in the list', async (t) => {
  const h = await startApp(t, { flags: ['--resource', 'flags=/config/flags/'] })
  const put = (name: string, bytes: number): void =>
    void h.upstream.commit([
      { type: 'put', key: keyFromText(`/config/flags/${name}`), value: Buffer.alloc(bytes, 'x') },
    ])
  put('large', 9 * 2 ** 20)
  put('small', 5)
  const path = '/apis/distributary.io/v1/flags'
  await until(async () => (await fetch(`${h.url}${path}/small`)).status === 200, 'the cache has both')
  for (const [name, code, warning] of [
    ['/large', 404, /^299 - "the value of this object of flags.distributary.io cannot be served"$/],
    ['/none', 404, null],
    ['', 200, /^299 - "1 stored objects of flags.distributary.io cannot be served"$/],
  ] as const) {
    const { status, headers } = await fetch(`${h.url}${path}${name}`)
    t.equal(status, code, name)
    if (warning === null) t.equal(headers.get('warning'), null, name)
    else t.match(headers.get('warning'), warning, name)
  }
})
