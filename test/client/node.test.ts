/**
 * Tests the client's credentials and trust: certificates, tokens, kubeconfig files, against a server that requires
 * them.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import t from 'tap'
import { stringify } from 'yaml'
import {
  fetchTransport,
  kubeconfigFiles,
  type KubeObject,
  loadKubeconfig,
  nodeTransport,
  type NodeTransportOptions,
  requestJson,
  resourcePath,
  SharedInformer,
} from '../../src/client/index.js'
import { eachAtOnce, runCli } from '../cli/support/run-cli.js'
import { startApp } from '../support/app.js'
import { pod } from '../support/pod.js'
import { createAuthority } from '../support/certificates.js'

const authority = createAuthority(t)
const [server, jane] = [authority.server(), authority.client('jane')]
const folder = mkdtempSync(join(tmpdir(), 'distributary-kubeconfig-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))
const inFolder = (name: string, text: string): string => {
  const path = join(folder, name)
  writeFileSync(path, text)
  return path
}
const tokens = inFolder('tokens.csv', 'good-token,robot,robot\nroot-token,root,root,system:masters\n')
const app = await startApp(t, {
  flags: [
    '--secure-port=0',
    `--tls-cert-file=${server.cert}`,
    `--tls-private-key-file=${server.key}`,
    `--client-ca-file=${authority.ca}`,
    `--token-auth-file=${tokens}`,
    '--anonymous-auth=false',
  ],
  objects: { 'pods/default/a': pod('a'), 'pods/shop/b': pod('b', { namespace: 'shop' }) },
})
const url = app.secureUrl
const base64 = (path: string): string => readFileSync(path).toString('base64')

interface Parts {
  readonly cluster?: object
  readonly user?: object
  readonly context?: object
  readonly more?: object
}

function kubeconfig(name: string, { cluster = {}, user = {}, context = {}, more = {} }: Parts): string {
  return inFolder(
    name,
    stringify({
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': 'here',
      clusters: [{ name: 'c', cluster: { server: url, 'certificate-authority': authority.ca, ...cluster } }],
      users: [{ name: 'u', user }],
      contexts: [{ name: 'here', context: { cluster: 'c', user: 'u', ...context } }],
      ...more,
    }),
  )
}

/** Returns the names that an informer finds, or the error that keeps it from finding any. */
async function names(options: NodeTransportOptions): Promise<string> {
  const transport = nodeTransport(options)
  let reason = ''
  const failed = new AbortController()
  const informer = new SharedInformer<KubeObject>({
    transport,
    path: '/api/v1/pods',
    onStatus(status) {
      if (status.reason === null) return
      reason = status.reason
      failed.abort()
    },
  })
  informer.start()
  try {
    await informer.whenSynced(failed.signal)
    return informer.store
      .list()
      .map(({ metadata }) => metadata.name)
      .sort()
      .join(' ')
  } catch {
    return reason
  } finally {
    await informer.stop()
    transport.close()
  }
}

void t.test('an informer connects over TLS with a certificate or a token, and is refused without', async (t) => {
  const ca = readFileSync(authority.ca)
  const [cert, key] = [readFileSync(jane.cert), readFileSync(jane.key)]
  t.equal(await names({ server: url, ca, cert, key }), 'a b')
  t.equal(await names({ server: url, ca, authorization: () => 'Bearer good-token' }), 'a b')
  t.match(await names({ server: url, ca, authorization: () => 'Bearer bad-token' }), /^refused: .*Unauthorized/i)
  t.match(await names({ server: url, ca }), /^refused: .*Unauthorized/i)
  t.match(await names({ server: url, cert, key }), /^network: .*certificate/, 'an authority it does not know')
  t.equal(await names({ server: url, cert, key, insecureSkipTlsVerify: true }), 'a b')
  const strange = { server: url, ca, cert, key, tlsServerName: 'elsewhere.example' }
  t.match(await names(strange), /^network: .*(altnames|elsewhere)/i, 'a name the certificate has not')
})

