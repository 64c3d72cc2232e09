/** Access reviews answered by this server's own authorizer, on a server without writes. */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { enveloped } from '../../src/kubernetes/codec/protobuf/resource-version-splice.js'
import { lengthField } from '../../src/kubernetes/codec/protobuf/wire.js'
import { type AppHarness, type AppHarnessOptions, startApp } from '../support/app.js'
import { until } from '../support/until.js'
import { kubectlBinary } from '../support/kubectl.js'

const AUTHORIZATION = '/apis/authorization.k8s.io/v1'
const WHO_AM_I = '/apis/authentication.k8s.io/v1/selfsubjectreviews'

const TOKENS = ['web-token,web,2,"team-web"', 'judge-token,judge,3', 'root-token,root,4']
const POLICY = `rules:
  - name: web reads pods of its namespace
    groups: [team-web]
    verbs: [get, list, watch]
    apiGroups: [""]
    resources: [pods]
    namespaces: [web]
  - name: web reads the version
    groups: [team-web]
    verbs: [get]
    paths: [/version]
  - name: judge asks about others
    users: [judge]
    verbs: [create]
    apiGroups: [authorization.k8s.io]
    resources: [subjectaccessreviews, localsubjectaccessreviews]
  - { name: root reads everything, users: [root], verbs: [get, list], apiGroups: ["*"], resources: ["*"] }
  - { name: root reads every path, users: [root], verbs: [get], paths: ["*"] }
`

async function start(t: Test, options: AppHarnessOptions = {}): Promise<AppHarness & { readonly audit: string }> {
  const folder = t.testdir({ 'tokens.csv': `${TOKENS.join('\n')}\n`, 'policy.yaml': POLICY })
  const audit = join(folder, 'audit.log')
  const flags = [
    `--token-auth-file=${join(folder, 'tokens.csv')}`,
    '--authorization-mode=Policy',
    `--authorization-policy-file=${join(folder, 'policy.yaml')}`,
    `--audit-log-path=${audit}`,
    ...(options.flags ?? []),
  ]
  return Object.assign(await startApp(t, { ...options, flags }), { audit })
}

interface Answer {
  readonly code: number
  readonly body: { readonly status?: unknown; readonly message?: string; readonly reason?: string }
}

async function ask(url: string, path: string, token: string | null, body: unknown, type?: string): Promise<Answer> {
  const headers: Record<string, string> = { 'content-type': type ?? 'application/json' }
  if (token !== null) headers['authorization'] = `Bearer ${token}`
  const sent = Buffer.isBuffer(body) || typeof body === 'string' ? body : JSON.stringify(body)
  const answer = await fetch(`${url}${path}`, { method: 'POST', headers, body: sent })
  return { code: answer.status, body: (await answer.json()) as Answer['body'] }
}

const pods = (verb: string, namespace: string): object => ({
  spec: { resourceAttributes: { verb, resource: 'pods', namespace } },
})

void t.test('a caller may ask about itself without any permission', async (t) => {
  const { url, audit } = await start(t)
  const self = `${AUTHORIZATION}/selfsubjectaccessreviews`
  t.match(await ask(url, self, 'web-token', pods('list', 'web')), {
    code: 201,
    body: {
      kind: 'SelfSubjectAccessReview',
      apiVersion: 'authorization.k8s.io/v1',
      spec: { resourceAttributes: { verb: 'list' } },
      status: { allowed: true, reason: 'Policy: web reads pods of its namespace' },
    },
  })
  t.match(await ask(url, self, 'web-token', pods('delete', 'web')), { code: 201, body: { status: { allowed: false } } })
  t.match(await ask(url, self, 'web-token', pods('list', 'db')), { code: 201, body: { status: { allowed: false } } })
  const version = { spec: { nonResourceAttributes: { verb: 'get', path: '/version' } } }
  t.match(await ask(url, self, 'web-token', version), { body: { status: { allowed: true } } })
  t.match(await ask(url, self, 'judge-token', version), { body: { status: { allowed: false } } })

  t.match(await ask(url, `${AUTHORIZATION}/selfsubjectrulesreviews`, 'web-token', { spec: { namespace: 'web' } }), {
    code: 201,
    body: {
      status: {
        resourceRules: [{ verbs: ['get', 'list', 'watch'], apiGroups: [''], resources: ['pods'] }],
        nonResourceRules: [{ verbs: ['get'], nonResourceURLs: ['/version'] }],
        incomplete: false,
      },
    },
  })
  const elsewhere = await ask(url, `${AUTHORIZATION}/selfsubjectrulesreviews`, 'web-token', {
    spec: { namespace: 'db' },
  })
  t.match(elsewhere.body.status, { resourceRules: [] })

  t.match(await ask(url, WHO_AM_I, 'web-token', {}), {
    code: 201,
    body: {
      kind: 'SelfSubjectReview',
      status: { userInfo: { username: 'web', groups: ['team-web', 'system:authenticated'] } },
    },
  })
  await until(() => readFileSync(audit, 'utf8').includes('selfsubjectreviews'), 'the access log has it')
  const [first] = readFileSync(audit, 'utf8').split('\n')
  t.match(JSON.parse(first ?? ''), { user: 'web', verb: 'create', resource: 'selfsubjectaccessreviews', code: 201 })
})

