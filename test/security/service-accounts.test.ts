/**
 * Service account tokens issued by a cluster (issue 41): verified here, and valid only while the pod, node, Secret and
 * service account that they are bound to are in etcd, by UID. What cannot be decided here is sent to an API server.
 */
import { createHash, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { type JWTPayload, SignJWT } from 'jose'
import t, { type Test } from 'tap'
import { Folder, jsonServer } from '../server/auth/fixtures.js'
import { startEtcd } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { LightWatcher } from '../support/light-watcher.js'
import { pod } from '../support/pod.js'
import { startServer } from '../support/server-process.js'
import { until } from '../support/until.js'

const ISSUER = 'https://kubernetes.default.svc'
const PODS = '/api/v1/namespaces/default/pods'
const SELF = '/apis/authentication.k8s.io/v1/selfsubjectreviews'

interface Key {
  readonly kid: string
  readonly privateKey: KeyObject
  readonly publicPem: string
}

/** Makes a key with the key id that an API server would derive. */
function makeKey(type: 'rsa' | 'ec'): Key {
  const { privateKey } =
    type === 'rsa'
      ? generateKeyPairSync('rsa', { modulusLength: 2048 })
      : generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const publicKey = createPublicKey(privateKey)
  const kid = createHash('sha256')
    .update(publicKey.export({ type: 'spki', format: 'der' }))
    .digest('base64url')
  return { kid, privateKey, publicPem: String(publicKey.export({ type: 'spki', format: 'pem' })) }
}

const [RSA, EC, FOREIGN] = [makeKey('rsa'), makeKey('ec'), makeKey('rsa')]

const account = (name: string): object => object('ServiceAccount', name)
const object = (kind: string, name: string, more: object = {}): object => ({
  apiVersion: 'v1',
  kind,
  metadata: { name, ...(kind === 'Node' ? {} : { namespace: 'default' }), uid: `uid-of-${name}`, ...more },
})

/** Claims as an API server writes them, for the account `agent`. */
function claims(bound: object = {}, more: JWTPayload = {}): JWTPayload {
  const now = Math.floor(Date.now() / 1_000)
  return {
    iss: ISSUER,
    aud: [ISSUER],
    sub: 'system:serviceaccount:default:agent',
    iat: now,
    nbf: now,
    exp: now + 600,
    jti: 'token-id',
    'kubernetes.io': { namespace: 'default', serviceaccount: { name: 'agent', uid: 'uid-of-agent' }, ...bound },
    ...more,
  }
}

const sign = async (payload: JWTPayload, key = RSA, kid = key.kid): Promise<string> =>
  await signAs(payload, key, { kid })
const signAs = async (payload: JWTPayload, key: Key, header: { kid?: string }): Promise<string> =>
  await new SignJWT(payload).setProtectedHeader({ alg: key === EC ? 'ES256' : 'RS256', ...header }).sign(key.privateKey)

const forPod = (name: string, uid = `uid-default-${name}`): object => ({
  pod: { name, uid },
  node: { name: 'n1', uid: 'uid-of-n1' },
})

/** @param flags including those for keys; `kubeconfig` names a server that answers reviews with `review`. */
async function start(t: Test, flags: readonly string[], review: ((path: string) => object | null) | null = null) {
  const etcd = await startEtcd(t)
  const writer = new EtcdWriter([etcd])
  await writer.commit({
    '/registry/serviceaccounts/default/agent': account('agent'),
    '/registry/pods/default/p': pod('p'),
    '/registry/pods/default/q': pod('q'),
    '/registry/minions/n1': object('Node', 'n1'),
    '/registry/secrets/default/s': object('Secret', 's'),
  })
  const folder = new Folder(t)
  const keyFile = folder.write('sa.pub', RSA.publicPem)
  const ticketKeys = folder.write('ticket.key', 'the-key-of-all-replicas-0123456789')
  const reviewer = await jsonServer(t, (path) => {
    const body = review?.(path) ?? null
    return body === null ? { status: 500, body: {} } : { body }
  })
  const kubeconfig = folder.write(
    'kubeconfig',
    JSON.stringify({
      'current-context': 'c',
      contexts: [{ name: 'c', context: { cluster: 'k', user: 'u' } }],
      clusters: [{ name: 'k', cluster: { server: reviewer.url } }],
      users: [{ name: 'u', user: { token: 'own' } }],
    }),
  )
  const server = await startServer(t, {
    flags: [
      `--etcd-servers=${etcd.url}`,
      '--resource=secrets',
      '--authorization-mode=AlwaysAllow',
      `--service-account-issuer=${ISSUER}`,
      ...flags.map((flag) =>
        flag.replace('KEYS', keyFile).replace('KUBECONFIG', kubeconfig).replace('TICKETS', ticketKeys),
      ),
    ],
  })
  const ask = async (token: string, path = PODS): Promise<number> => {
    const response = await fetch(`${server.url}${path}`, { headers: { authorization: `Bearer ${token}` } })
    await response.arrayBuffer()
    return response.status
  }
  const whoIs = async (token: string): Promise<unknown> => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
    const response = await fetch(`${server.url}${SELF}`, { method: 'POST', headers, body: '{}' })
    return ((await response.json()) as { status: { userInfo?: unknown } }).status.userInfo
  }
  return { etcd, writer, server, ask, whoIs, reviewer, keyFile }
}