void t.test('every kind of credential in a kubeconfig is used', async (t) => {
  const tokenFile = inFolder('token', 'bad-token\n')
  mkdirSync(join(folder, 'sub'))
  for (const [what, parts] of [
    ['files', { user: { 'client-certificate': jane.cert, 'client-key': jane.key } }],
    ['data', { user: { 'client-certificate-data': base64(jane.cert), 'client-key-data': base64(jane.key) } }],
    [
      'authority as data',
      { cluster: { 'certificate-authority-data': base64(authority.ca) }, user: { token: 'good-token' } },
    ],
    ['a token', { user: { token: 'good-token' } }],
    [
      'no verification',
      {
        cluster: { 'certificate-authority': undefined, 'insecure-skip-tls-verify': true },
        user: { token: 'good-token' },
      },
    ],
    ['a server name', { cluster: { 'tls-server-name': 'localhost' }, user: { token: 'good-token' } }],
  ] as const) {
    t.equal(await names(await loadKubeconfig(kubeconfig('config', parts))), 'a b', what)
  }
  const rotated = await loadKubeconfig(kubeconfig('config', { user: { tokenFile: 'token' } }))
  t.match(await names(rotated), /^refused/, 'a path is relative to the file')
  writeFileSync(tokenFile, 'good-token\n')
  t.equal(await names(rotated), 'a b', 'a token file is read at each request')
  const basic = await loadKubeconfig(kubeconfig('config', { user: { username: 'jane', password: 'x:y' } }))
  t.equal(basic.authorization?.(), `Basic ${Buffer.from('jane:x:y').toString('base64')}`)
  t.equal((await loadKubeconfig(kubeconfig('config', { context: { namespace: 'shop' } }))).namespace, 'shop')
})

void t.test('an unsupported or incomplete kubeconfig is refused with its reason', async (t) => {
  for (const [parts, expected] of [
    [{ user: { 'auth-provider': { name: 'gcp' } } }, /auth-provider is not supported/],
    [{ user: { 'as-groups': ['x'] } }, /as-uid, as-groups and as-user-extra require as/],
    [{ user: { as: 'x', 'as-groups': 'x' } }, /as-groups must be a list of strings/],
    [{ user: { as: 'x', 'as-user-extra': { scopes: 'x' } } }, /as-user-extra must contain lists/],
    [{ cluster: { 'proxy-url': 'http://proxy' } }, /proxy-url is not supported/],
    [{ cluster: { server: 'here' } }, /server "here" is not a URL/],
    [{ context: { cluster: 'other' } }, /no cluster "other"/],
    [{ context: { user: 'other' } }, /no user "other"/],
    [{ more: { 'current-context': 'other' } }, /no context "other"/],
    [{ cluster: { 'certificate-authority': 'nowhere.pem' } }, /nowhere\.pem/],
  ] as const) {
    await t.rejects(loadKubeconfig(kubeconfig('config', parts)), { message: expected })
  }
  await t.rejects(loadKubeconfig(join(folder, 'none')), /none/)
})

const WHO_AM_I = resourcePath({ group: 'authentication.k8s.io', plural: 'selfsubjectreviews' })

interface Review {
  readonly status: { readonly userInfo: { readonly username: string } }
}

