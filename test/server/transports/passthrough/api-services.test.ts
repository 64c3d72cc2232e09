/** Tests aggregated APIs without an API server behind: `--apiservice`, and APIService objects in etcd. */
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import type http from 'node:http'
import https from 'node:https'
import net from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { startApiServer } from '../../../support/api-server-stand-in.js'
import { type AppHarness, startApp } from '../../../support/app.js'
import { createAuthority } from '../../../support/certificates.js'
import { kubectlBinary } from '../../../support/kubectl.js'
import { until } from '../../../support/until.js'
import { column, definitionObject, ESTABLISHED, type Version as DefinedVersion } from '../../../support/definition.js'

const AGGREGATED = 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList'

interface Answered {
  readonly status: number
  readonly headers: Headers
  readonly body: Readonly<Record<string, unknown>>
}

async function ask(h: AppHarness, path: string, init: RequestInit = {}): Promise<Answered> {
  const response = await fetch(`${h.url}${path}`, { signal: AbortSignal.timeout(30_000), ...init })
  const { status, headers } = response
  return { status, headers, body: (await response.json()) as Record<string, unknown> }
}

interface Version {
  readonly version: string
  readonly freshness: string
  readonly resources: readonly object[]
}

async function aggregated(h: AppHarness, group: string): Promise<readonly Version[]> {
  const { body } = await ask(h, '/apis', { headers: { accept: AGGREGATED } })
  const items = body['items'] as readonly { metadata: { name: string }; versions: readonly Version[] }[]
  return items.find(({ metadata }) => metadata.name === group)?.versions ?? []
}

/** Long enough for several rounds of discovery. */
const ROUNDS_MS = 60_000

const freshness = (h: AppHarness, group: string, version: string, expected: string) => async (): Promise<boolean> =>
  (await aggregated(h, group)).some((one) => one.version === version && one.freshness === expected)

function apiService(version: string, group: string, service: object | null): object {
  return {
    kind: 'APIService',
    apiVersion: 'apiregistration.k8s.io/v1',
    metadata: { name: `${version}.${group}`, uid: `uid-${version}-${group}` },
    spec: { group, version, groupPriorityMinimum: 100, versionPriority: 100, ...(service === null ? {} : { service }) },
  }
}

const V1: DefinedVersion = {
  name: 'v1',
  storage: true,
  subresources: { status: {} },
  additionalPrinterColumns: [column('Size', 'integer', '.spec.size')],
}
const widgetsIn = (...versions: readonly DefinedVersion[]): object => ({
  ...definitionObject(
    {
      group: 'example.com',
      plural: 'widgets',
      kind: 'Widget',
      shortNames: ['wd'],
      categories: ['all'],
      scope: 'Namespaced',
      versions,
    },
    { uid: 'uid-widgets' },
  ),
  status: ESTABLISHED,
})
const CRD_KEY = 'apiextensions.k8s.io/customresourcedefinitions/widgets.example.com'
const SERVICE_KEY = 'apiregistration.k8s.io/apiservices'

const widget = (name: string): object => ({
  kind: 'Widget',
  apiVersion: 'example.com/v1',
  metadata: { name, namespace: 'a' },
  spec: { size: 7 },
})