void t.test('a token of a pod names its service account, and dies with the pod, on running watches too', async (t) => {
  const { writer, server, ask, whoIs } = await start(t, ['--service-account-key-file=KEYS'])
  const token = await sign(claims(forPod('p')))
  t.same(await whoIs(token), {
    username: 'system:serviceaccount:default:agent',
    uid: 'uid-of-agent',
    groups: ['system:serviceaccounts', 'system:serviceaccounts:default', 'system:authenticated'],
    extra: {
      'authentication.kubernetes.io/credential-id': ['JTI=token-id'],
      'authentication.kubernetes.io/node-name': ['n1'],
      'authentication.kubernetes.io/node-uid': ['uid-of-n1'],
      'authentication.kubernetes.io/pod-name': ['p'],
      'authentication.kubernetes.io/pod-uid': ['uid-default-p'],
    },
  })
  const other = await sign(claims(forPod('q')))
  const watchWith = (text: string) =>
    new LightWatcher(`${server.url}${PODS}?watch=1`, { authorization: `Bearer ${text}` })
  const [watcher, lasting] = [watchWith(token), watchWith(other)]
  await Promise.all([watcher, lasting].map((one) => one.until(({ revisions }) => revisions.length >= 2)))
  const page = await fetch(`${server.url}${PODS}?watch=1`, {
    headers: { authorization: `Bearer ${token}`, accept: 'text/event-stream' },
  })

  await writer.commit({ '/registry/pods/default/p': null })
  await until(() => watcher.end !== 'open', 'the watch ends')
  t.same([watcher.end, watcher.error], ['eof', ''], 'so that its client goes on with a newer token')
  t.match(
    await page.text(),
    /event: ERROR\ndata: \{.*"code":401\}/,
    'a page would not see the answer to its next request',
  )
  t.equal(await ask(token), 401)
  t.equal(await ask(other), 200)
  t.equal(lasting.end, 'open')
  lasting.destroy()

  await writer.commit({ '/registry/pods/default/p': pod('p') })
  t.equal(await ask(await sign(claims(forPod('p', 'uid-of-another')))), 401, 'the same name is another pod')
  await writer.commit({ '/registry/serviceaccounts/default/agent': null })
  await until(async () => (await ask(other)) === 401, 'a token dies with its service account')
})

void t.test('a ticket dies with the pod or Secret of the token that minted it, on running streams too', async (t) => {
  const flags = ['--service-account-key-file=KEYS', '--ticket-key-file=TICKETS']
  const { writer, server } = await start(t, flags)
  const ticketOf = async (token: string): Promise<string> => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
    const body = JSON.stringify({ path: PODS })
    const response = await fetch(`${server.url}/tickets`, { method: 'POST', headers, body })
    t.equal(response.status, 201)
    return ((await response.json()) as { ticket: string }).ticket
  }
  const [ofPod, ofOther, ofSecret] = await Promise.all(
    [claims(forPod('p')), claims(forPod('q')), claims({ secret: { name: 's', uid: 'uid-of-s' } })].map(
      async (bound) => await ticketOf(await sign(bound)),
    ),
  )
  const read = async (ticket: string | undefined): Promise<number> => {
    const response = await fetch(`${server.url}${PODS}?ticket=${ticket}`)
    await response.arrayBuffer()
    return response.status
  }
  const watchWith = (ticket: string | undefined) => new LightWatcher(`${server.url}${PODS}?watch=1&ticket=${ticket}`)
  const [dying, lasting, secret] = [watchWith(ofPod), watchWith(ofOther), watchWith(ofSecret)]
  await Promise.all([dying, lasting, secret].map((one) => one.until(({ revisions }) => revisions.length >= 2)))
  await writer.commit({ '/registry/pods/default/p': null })
  await until(() => dying.end !== 'open', 'the stream ends')
  t.equal(await read(ofPod), 401, 'and it opens nothing new')
  t.equal(await read(ofOther), 200)
  await writer.commit({ '/registry/secrets/default/s': null })
  await until(() => secret.end !== 'open', 'a token bound to a Secret likewise')
  t.equal(await read(ofSecret), 401)
  t.equal(lasting.end, 'open')
  lasting.destroy()
})

