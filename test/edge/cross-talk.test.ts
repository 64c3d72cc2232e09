/**
 * Callers with different permissions send every kind of read through real caches: nobody ever gets another caller's
 * response.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { keyFromText } from '../../src/engine/model/event.js'
import { startApp } from '../support/app.js'
import { startHttpCache } from '../support/http-cache.js'
import { pod } from '../support/pod.js'
import { until } from '../support/until.js'

const POLICY = `rules:
  - users: [ann]
    verbs: ["*"]
    apiGroups: ["*"]
    resources: ["*"]
  - users: [bob, system:anonymous]
    verbs: [get, list, watch]
    apiGroups: [distributary.io]
    resources: [flags]
  - users: [bob]
    verbs: [get, list, watch]
    apiGroups: [""]
    resources: [pods]
    namespaces: [web]
`

const FORMS = [
  'application/json',
  'application/yaml',
  'application/vnd.kubernetes.protobuf',
  'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1',
  'application/json;as=Table;g=meta.k8s.io;v=v1',
]
const PATHS = [
  '/apis/distributary.io/v1/flags',
  '/apis/distributary.io/v1/flags/eu:checkout',
  '/apis/distributary.io/v1/secrets',
  '/apis/distributary.io/v1/secrets/a',
  '/api/v1/pods',
  '/api/v1/namespaces/web/pods',
  '/api/v1/namespaces/db/pods',
  '/api/v1/namespaces/db/pods/a',
]
const QUERIES = [
  '',
  'pretty=1',
  'limit=1',
  'labelSelector=app%3Da',
  'fields=metadata.name',
  'resourceVersion=0',
  'poll',
]
const USERS = ['ann', 'bob', ''] as const

interface Answer {
  readonly code: number
  readonly cacheControl: string
  readonly body: string
}

void t.test('through nginx and Varnish every caller gets its own response, in every form', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'edge-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const file = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text)
    return join(folder, name)
  }
  const objects = Object.fromEntries(
    ['web', 'db'].flatMap((namespace) =>
      ['a', 'b'].map((name) => [`pods/${namespace}/${name}`, pod(name, { namespace, labels: { app: name } })]),
    ),
  )
  // prettier-ignore
  const app = await startApp(t, {
    objects,
    flags: [
      '--resource', 'flags=/config/flags/', '--resource', 'secrets=/config/secrets/',
      '--token-auth-file', file('tokens.csv', 'ann,ann,1\nbob,bob,2\n'), '--anonymous-auth',
      '--authorization-mode=Policy', '--authorization-policy-file', file('policy.yaml', POLICY),
      '--ticket-key-file', file('key', 'k'.repeat(40)),
      '--public-caching', 'flags.distributary.io=5s/30s', '--requests-per-second=100000',
    ],
  })
  for (const key of ['flags/eu/checkout', 'flags/us/checkout', 'secrets/a']) {
    app.upstream.commit([{ type: 'put', key: keyFromText(`/config/${key}`), value: Buffer.from('"PLANTED"') }])
  }
  const ask = async (base: string, user: string, path: string, accept: string): Promise<Answer> => {
    const authorization: Record<string, string> = user === '' ? {} : { authorization: `Bearer ${user}` }
    const response = await fetch(base + path, { headers: { accept, ...authorization } })
    const body = Buffer.from(await response.arrayBuffer()).toString('latin1')
    return { code: response.status, cacheControl: response.headers.get('cache-control') ?? '', body }
  }
  await until(
    async () => (await ask(app.url, 'ann', '/apis/distributary.io/v1/secrets/a', FORMS[0]!)).code === 200,
    'all',
  )
  const histories = new Map<string, string>()
  for (const path of PATHS) {
    const response = await fetch(app.url + path, { headers: { authorization: 'Bearer ann' } })
    histories.set(path, response.headers.get('x-distributary-history') ?? '')
    await response.body?.cancel()
  }
  const ticketOf = async (user: string, path: string): Promise<string> => {
    const headers = { authorization: `Bearer ${user}`, 'content-type': 'application/json' }
    const response = await fetch(`${app.url}/tickets`, { method: 'POST', headers, body: JSON.stringify({ path }) })
    return ((await response.json()) as { readonly ticket: string }).ticket
  }

  for (const name of ['nginx', 'varnish'] as const) {
    const cache = await startHttpCache(t, name, app.port)
    let asked = 0
    for (const path of PATHS) {
      for (const query of QUERIES) {
        for (const accept of FORMS) {
          // A get has no polls; one from the beginning has events to answer with at once, or is a 410.
          if (query === 'poll' && (/[:/]a$|checkout$/.test(path) || accept !== FORMS[0])) continue
          const poll = `watch=1&resourceVersion=1&wait=1s&history=${histories.get(path)}`
          const url = query === '' ? path : `${path}?${query === 'poll' ? poll : query}`
          // Two rounds, so that the second meets whatever the first has left in the caches.
          for (const user of [...USERS, ...USERS.toReversed()]) {
            const direct = await ask(app.url, user, url, accept)
            const cached = await ask(cache.url, user, url, accept)
            asked++
            // Ages in a Table change each second.
            const isSame = cached.code === direct.code && (accept.includes('Table') || cached.body === direct.body)
            if (!isSame) t.fail(`${name}: ${user} ${url} ${accept}: ${cached.code}, not ${direct.code}`)
            if (user !== 'ann' && !path.includes('flags') && cached.body.includes('PLANTED')) t.fail(`${user} ${url}`)
          }
        }
      }
      for (const user of ['ann', 'bob', 'ann']) {
        const url = `${path}?ticket=${await ticketOf(user, path)}`
        const [direct, cached] = [await ask(app.url, '', url, FORMS[0]!), await ask(cache.url, '', url, FORMS[0]!)]
        t.match(cached, direct, `${name}: a ticket of ${user} for ${path}`)
        t.equal(cached.cacheControl, 'private, no-store')
      }
    }
    t.ok(asked > 1_000, `${asked} answers through ${name}`)
    if (name === 'nginx') {
      t.match(cache.log(), / HIT$/m, 'some of them from its cache')
      t.notMatch(cache.log(), /ticket|eyJ/, 'whose log has no ticket')
    }
  }
})