void t.test('another server’s group is served like one of our own', async (t) => {
  const authority = createAuthority(t)
  const server = authority.server()
  const tls = ['--secure-port', '0', '--tls-cert-file', server.cert, '--tls-private-key-file', server.key]
  const back = await startApp(t, {
    flags: [...tls, '--enable-writes'],
    objects: {
      'namespaces/a': { kind: 'Namespace', apiVersion: 'v1', metadata: { name: 'a', uid: 'uid-a' } },
      [CRD_KEY]: widgetsIn(V1),
      'example.com/widgets/a/one': widget('one'),
    },
  })
  const h = await startApp(t, {
    flags: ['--apiservice', `example.com/v1=${back.secureUrl}`, '--passthrough-cafile', authority.ca],
    objects: {
      [`${SERVICE_KEY}/v1.example.com`]: apiService('v1', 'example.com', { namespace: 'a', name: 'widgets' }),
      [`${SERVICE_KEY}/v1beta1.metrics.k8s.io`]: apiService('v1beta1', 'metrics.k8s.io', {
        namespace: 'kube-system',
        name: 'metrics-server',
      }),
      [`${SERVICE_KEY}/v2.local.example.com`]: apiService('v2', 'local.example.com', null),
      [`${SERVICE_KEY}/v1.apps`]: apiService('v1', 'apps', { namespace: 'a', name: 'apps' }),
    },
  })
  await until(freshness(h, 'example.com', 'v1', 'Current'), 'it is known', ROUNDS_MS)

  await t.test('both kinds of discovery list the group', async (t) => {
    t.same(
      await aggregated(h, 'example.com'),
      await aggregated(back, 'example.com'),
      'with subresources and short names',
    )
    t.same((await ask(h, '/apis/example.com/v1')).body, (await ask(back, '/apis/example.com/v1')).body)
    const group = await ask(h, '/apis/example.com')
    t.match(group.body, { kind: 'APIGroup', name: 'example.com', preferredVersion: { groupVersion: 'example.com/v1' } })
    const groups = (await ask(h, '/apis')).body['groups'] as readonly { name: string }[]
    t.equal(groups.at(-1)?.name, 'example.com')
    t.notOk(groups.some(({ name }) => name === 'metrics.k8s.io' || name === 'local.example.com'))
  })

  await t.test('an APIService without an address is not served, and the log says what is missing', async (t) => {
    t.same(await aggregated(h, 'metrics.k8s.io'), [])
    for (const path of ['/apis/metrics.k8s.io/v1beta1', '/apis/metrics.k8s.io/v1beta1/nodes?watch=1']) {
      const { status, body } = await ask(h, path)
      t.equal(status, 503, path)
      t.match(body, {
        kind: 'Status',
        reason: 'ServiceUnavailable',
        message: /--apiservice metrics\.k8s\.io\/v1beta1=https/,
      })
      t.match(body['message'], 'kube-system/metrics-server')
    }
    t.equal((await ask(h, '/apis/metrics.k8s.io')).status, 404)
    t.equal((await ask(h, '/apis/local.example.com/v2')).status, 404, 'of the API server’s own nothing is said')
    t.equal((await ask(h, '/apis/apps/v1/deployments')).status, 200, 'what is served here is nobody else’s')
    h.delete(`${SERVICE_KEY}/v1beta1.metrics.k8s.io`)
    await until(async () => (await ask(h, '/apis/metrics.k8s.io/v1beta1')).status === 404, 'gone', ROUNDS_MS)
  })

  await t.test('reads, a watch and writes go through', async (t) => {
    const path = '/apis/example.com/v1/namespaces/a/widgets'
    const list = await ask(h, path)
    t.match(list.body, { kind: 'WidgetList', items: [{ metadata: { name: 'one' } }] })
    const { resourceVersion } = list.body['metadata'] as { resourceVersion: string }
    const abort = new AbortController()
    const { signal } = abort
    const watch = await fetch(`${h.url}${path}?watch=1&resourceVersion=${resourceVersion}`, { signal })
    const reader = watch.body!.getReader()
    const made = await ask(h, path, {
      method: 'POST',
      body: JSON.stringify(widget('two')),
      headers: { 'content-type': 'application/json' },
    })
    t.equal(made.status, 201)
    const { value } = await reader.read()
    t.match(JSON.parse(Buffer.from(value!).toString().split('\n')[0]!), {
      type: 'ADDED',
      object: { metadata: { name: 'two' } },
    })
    abort.abort()
    const patched = await ask(h, `${path}/two`, {
      method: 'PATCH',
      body: '{"spec":{"size":8}}',
      headers: { 'content-type': 'application/merge-patch+json' },
    })
    t.match([patched.status, patched.body], [200, { spec: { size: 8 } }])
    t.equal((await ask(h, `${path}/two`, { method: 'DELETE' })).status, 200)
    t.equal((await ask(h, `${path}/two`)).status, 404)
  })

  await t.test('kubectl reads and writes the group', async (t) => {
    const home = mkdtempSync(join(tmpdir(), 'distributary-kubectl-'))
    t.teardown(() => rmSync(home, { recursive: true, force: true }))
    const env = { ...process.env, HOME: home, KUBECONFIG: join(home, 'none'), KUBECACHEDIR: join(home, 'cache') }
    const out = await new Promise<string>((resolve) => {
      execFile(kubectlBinary, ['-s', h.url, 'get', 'wd', '-A'], { env }, (_error, text, err) => resolve(text + err))
    })
    t.match(out, /^NAMESPACE +NAME +SIZE\na +one +7$/m)
  })

  await t.test('a definition takes over no configured version, and serves its other versions', async (t) => {
    const before = [await aggregated(h, 'example.com'), (await ask(h, '/apis/example.com/v1')).body]
    h.put(CRD_KEY, widgetsIn(V1, { ...V1, name: 'v2', storage: false }))
    await until(async () => (await ask(h, '/apis/example.com/v2/widgets')).status === 200, 'v2 is served', ROUNDS_MS)
    t.match((await ask(h, '/apis/example.com/v2/widgets')).body, { items: [] }, 'from here')
    t.match((await ask(h, '/apis/example.com/v1/widgets')).body, { items: [{ metadata: { name: 'one' } }] })
    const after = await aggregated(h, 'example.com')
    t.same(
      after.map(({ version }) => version),
      ['v2', 'v1'],
    )
    t.same([after.slice(1), (await ask(h, '/apis/example.com/v1')).body], before, 'discovery says the same')
    t.notOk('apis/example.com/v1' in ((await ask(h, '/openapi/v3')).body['paths'] as object))
    h.delete(CRD_KEY)
    await until(async () => (await ask(h, '/apis/example.com/v2/widgets')).status === 404, 'v2 is gone', ROUNDS_MS)
  })
})