void t.test('a token is bound to a node, to a Secret, or to its service account alone', async (t) => {
  const { writer, ask } = await start(t, ['--service-account-key-file=KEYS'])
  const node = await sign(claims({ node: { name: 'n1', uid: 'uid-of-n1' } }))
  const secret = await sign(claims({ secret: { name: 's', uid: 'uid-of-s' } }))
  const free = await sign(claims())
  for (const token of [node, secret, free]) t.equal(await ask(token), 200)
  await writer.commit({ '/registry/minions/n1': null, '/registry/secrets/default/s': null })
  for (const token of [node, secret]) await until(async () => (await ask(token)) === 401, 'what it is bound to is gone')
  t.equal(await ask(free), 200)
})

void t.test(
  'a pod that is a moment old is found in etcd, and one whose grace period is long over is not',
  async (t) => {
    const { writer, ask } = await start(t, ['--service-account-key-file=KEYS'])
    for (let i = 0; i < 20; i++) {
      const token = await sign(claims(forPod(`new-${i}`)))
      await writer.commit({ [`/registry/pods/default/new-${i}`]: pod(`new-${i}`) })
      t.equal(await ask(token), 200, 'at once, whether the cache has it or not')
    }
    const ending = (secondsAgo: number): object => {
      const deletionTimestamp = new Date(Date.now() - secondsAgo * 1_000).toISOString()
      return object('Pod', 'p', { uid: 'uid-default-p', deletionTimestamp })
    }
    const token = await sign(claims(forPod('p')))
    const second = await sign(claims(forPod('p'), { jti: 'second' }))
    await writer.commit({ '/registry/pods/default/p': ending(30) })
    t.equal(await ask(token), 200, 'as long as the API server takes it')
    await writer.commit({ '/registry/pods/default/p': ending(90) })
    await until(async () => (await ask(second)) === 401, 'its grace period is over')
  },
)

void t.test(
  'no forged, expired or misdirected token is accepted, and none of them is sent to the API server',
  async (t) => {
    const { ask, reviewer, server } = await start(
      t,
      ['--service-account-key-file=KEYS', '--authentication-kubeconfig=KUBECONFIG', '--api-audiences=edge,edge-2'],
      () => ({ status: { authenticated: true, audiences: ['edge'], user: { username: 'reviewed' } } }),
    )
    const seconds = Math.floor(Date.now() / 1_000)
    const good = claims(forPod('p'), { aud: ['x', 'edge-2'] })
    const text = await sign(good)
    const [head = '', , signature = ''] = text.split('.')
    const body = Buffer.from(JSON.stringify({ ...good, sub: 'system:admin' })).toString('base64url')
    t.equal(await ask(text), 200)
    const rows: readonly (readonly [string, string])[] = [
    ['another key under a known id', await sign(good, FOREIGN, RSA.kid)],
    ['a changed body', `${head}.${body}.${signature}`],
    ['expired', await sign({ ...good, exp: seconds - 61 })],
    ['not yet valid', await sign({ ...good, nbf: seconds + 120 })],
    ['issued in the future', await sign({ ...good, iat: seconds + 120 })],
    ['for another audience', await sign({ ...good, aud: [ISSUER] })],
    ['another subject than the account', await sign({ ...good, sub: 'system:admin' })],
    ['no account', await sign({ ...good, 'kubernetes.io': { namespace: 'default' } })],
    ...await Promise.all(
      [{ pod: 'p' }, { pod: ['p'] }, { pod: 5 }, { node: 'n1' }, { secret: true }, { validatingwebhookconfiguration: 'w' }]
        .map(async (bound) => [`a binding that cannot be read: ${JSON.stringify(bound)}`, await sign({ ...good, 'kubernetes.io': { ...(good['kubernetes.io'] as object), ...bound } })] as const),
    ),
    ['a UID left out', await sign({ ...good, 'kubernetes.io': { ...(good['kubernetes.io'] as object), pod: { name: 'p' } } })],
    ['a pod that is not there', await sign({ ...claims(forPod('nowhere')), aud: ['edge'] })],
    ['a namespace that is a path', await sign({ ...good, sub: 'system:serviceaccount:../default:agent', 'kubernetes.io': { namespace: '../default', serviceaccount: { name: 'agent', uid: 'uid-of-agent' } } })],
  ] // prettier-ignore
    for (const [name, token] of rows) t.equal(await ask(token), 401, name)
    t.same(reviewer.asked, [])
    t.notMatch(server.log(), text.slice(-40), 'no token is logged')
  },
)

/** The claims of a token from a Secret. */
const LEGACY = {
  iss: 'kubernetes/serviceaccount',
  sub: 'system:serviceaccount:default:agent',
  'kubernetes.io/serviceaccount/namespace': 'default',
}