async function whoAmI(options: NodeTransportOptions): Promise<Review['status']['userInfo']> {
  const transport = nodeTransport(options)
  t.teardown(() => transport.close())
  const body = { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' }
  return (await requestJson<Review>(transport, { path: WHO_AM_I, body })).status.userInfo
}

void t.test('requests impersonate another user, through a kubeconfig or an option', async (t) => {
  const user = {
    token: 'root-token',
    as: 'ann',
    'as-groups': ['web', 'db'],
    'as-uid': '7',
    'as-user-extra': { 'example.com/scopes 100%': ['view', 'edit'] },
  }
  const expected = {
    username: 'ann',
    uid: '7',
    groups: ['web', 'db', 'system:authenticated'],
    extra: { 'example.com/scopes 100%': ['view', 'edit'] },
  }
  const config = await loadKubeconfig(kubeconfig('config', { user }))
  t.same(await whoAmI(config), expected)
  const ca = readFileSync(authority.ca)
  const root = { server: url, ca, authorization: () => 'Bearer root-token' }
  t.match(await whoAmI({ ...root, impersonate: { user: 'bob' } }), { username: 'bob' })
  t.match(await whoAmI(root), { username: 'root' })
  t.equal(await names(config), 'a b', 'informers too')
  t.throws(() => nodeTransport({ ...root, impersonate: { user: '', groups: ['web'] } }), /but no user/)
  const overFetch = { server: app.url, token: 'root-token' }
  t.match(
    await requestJson(fetchTransport({ ...overFetch, impersonate: { user: 'bob', groups: ['web'] } }), {
      path: WHO_AM_I,
      body: { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' },
    }),
    { status: { userInfo: { username: 'bob', groups: ['web', 'system:authenticated'] } } },
  )
  t.throws(
    () => fetchTransport({ ...overFetch, impersonate: { user: 'bob', groups: ['web', 'db'] } }),
    /several values/,
  )
})

void t.test('several kubeconfig files are merged by kubectl’s rules', async (t) => {
  mkdirSync(join(folder, 'first'))
  mkdirSync(join(folder, 'second'))
  inFolder('first/token', 'bad-token')
  inFolder('second/token', 'good-token')
  const write = (name: string, config: object): string =>
    inFolder(name, stringify({ apiVersion: 'v1', kind: 'Config', ...config }))
  const cluster = { server: url, 'certificate-authority': authority.ca }
  const first = write('first/config', {
    clusters: [{ name: 'c', cluster }],
    contexts: [{ name: 'there', context: { cluster: 'c', user: 'theirs' } }],
    users: [{ name: 'theirs', user: { tokenFile: 'token' } }],
  })
  const second = write('second/config', {
    'current-context': 'here',
    clusters: [{ name: 'c', cluster: { server: 'http://127.0.0.1:1' } }],
    contexts: [
      { name: 'here', context: { cluster: 'c', user: 'u', namespace: 'shop' } },
      { name: 'there', context: { cluster: 'none' } },
    ],
    users: [{ name: 'u', user: { tokenFile: 'token' } }],
  })
  const third = write('third', { 'current-context': 'gone' })
  const files = [join(folder, 'missing'), first, second, third]
  const merged = await loadKubeconfig(files)
  t.equal(merged.namespace, 'shop', 'the first current-context counts')
  t.equal(merged.server, url, 'of two clusters of one name the first')
  t.equal(await names(merged), 'a b', 'a path is relative to its own file')
  t.match(await names(await loadKubeconfig(files, { context: 'there' })), /^refused/, 'of two contexts the first')
  await t.rejects(loadKubeconfig([join(folder, 'x'), join(folder, 'y')]), { message: /none of .*x, .*y exists/ })
  t.same(kubeconfigFiles({ KUBECONFIG: `a${delimiter}${delimiter}b` }), ['a', 'b'])
  t.match(kubeconfigFiles({}), [/\.kube.config$/])
  const result = await runCli(t, ['get', 'pods', '-o', 'name', '--context', 'here'], {
    environment: { KUBECONFIG: files.join(delimiter) },
  })
  t.match(result, { code: 0, stdout: 'pod/b\n' })
})

void t.test('the command line accepts the same credentials from flags, files and the environment', async (t) => {
  const token = { user: { token: 'good-token' } }
  const config = kubeconfig('cli', { ...token, context: { namespace: 'shop' } })
  const other = kubeconfig('other', { more: { 'current-context': 'gone' }, ...token })
  const exec = { apiVersion: 'client.authentication.k8s.io/v1', interactiveMode: 'Never' }
  const printed = JSON.stringify({
    kind: 'ExecCredential',
    apiVersion: exec.apiVersion,
    status: { token: 'good-token' },
  })
  const plugin = kubeconfig('plugin', { user: { exec: { ...exec, command: 'echo', args: [printed] } } })
  const missing = kubeconfig('missing', {
    user: { exec: { ...exec, command: 'nowhere-to-be-found', installHint: 'install it' } },
  })
  const asRoot = kubeconfig('as-root', { user: { token: 'root-token' } })
  const asAnn = kubeconfig('as-ann', { user: { token: 'root-token', as: 'ann' } })
  const tokenFile = inFolder('cli-token', 'good-token\n')
  const ca = ['--certificate-authority', authority.ca]
  const cases: readonly (readonly [string, number, readonly string[], Readonly<Record<string, string>>, RegExp])[] = [
    ['a kubeconfig and its namespace', 0, ['--kubeconfig', config], {}, /^pod\/b\n$/],
    ['its namespace overridden', 0, ['--kubeconfig', config, '-n', 'default'], {}, /^pod\/a\n$/],
    ['a context of KUBECONFIG', 0, ['--context', 'here'], { KUBECONFIG: other }, /^pod\/a\n$/],
    [
      'KUBECONFIG alone is not asked',
      1,
      [],
      { KUBECONFIG: config, DISTRIBUTARY_SERVER: 'http://127.0.0.1:1' },
      /cannot reach/,
    ],
    ['a token', 0, ['-s', url, ...ca, '--token', 'good-token'], {}, /^pod\/a\n$/],
    ['a token file', 0, ['-s', url, ...ca, '--token-file', tokenFile], {}, /^pod\/a\n$/],
    ['the environment', 0, ca, { DISTRIBUTARY_SERVER: url, DISTRIBUTARY_TOKEN: 'good-token' }, /^pod\/a\n$/],
    [
      'a certificate',
      0,
      ['-s', url, ...ca, '--client-certificate', jane.cert, '--client-key', jane.key],
      {},
      /^pod\/a\n$/,
    ],
    ['no verification', 0, ['-s', url, '--insecure-skip-tls-verify', '--token', 'good-token'], {}, /^pod\/a\n$/],
    ['an unknown authority', 1, ['-s', url, '--token', 'good-token'], {}, /cannot reach .*certificate/],
    [
      'another name',
      1,
      ['-s', url, ...ca, '--token', 'good-token', '--tls-server-name', 'x.example'],
      {},
      /cannot reach/,
    ],
    ['nobody', 1, ['-s', url, ...ca], {}, /Unauthorized/],
    ['an exec plugin', 0, ['--kubeconfig', plugin], {}, /^pod\/a\n$/],
    ['a token instead of the plugin', 1, ['--kubeconfig', plugin, '--token', 'x'], {}, /Unauthorized/],
    ['an exec plugin that is not there', 1, ['--kubeconfig', missing], {}, /nowhere-to-be-found.*ENOENT[^]*install it/],
    ['another user', 0, ['--kubeconfig', asRoot, '--as', 'ann', '--as-group', 'web'], {}, /^pod\/a\n$/],
    ['another user by the file', 0, ['--kubeconfig', asAnn], {}, /^pod\/a\n$/],
    ['a group of nobody', 2, ['-s', url, '--as-group', 'web'], {}, /require --as/],
    ['half a certificate', 2, ['-s', url, '--client-certificate', jane.cert], {}, /must be given together/],
    ['two tokens', 2, ['-s', url, '--token', 'x', '--token-file', tokenFile], {}, /cannot be combined/],
    ['no such file', 1, ['-s', url, '--token-file', '/nowhere'], {}, /\/nowhere/],
  ]
  await eachAtOnce(cases, async ([what, code, flags, environment, expected]) => {
    const result = await runCli(t, ['get', 'pods', '-o', 'name', ...flags], { environment })
    t.equal(result.code, code, what)
    t.match(code === 0 ? result.stdout : result.stderr, expected, what)
  })
})