void t.test('an unreachable server is answered for with 503 and listed as stale, until it is back', async (t) => {
  const authority = createAuthority(t)
  const pair = authority.server()
  const behind = await startApiServer(t, { cert: readFileSync(pair.cert), key: readFileSync(pair.key) })
  const resources = [
    { name: 'gadgets', singularName: 'gadget', namespaced: true, kind: 'Gadget', verbs: ['list'] },
    {
      name: 'gadgets/log',
      singularName: '',
      namespaced: true,
      kind: 'Log',
      group: 'logs.io',
      version: 'v9',
      verbs: ['get'],
    },
  ]
  let list: object = { kind: 'APIResourceList', groupVersion: 'other.io/v1', resources }
  behind.answer = (_request, response) => {
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify(list))
  }
  const { url } = behind
  const h = await startApp(t, { flags: ['--apiservice', `other.io/v1=${url}`, '--passthrough-cafile', authority.ca] })
  await until(freshness(h, 'other.io', 'v1', 'Current'), 'it is known', ROUNDS_MS)
  const expected = {
    resource: 'gadgets',
    responseKind: { group: 'other.io', version: 'v1', kind: 'Gadget' },
    scope: 'Namespaced',
    singularResource: 'gadget',
    verbs: ['list'],
    subresources: [
      { subresource: 'log', responseKind: { group: 'logs.io', version: 'v9', kind: 'Log' }, verbs: ['get'] },
    ],
  }
  t.same(await aggregated(h, 'other.io'), [{ version: 'v1', resources: [expected], freshness: 'Current' }])
  const asking = behind.last()
  t.match([asking.url, asking.certificate], ['/apis/other.io/v1', null])

  await behind.close()
  for (const [method, path] of [
    ['GET', '/apis/other.io/v1/gadgets'],
    ['GET', '/apis/other.io/v1'],
    ['POST', '/apis/other.io/v1/namespaces/a/gadgets'],
  ] as const) {
    const { status, body, headers } = await ask(h, path, { method })
    t.equal(status, 503, `${method} ${path}`)
    t.match(body, { kind: 'Status', status: 'Failure', reason: 'ServiceUnavailable', code: 503 })
    // The first request may have been sent on a kept-alive connection, so it is not repeated.
    if (method === 'POST') t.equal(headers.get('retry-after'), '1', 'it was not sent')
  }
  t.same(
    await aggregated(h, 'other.io'),
    [{ version: 'v1', resources: [expected], freshness: 'Stale' }],
    'known to be stale as soon as a request found it away',
  )
  t.equal((await ask(h, '/apis/other.io')).status, 200)
  t.ok(h.app.isReady, 'and nobody else is worse off')

  list = { kind: 'APIResourceList', groupVersion: 'other.io/v1', resources: resources.slice(0, 1) }
  await behind.listen(Number(new URL(url).port))
  t.equal((await ask(h, '/apis/other.io/v1/gadgets')).status, 200, 'nothing waits for discovery')
  await until(freshness(h, 'other.io', 'v1', 'Current'), 'it is back', ROUNDS_MS)
  const [{ resources: after }] = (await aggregated(h, 'other.io')) as [Version]
  t.notOk('subresources' in after[0]!, 'with what it has now')
})