void t.test('the API server decides what cannot be decided here', async (t) => {
  const published = { keys: [{ ...createPublicKey(RSA.privateKey).export({ format: 'jwk' }), kid: RSA.kid }] }
  let says = true
  const { ask, whoIs, reviewer, etcd } = await start(
    t,
    ['--authentication-kubeconfig=KUBECONFIG', '--authentication-token-webhook-cache-ttl=0s'],
    (path) =>
      path === '/openid/v1/jwks' ? published : { status: { authenticated: says, user: { username: 'reviewed' } } },
  )
  const reviews = (): number => reviewer.asked.filter(({ path }) => path.endsWith('/tokenreviews')).length
  const good = await sign(claims(forPod('p')))
  t.equal(await ask(good), 200)
  t.equal(reviews(), 0, 'keys that the API server publishes verify it')
  const { exp: _exp, ...endless } = claims(forPod('p'))
  const deferred: readonly (readonly [string, string])[] = [
    ['from a Secret', await sign(LEGACY)],
    ['without an end', await sign(endless)],
    ['a key that is not known here', await sign(claims(forPod('p')), EC)],
    ['such a key without an id', await signAs(claims(forPod('p')), FOREIGN, {})],
    ['bound to a webhook', await sign(claims({ validatingwebhookconfiguration: { name: 'w', uid: 'u' } }))],
  ]
  for (const [name, token] of deferred) {
    const before = reviews()
    t.match(await whoIs(token), { username: 'reviewed' }, name)
    t.ok(reviews() > before, name)
  }
  says = false
  for (const [name, token] of deferred) t.equal(await ask(token), 401, name)
  says = true
  await etcd.kill('SIGSTOP')
  try {
    const before = reviews()
    await until(
      async () => JSON.stringify(await whoIs(good)) !== undefined && reviews() > before,
      'the cache is too old',
    )
    t.match(await whoIs(good), { username: 'reviewed' })
  } finally {
    await etcd.kill('SIGCONT')
  }
})

void t.test(
  'without an API server, what cannot be decided is refused, and a new key file counts at once',
  async (t) => {
    const flags = ['--service-account-key-file=KEYS', '--watch-cache-sizes=pods#0']
    const { ask, keyFile } = await start(t, flags)
    t.equal(await ask(await sign(claims(forPod('p')))), 503, 'pods are not held here')
    t.equal(await ask(await sign(LEGACY)), 401, 'a token from a Secret')
    const [old, next] = [await sign(claims()), await sign(claims(), EC)]
    t.equal(await ask(old), 200)
    t.equal(await ask(next), 401)
    writeFileSync(keyFile, EC.publicPem)
    await until(async () => (await ask(old)) === 401, 'the old key is forgotten')
    t.equal(await ask(next), 200)
    const [unnamed, forged] = await Promise.all([RSA, FOREIGN].map((key) => signAs(claims(), key, {})))
    writeFileSync(keyFile, makeKey('rsa').publicPem + EC.publicPem + RSA.publicPem)
    await until(async () => (await ask(unnamed!)) === 200, 'each key is tried for a token without a key id')
    t.equal(await ask(forged!), 401)
  },
)

void t.test('a token review judges a token for the audiences of the review, and says for which', async (t) => {
  const { server, ask } = await start(t, ['--service-account-key-file=KEYS', '--enable-writes'])
  const caller = await sign(claims(forPod('p')))
  const review = async (token: string, audiences?: readonly string[]): Promise<unknown> => {
    const headers = { authorization: `Bearer ${caller}`, 'content-type': 'application/json' }
    const body = JSON.stringify({ spec: { token, ...(audiences && { audiences }) } })
    const path = '/apis/authentication.k8s.io/v1/tokenreviews'
    const response = await fetch(`${server.url}${path}`, { method: 'POST', headers, body })
    return ((await response.json()) as { status: unknown }).status
  }
  const forVault = await sign(claims(forPod('p'), { aud: ['vault', 'other'] }))
  t.equal(await ask(forVault), 401, 'it opens nothing here')
  const refused = { user: {}, error: 'invalid bearer token' }
  t.strictSame(await review(forVault), refused)
  t.strictSame(await review(forVault, [ISSUER]), refused)
  t.match(await review(forVault, ['vault', ISSUER]), {
    authenticated: true,
    audiences: ['vault'],
    user: { username: 'system:serviceaccount:default:agent', uid: 'uid-of-agent' },
  })
  t.strictSame(await review(caller, ['vault']), refused, 'not even after it was accepted for another')
  t.match(await review(caller), { authenticated: true, audiences: [ISSUER] })
  t.equal(await ask(forVault), 401, 'nor after the review')
  const disguised = JSON.stringify([forVault, ['vault', ISSUER]])
  t.equal(await ask(disguised), 401, 'nor when its holder sends the audiences of the review along')
})