void t.test('no definition and no configured server takes over reviews', async (t) => {
  const names = { plural: 'selfsubjectaccessreviews', kind: 'SelfSubjectAccessReview' }
  const group = 'authorization.k8s.io'
  const version = (name: string, storage: boolean): object => ({ name, storage, served: true })
  const { url } = await start(t, {
    flags: [`--apiservice=${group}/v1=https://127.0.0.1:1`],
    objects: {
      [`apiextensions.k8s.io/customresourcedefinitions/${names.plural}.${group}`]: {
        apiVersion: 'apiextensions.k8s.io/v1',
        kind: 'CustomResourceDefinition',
        metadata: { name: `${names.plural}.${group}` },
        spec: { group, scope: 'Cluster', names, versions: [version('v1', true), version('v1beta1', false)] },
        status: { conditions: [{ type: 'Established', status: 'True' }] },
      },
    },
  })
  const beta = `/apis/${group}/v1beta1/${names.plural}`
  t.match(await ask(url, `${AUTHORIZATION}/${names.plural}`, 'web-token', pods('list', 'web')), {
    code: 201,
    body: { kind: 'SelfSubjectAccessReview', status: { allowed: true } },
  })
  const readAll = { headers: { authorization: 'Bearer root-token' } }
  t.equal((await fetch(`${url}${beta}`, readAll)).status, 200, 'its other version is served')
  t.equal((await fetch(`${url}${AUTHORIZATION}/${names.plural}`, readAll)).status, 405, 'reviews are not listed')
  const found = (await (await fetch(`${url}${AUTHORIZATION}`, readAll)).json()) as {
    resources: { name: string; verbs: string[] }[]
  }
  t.same(
    found.resources.filter(({ verbs }) => verbs.join() !== 'create'),
    [],
    'discovery shows only reviews',
  )
})

void t.test('asking about others requires a permission', async (t) => {
  const { url } = await start(t)
  const review = {
    spec: {
      user: 'eve',
      groups: ['team-web'],
      resourceAttributes: { verb: 'list', resource: 'pods', namespace: 'web' },
    },
  }
  const paths = ['/subjectaccessreviews', '/namespaces/web/localsubjectaccessreviews'].map((end) => AUTHORIZATION + end)
  for (const path of paths) {
    t.match(await ask(url, path, 'web-token', review), { code: 403, body: { reason: 'Forbidden' } })
    t.match(await ask(url, path, 'judge-token', review), { code: 201, body: { status: { allowed: true } } })
  }
  const other = await ask(url, `${AUTHORIZATION}/namespaces/db/localsubjectaccessreviews`, 'judge-token', review)
  t.match(other, { code: 422, body: { message: /must match metadata.namespace/ } })
})