void t.test(
  'a server that answers nonsense, too much, or under another name is stale, and its paths stay its own',
  async (t) => {
    const authority = createAuthority(t)
    const pair = authority.server()
    const behind = await startApiServer(t, { cert: readFileSync(pair.cert), key: readFileSync(pair.key) })
    const answers: Readonly<Record<string, string>> = {
      '/apis/one.io/v1': 'no JSON',
      '/apis/two.io/v1': JSON.stringify({ kind: 'APIResourceList', groupVersion: 'other.io/v1', resources: [] }),
      '/apis/five.io/v1': JSON.stringify({
        kind: 'APIResourceList',
        groupVersion: 'five.io/v1',
        resources: Array.from({ length: 2_001 }, (_, i) => ({ name: `r${i}` })),
      }),
      '/apis/three.io/v1': JSON.stringify({
        kind: 'APIResourceList',
        groupVersion: 'three.io/v1',
        pad: 'x'.repeat(5e6),
      }),
    }
    behind.answer = (request, response) => response.end(answers[request.url ?? ''] ?? '{"kind":"Stand"}')
    const foreign = authority.server('DNS:example.org')
    const elsewhere = await startApiServer(t, { cert: readFileSync(foreign.cert), key: readFileSync(foreign.key) })
    const names = ['one.io', 'two.io', 'three.io', 'five.io']
    const h = await startApp(t, {
      flags: [
        ...names.flatMap((name) => ['--apiservice', `${name}/v1=${behind.url}`]),
        '--apiservice',
        `four.io/v1=${elsewhere.url}`,
        '--passthrough-cafile',
        authority.ca,
      ],
    })
    await until(
      async () => names.every((name) => behind.seen.some(({ url }) => url.includes(name))),
      'all were asked',
      ROUNDS_MS,
    )
    for (const name of names) {
      t.same(await aggregated(h, name), [{ version: 'v1', resources: [], freshness: 'Stale' }], name)
      t.match((await ask(h, `/apis/${name}/v1/things`)).body, { kind: 'Stand' })
    }
    const untrusted = await ask(h, '/apis/four.io/v1/things')
    t.match([untrusted.status, untrusted.body], [503, { message: /ERR_TLS_CERT_ALTNAME_INVALID/ }])
    t.same(elsewhere.seen, [])
  },
)

void t.test(
  "the caller's name is forwarded with the proxy certificate; without one, the caller's token is",
  async (t) => {
    const authority = createAuthority(t)
    const server = authority.server()
    const files = { cert: readFileSync(server.cert), key: readFileSync(server.key), ca: readFileSync(authority.ca) }
    const proxy = authority.client('front-proxy')
    const jane = authority.client('jane', ['dev'])
    const directory = mkdtempSync(join(tmpdir(), 'distributary-apiservice-'))
    t.teardown(() => rmSync(directory, { recursive: true, force: true }))
    const tokens = join(directory, 'tokens.csv')
    writeFileSync(tokens, 'sesame,ali,1\n')
    for (const hasProxyCertificate of [true, false]) {
      const behind = await startApiServer(t, { ...files, requestCert: true, rejectUnauthorized: false })
      const flags = ['--secure-port', '0', '--tls-cert-file', server.cert, '--tls-private-key-file', server.key]
      flags.push('--client-ca-file', authority.ca, '--token-auth-file', tokens)
      flags.push('--apiservice', `other.io/v1=${behind.url}`, '--passthrough-cafile', authority.ca)
      if (hasProxyCertificate) flags.push('--proxy-client-cert-file', proxy.cert, '--proxy-client-key-file', proxy.key)
      const h = await startApp(t, {
        flags,
        objects: { [`${SERVICE_KEY}/v1.absent.io`]: apiService('v1', 'absent.io', { namespace: 'a', name: 'b' }) },
      })
      await until(async () => behind.seen.length > 0, 'asked by the server itself', ROUNDS_MS)
      const asking = behind.seen[0]!
      t.match(
        [asking.certificate, asking.headers['x-remote-user']],
        hasProxyCertificate ? ['front-proxy', 'system:kube-aggregator'] : [null, undefined],
      )
      t.notMatch(asking.rawHeaders, ['system:masters'])
      const send = async (path: string, headers: Record<string, string>, isJane: boolean): Promise<number> => {
        const shown = isJane ? { cert: readFileSync(jane.cert), key: readFileSync(jane.key) } : {}
        const request = https.request(`${h.secureUrl}${path}`, { headers, agent: false, ca: files.ca, ...shown })
        request.end()
        const [response] = (await once(request, 'response')) as [http.IncomingMessage]
        response.resume()
        await once(response, 'end')
        return response.statusCode ?? 0
      }
      const things = '/apis/other.io/v1/things'
      const passed = () => behind.seen.filter(({ url }) => url === things)
      const forged = { 'x-remote-user': 'system:admin', 'x-remote-group': 'system:masters' }
      const bearer = { ...forged, authorization: 'Bearer sesame' }
      t.equal(await send(things, { authorization: 'Bearer wrong' }, false), 401)
      t.equal(await send(things, forged, false), 401, 'nobody gets no further')
      t.equal(await send('/apis/absent.io/v1', {}, false), 401, 'nor learns which groups exist')
      t.equal(passed().length, 0)

      t.equal(await send(things, forged, true), hasProxyCertificate ? 200 : 403)
      t.equal(await send(things, bearer, false), 200)
      const byToken = passed().at(-1)!
      if (hasProxyCertificate) {
        t.match(passed()[0], { certificate: 'front-proxy', headers: { 'x-remote-user': 'jane' } })
        t.match(byToken, { certificate: 'front-proxy', headers: { 'x-remote-user': 'ali' } })
        t.equal(byToken.headers.authorization, undefined, 'it could be used elsewhere')
      } else {
        t.equal(passed().length, 1)
        t.match(byToken, { certificate: null, headers: { authorization: 'Bearer sesame' } })
        t.equal(byToken.headers['x-remote-user'], undefined)
      }
      t.notMatch(
        passed()
          .flatMap(({ rawHeaders }) => rawHeaders)
          .join(),
        /system:(admin|masters)/,
      )
    }
  },
)

