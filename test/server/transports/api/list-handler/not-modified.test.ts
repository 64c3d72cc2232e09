/** A 304 means that the list is as fresh as requested, and that a watch can start from it. */
import t from 'tap'
import type { Revision } from '../../../../../src/engine/model/revision.js'
import { startApp } from '../../../../support/app.js'
import { pod } from '../../../../support/pod.js'
import { until } from '../../../../support/until.js'

const PODS = '/api/v1/pods'

void t.test(
  'a list from which no watch can begin any more is sent whole, whatever the client has cached',
  async (t) => {
    const app = await startApp(t, { config: { defaultWatchCacheSize: 1, watchCacheAge: 0 } })
    const source = [...app.app.sources].find(({ resource }) => resource.plural === 'pods')!
    const first = app.put('pods/default/a', pod('a'))
    await until(() => source.cache.revision >= first, 'it is there')
    const exact = `${app.url}${PODS}?resourceVersion=${first}&resourceVersionMatch=Exact`
    const ask = async (url: string, etag?: string): Promise<Response> =>
      await fetch(url, etag === undefined ? {} : { headers: { 'if-none-match': etag } })
    const kept = await ask(exact)
    const etag = kept.headers.get('etag')!
    t.equal((await ask(exact, etag)).status, 304, 'while it is young')
    for (let i = 0; i < 5; i++) app.put(`pods/default/b${i}`, pod(`b${i}`))
    const watch = `${app.url}${PODS}?watch=1&resourceVersion=${first}&timeoutSeconds=1`
    await until(async () => (await (await ask(watch)).text()).includes('"code":410'), 'no watch begins there')
    const again = await ask(exact, etag)
    t.equal(again.status, 200, 'otherwise a client would go round: 304, watch, 410')
    t.equal(await again.text(), await kept.text())
    const newest = await ask(app.url + PODS)
    const { metadata } = (await newest.json()) as { metadata: { resourceVersion: string } }
    t.ok(source.cache.history.isResumable(Number(metadata.resourceVersion) as Revision))
    t.equal(
      (await ask(app.url + PODS, newest.headers.get('etag')!)).status,
      304,
      'the newest list is always young enough',
    )
  },
)

void t.test('a cached list is compared with a state as fresh as requested', async (t) => {
  const app = await startApp(t)
  app.put('pods/default/a', pod('a'))
  const ask = async (query: string, etag = ''): Promise<Response> =>
    await fetch(`${app.url}${PODS}?${query}`, { headers: { 'if-none-match': etag } })
  await until(async () => (await (await ask('')).text()).includes('"a"'), 'it is there')
  const etag = (await ask('')).headers.get('etag')!
  const second = app.put('pods/default/b', pod('b'))
  t.equal((await ask(`resourceVersion=${second}`, etag)).status, 200)
  t.equal((await ask('', etag)).status, 200)
  t.equal((await ask(`resourceVersion=${second + 1000}`, etag)).status, 504, 'nothing is kept of what does not exist')
  const head = await fetch(app.url + PODS, { method: 'HEAD' })
  const got = await ask('')
  t.equal(head.headers.get('etag'), got.headers.get('etag'))
  const headAgain = await fetch(app.url + PODS, {
    method: 'HEAD',
    headers: { 'if-none-match': `${got.headers.get('etag')}` },
  })
  t.equal(headAgain.status, 304)
})

void t.test('pages of allowed origins may read the ETag, and send it', async (t) => {
  const app = await startApp(t, { flags: ['--cors-allowed-origins', 'https://app.example.org'] })
  const origin = 'https://app.example.org'
  const list = await fetch(app.url + PODS, { headers: { origin } })
  t.match(list.headers.get('access-control-expose-headers'), /\bETag\b/)
  t.equal(list.headers.get('vary'), 'Origin, Accept, User-Agent, Accept-Encoding')
  const preflight = await fetch(app.url + PODS, {
    method: 'OPTIONS',
    headers: { origin, 'access-control-request-method': 'GET', 'access-control-request-headers': 'if-none-match' },
  })
  t.match(preflight.headers.get('access-control-allow-headers'), /\bIf-None-Match\b/)
})

void t.test(
  'a list of a resource that is not cached is compared by its content, before its body is built',
  async (t) => {
    const app = await startApp(t, {
      flags: ['--watch-cache-sizes', 'pods#0'],
      objects: {
        'pods/default/a': pod('a', { labels: { app: 'x' } }),
        'pods/default/b': pod('b'),
        'pods/other/a': pod('a', { namespace: 'other' }),
      },
    })
    const ask = async (path: string, headers: Record<string, string>): Promise<Response> =>
      await fetch(app.url + path, { headers })
    const { metadata } = (await (await ask(PODS, {})).json()) as { metadata: { resourceVersion: string } }
    const paths = [
      PODS,
      '/api/v1/namespaces/default/pods',
      `${PODS}?limit=1`,
      `${PODS}?labelSelector=app%3Dx`,
      `${PODS}?resourceVersion=0`,
      `${PODS}?resourceVersion=${metadata.resourceVersion}&resourceVersionMatch=Exact`,
      '/api/v1/namespaces/default/pods/a',
    ]
    const forms = [
      'application/json',
      'application/vnd.kubernetes.protobuf, application/json',
      'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, application/json',
    ]
    const kept: { readonly path: string; readonly accept: string; readonly etag: string }[] = []
    for (const path of paths) {
      for (const accept of forms) {
        const first = await ask(path, { accept })
        const etag = first.headers.get('etag') ?? ''
        t.match([first.status, etag], [200, /^W\/"/], `${path} ${accept}`)
        t.equal(first.headers.get('x-distributary-history'), null, 'its history is known to nobody else')
        const again = await ask(path, { accept, 'if-none-match': etag })
        t.match([again.status, await again.text()], [304, ''], `${path} ${accept}`)
        kept.push({ path, accept, etag })
      }
    }
    app.put('pods/default/b', pod('b', { labels: { app: 'x' } }))
    for (const { path, accept, etag } of kept) {
      const isSame = path.includes('Exact') || path.endsWith('/a')
      t.equal((await ask(path, { accept, 'if-none-match': etag })).status, isSame ? 304 : 200, `${path} ${accept}`)
    }
  },
)

void t.test(
  'a watch that names another history ends with a 410, and one that names the list’s continues',
  async (t) => {
    const app = await startApp(t, { objects: { 'pods/default/a': pod('a') } })
    const list = await fetch(app.url + PODS)
    const history = list.headers.get('x-distributary-history') ?? ''
    const { metadata } = (await list.json()) as { metadata: { resourceVersion: string } }
    const watch = `${app.url}${PODS}?watch=1&timeoutSeconds=1&resourceVersion=${metadata.resourceVersion}`
    for (const [named, isKnown] of [
      ['', true],
      [`&history=${history}`, true],
      ['&history=other', false],
      ['&history=', false],
    ] as const) {
      const answer = await fetch(watch + named)
      t.match([answer.status, answer.headers.get('x-distributary-history')], [200, history], named)
      const text = await answer.text()
      t.equal(text === '' || !text.includes('"code":410'), isKnown, text)
    }
    const head = await fetch(watch, { method: 'HEAD' })
    t.equal(head.headers.get('x-distributary-history'), history)
  },
)