void t.test('a review that cannot be answered is rejected, and so is an anonymous caller', async (t) => {
  const { url } = await start(t)
  const self = `${AUTHORIZATION}/selfsubjectaccessreviews`
  const cases: [path: string, token: string | null, body: unknown, code: number][] = [
    [self, null, pods('list', 'web'), 401],
    [self, 'wrong', pods('list', 'web'), 401],
    [self, 'web-token', { spec: {} }, 422],
    [self, 'web-token', { spec: { resourceAttributes: {}, nonResourceAttributes: {} } }, 422],
    [self, 'web-token', '{"spec":', 400],
    [self, 'web-token', '[]', 400],
    [self, 'web-token', { kind: 'Pod', apiVersion: 'v1' }, 400],
    [self, 'web-token', { spec: { padding: 'x'.repeat(70_000) } }, 413],
    [`${AUTHORIZATION}/selfsubjectrulesreviews`, 'web-token', {}, 400],
    [`${AUTHORIZATION}/subjectaccessreviews`, 'judge-token', pods('list', 'web'), 422],
    [`${AUTHORIZATION}/namespaces/web/selfsubjectaccessreviews`, 'web-token', pods('list', 'web'), 404],
    [`${self}/name`, 'web-token', pods('list', 'web'), 404],
  ]
  for (const [path, token, body, code] of cases)
    t.equal((await ask(url, path, token, body)).code, code, `${path} ${JSON.stringify(body).slice(0, 60)}`)
  const headers = { authorization: 'Bearer judge-token' }
  t.equal(
    (await fetch(`${url}${AUTHORIZATION}/subjectaccessreviews`, { headers })).status,
    403,
    'listing is another right',
  )
})

void t.test('a review may be protobuf', async (t) => {
  const { url } = await start(t)
  const attributes = Buffer.concat([lengthField(1, 'web'), lengthField(2, 'list'), lengthField(5, 'pods')])
  const raw = lengthField(2, lengthField(1, attributes))
  const body = enveloped('authorization.k8s.io/v1', 'SelfSubjectAccessReview', raw)
  const path = `${AUTHORIZATION}/selfsubjectaccessreviews`
  const answer = await ask(url, path, 'web-token', body, 'application/vnd.kubernetes.protobuf')
  t.match(answer, { code: 201, body: { status: { allowed: true } } })
})

void t.test('kubectl works with a server without authentication, and discovery has the groups', async (t) => {
  const kubectl = async (url: string, ...args: string[]): Promise<string> => {
    const all = ['--server', url, '--cache-dir', t.testdir(), ...args]
    const { stdout } = await promisify(execFile)(kubectlBinary, all, {
      env: { PATH: process.env['PATH'], HOME: t.testdirName },
    })
    return stdout
  }
  const open = await startApp(t)
  t.equal(await kubectl(open.url, 'auth', 'can-i', '*', '*'), 'yes\n')
  t.match(await kubectl(open.url, 'auth', 'can-i', '--list'), /\*\.\* .*\[\*\]/)
  for (const [group, name] of [
    ['authorization', 'selfsubjectaccessreviews'],
    ['authentication', 'selfsubjectreviews'],
  ]) {
    const answer = await fetch(`${open.url}/apis/${group}.k8s.io/v1`)
    const { resources } = (await answer.json()) as { resources: object[] }
    t.match(
      resources.find((resource) => (resource as { name: string }).name === name),
      { verbs: ['create'] },
    )
  }
  const { groups } = (await (await fetch(`${open.url}/apis`)).json()) as { groups: { name: string }[] }
  t.ok(groups.some(({ name }) => name === 'authorization.k8s.io'))
})

void t.test('what takes long to read is no review', async (t) => {
  const { url } = await start(t)
  const path = `${AUTHORIZATION}/selfsubjectaccessreviews`
  const yaml = `kind: SelfSubjectAccessReview\nspec: {nonResourceAttributes: {path: /version, verb: get}}\n`
  t.match(await ask(url, path, 'web-token', yaml, 'application/yaml'), {
    code: 201,
    body: { status: { allowed: true } },
  })
  const flow = `a: [${'a:,'.repeat(2_000)}]`
  t.match(await ask(url, path, 'web-token', flow, 'application/yaml'), { code: 413 })
  const pod = enveloped('v1', 'Pod', lengthField(2, Buffer.concat(Array(10_000).fill(lengthField(2, Buffer.alloc(0))))))
  const refused = await ask(url, path, 'web-token', pod, 'application/vnd.kubernetes.protobuf')
  t.match(refused, { code: 400, body: { message: /does not match the expected/ } })
})