void t.test('a redirect is not followed: the client gets it, and discovery ignores it', async (t) => {
  const authority = createAuthority(t)
  const pair = authority.server()
  const tls = { cert: readFileSync(pair.cert), key: readFileSync(pair.key) }
  const [behind, elsewhere] = [await startApiServer(t, tls), await startApiServer(t, tls)]
  behind.answer = (request, response) => {
    response.writeHead(307, { location: `${elsewhere.url}${request.url}` }).end()
  }
  const flags = ['--apiservice', `other.io/v1=${behind.url}`, '--passthrough-cafile', authority.ca]
  const h = await startApp(t, { flags })
  await until(() => behind.seen.length > 0, 'asked by the server itself', ROUNDS_MS)
  const answer = await fetch(`${h.url}/apis/other.io/v1/things`, {
    redirect: 'manual',
    headers: { authorization: 'Bearer sesame' },
  })
  t.equal(answer.status, 307)
  t.equal(answer.headers.get('location'), `${elsewhere.url}/apis/other.io/v1/things`)
  t.same(await aggregated(h, 'other.io'), [{ version: 'v1', resources: [], freshness: 'Stale' }])
  t.same(elsewhere.seen, [], 'nothing, and no token, was sent there')
})

void t.test('too many concurrent requests are rejected, and an upgrade becomes a tunnel', async (t) => {
  const authority = createAuthority(t)
  const pair = authority.server()
  const behind = await startApiServer(t, { cert: readFileSync(pair.cert), key: readFileSync(pair.key) })
  behind.upgrade = (_request, socket) => {
    socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n')
    socket.on('data', (bytes: Buffer) => void socket.write(bytes.toString().toUpperCase()))
  }
  const h = await startApp(t, {
    flags: ['--apiservice', `other.io/v1=${behind.url}`, '--passthrough-cafile', authority.ca],
    config: { passthroughMaxRequests: 1 },
  })
  const socket = net.connect(h.port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  let text = ''
  socket.on('data', (bytes: Buffer) => (text += bytes.toString()))
  socket.write(
    'POST /apis/other.io/v1/namespaces/a/things/x/exec HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n' +
      'Upgrade: SPDY/3.1\r\nContent-Length: 0\r\n\r\nhello',
  )
  await until(async () => text.includes('HELLO'), 'an echo', ROUNDS_MS)
  t.equal((await ask(h, '/apis/other.io/v1/things')).status, 429)
  socket.destroy()
  await until(async () => (await ask(h, '/apis/other.io/v1/things')).status === 200, 'a place', ROUNDS_MS)
})
