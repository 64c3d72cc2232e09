/**
 * The credential files that `rotation.test.ts` cannot cover, because they exclude those that it does: NATS keys,
 * authorities of aggregated API servers, the policy. Each is replaced under a running server. The last test checks that
 * every option that names a file has such a test, or a reason to have none.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { nkeys } from 'nats'
import t from 'tap'
import type { IssuedCertificate } from '../support/issue-certificate.js'
import { options, type OptionName, optionNames } from '../../src/server/config/options.js'
import { Folder, issue } from '../server/auth/fixtures.js'
import { pod } from '../support/pod.js'
import { startEtcd } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { startNats } from '../support/nats-process.js'
import { only } from '../support/only.js'
import { type ServerProcess, startServer } from '../support/server-process.js'
import { until } from '../support/until.js'
import { definitionObject } from '../support/definition.js'

type Secret = ReturnType<typeof nkeys.createUser>

const UNLIMITED = Object.fromEntries(
  [
    'subs',
    'data',
    'payload',
    'imports',
    'exports',
    'conn',
    'leaf',
    'mem_storage',
    'disk_storage',
    'streams',
    'consumer',
  ].map((limit) => [limit, -1]),
)

/** A NATS token (version 2), signed by `by`. */
function natsToken(by: Secret, subject: Secret, type: 'operator' | 'account' | 'user', claims: object): string {
  const encode = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  const nats = { type, version: 2, ...claims }
  const issued = { jti: subject.getPublicKey(), iat: Math.floor(Date.now() / 1_000) }
  const payload = encode({ ...issued, iss: by.getPublicKey(), sub: subject.getPublicKey(), name: type, nats })
  const text = `${encode({ typ: 'JWT', alg: 'ed25519-nkey' })}.${payload}`
  return `${text}.${Buffer.from(by.sign(Buffer.from(text))).toString('base64url')}`
}

const seedOf = (user: Secret): string => Buffer.from(user.getSeed()).toString()

/** How NATS authenticates its one user, and what that user presents. */
interface Scheme {
  readonly flag: string
  /** The content of the file. */
  readonly shown: (user: Secret) => string
  /** The configuration of a NATS server that admits this user and no other. */
  readonly config: (allowed: Secret, revoked: readonly Secret[]) => string
}

function keyScheme(): Scheme {
  return {
    flag: '--nats-nkey-file',
    shown: seedOf,
    config: (allowed) => `authorization { users: [{ nkey: ${allowed.getPublicKey()} }] }`,
  }
}

function tokenScheme(): Scheme {
  const [operator, system, account] = [nkeys.createOperator(), nkeys.createAccount(), nkeys.createAccount()]
  const accountToken = (of: Secret, claims: object): string => natsToken(operator, of, 'account', claims)
  return {
    flag: '--nats-creds-file',
    shown: (user) =>
      `-----BEGIN NATS USER JWT-----\n${natsToken(account, user, 'user', { subs: -1, data: -1, payload: -1 })}\n------END NATS USER JWT------\n\n` +
      `-----BEGIN USER NKEY SEED-----\n${seedOf(user)}\n------END USER NKEY SEED------\n`,
    config: (_allowed, revoked) => {
      const now = Math.floor(Date.now() / 1_000)
      const revocations = Object.fromEntries(revoked.map((user) => [user.getPublicKey(), now + 60]))
      const limits = { ...UNLIMITED, wildcards: true }
      return `
        operator: ${natsToken(operator, operator, 'operator', {})}
        system_account: ${system.getPublicKey()}
        resolver: MEMORY
        resolver_preload: {
          ${system.getPublicKey()}: ${accountToken(system, {})}
          ${account.getPublicKey()}: ${accountToken(account, { limits, revocations })}
        }`
    },
  }
}

/** The pods that a server lists from its cache. */
async function podsOf(server: ServerProcess): Promise<readonly string[]> {
  const answer = await fetch(`${server.url}/api/v1/pods?resourceVersion=0`)
  const { items = [] } = (await answer.json()) as { items?: readonly { metadata: { name: string } }[] }
  return items.map(({ metadata }) => metadata.name)
}

for (const { flag, shown, config } of [keyScheme(), tokenScheme()]) {
  void t.test(`${flag}: NATS admits only the new user, and the fleet continues with it`, async (t) => {
    const folder = new Folder(t)
    const [first, second] = [nkeys.createUser(), nkeys.createUser()]
    const file = folder.write('secret', shown(first))
    const nats = await startNats(t, { config: config(first, []) })
    const etcd = await startEtcd(t)
    const writer = new EtcdWriter([etcd])
    const flags = [
      ...only('pods'),
      `--nats-servers=${nats.url}`,
      `${flag}=${file}`,
      '--nats-stream-bytes=1MiB',
      '--nats-lease=5s',
    ]
    const candidate = await startServer(t, { flags: [...flags, `--etcd-servers=${etcd.url}`] })
    const edge = await startServer(t, { flags: [...flags, '--nats-role=edge'] })
    const arrives = async (name: string): Promise<void> => {
      await writer.put(`/registry/pods/default/${name}`, pod(name))
      for (const server of [candidate, edge]) {
        await until(
          async () => (await podsOf(server)).includes(name),
          () => `${name}: ${server.log().slice(-2_000)}`,
        )
      }
    }
    await arrives('before')
    folder.write('secret', shown(second))
    await arrives('with-a-new-file')
    await nats.restart(config(second, [first]))
    await arrives('after')

    // The other way round: NATS changes first, and the file follows, which connections find half written until then.
    folder.write('secret', shown(first).slice(0, 40))
    await nats.restart(config(first, [second]))
    for (const server of [candidate, edge]) {
      await until(
        () => server.log().includes('the credentials cannot be used'),
        () => server.log().slice(-2_000),
      )
    }
    folder.write('secret', shown(first))
    await arrives('back')
  })
}

void t.test('--nats-signing-key-file: each process adopts the next key, and none rejects another', async (t) => {
  const folder = new Folder(t)
  const [old, fresh] = ['a', 'b'].map((letter) => Buffer.from(letter.repeat(32)).toString('base64'))
  const nats = await startNats(t)
  const etcd = await startEtcd(t)
  const writer = new EtcdWriter([etcd])
  const flags = (name: string): string[] => [
    ...only('pods'),
    `--nats-servers=${nats.url}`,
    `--nats-signing-key-file=${folder.write(name, `${old}\n`)}`,
    '--nats-stream-bytes=1MiB',
    '--nats-lease=5s',
  ]
  const candidate = await startServer(t, { flags: [...flags('of-candidate'), `--etcd-servers=${etcd.url}`] })
  const edge = await startServer(t, { flags: [...flags('of-edge'), '--nats-role=edge'] })
  const steps = [`${old}\n${fresh}\n`, `${fresh}\n${old}\n`, `${fresh}\n`]
  for (const [step, content] of steps.entries()) {
    for (const [name, server] of [
      ['of-candidate', candidate],
      ['of-edge', edge],
    ] as const) {
      folder.write(name, content)
      await until(() => server.log().split('a changed file was read').length > step + 1, `${name} has read it`)
      const written = `p${step}-${name}`
      await writer.put(`/registry/pods/default/${written}`, pod(written))
      await until(
        async () => (await podsOf(edge)).includes(written),
        () => `${written}: ${edge.log().slice(-2_000)}`,
      )
    }
  }
})

const WIDGETS = definitionObject({
  group: 'example.com',
  plural: 'widgets',
  kind: 'Widget',
  scope: 'Cluster',
  versions: [{ name: 'v1', storage: true }],
})
const SERVICE = {
  apiVersion: 'apiregistration.k8s.io/v1',
  kind: 'APIService',
  metadata: { name: 'v1.example.com' },
  spec: {
    group: 'example.com',
    version: 'v1',
    groupPriorityMinimum: 100,
    versionPriority: 100,
    service: { namespace: 'a', name: 'widgets' },
  },
}

async function create(url: string, path: string, body: object): Promise<number> {
  const headers = { 'content-type': 'application/json' }
  const answer = await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) })
  await answer.arrayBuffer()
  return answer.status
}

void t.test('--passthrough-cafile: the server behind gets a certificate from a new authority', async (t) => {
  const folder = new Folder(t)
  const [old, fresh] = [issue('old authority'), issue('new authority')]
  const serve = (by: IssuedCertificate): void => {
    const { cert, key } = issue('localhost', by, { altNames: ['127.0.0.1', 'localhost'] })
    folder.write('serving.key', key)
    folder.write('serving.crt', cert)
  }
  serve(old)
  const ca = folder.write('ca.crt', old.cert)
  const tls = ['serving.crt', 'serving.key'].map((name) => join(folder.path, name))
  const behind = await startServer(t, {
    flags: ['--port=0', '--secure-port=0', `--tls-cert-file=${tls[0]}`, `--tls-private-key-file=${tls[1]}`],
  })
  t.equal(await create(behind.url, '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', WIDGETS), 201)
  const server = await startServer(t, {
    flags: [
      `--apiservice=example.com/v1=${behind.secureUrl}`,
      `--passthrough-cafile=${ca}`,
      '--authorization-mode=AlwaysAllow',
    ],
  })
  t.equal(await create(server.url, '/apis/apiregistration.k8s.io/v1/apiservices', SERVICE), 201)
  const status = async (): Promise<number> => {
    const answer = await fetch(`${server.url}/apis/example.com/v1/widgets`)
    await answer.arrayBuffer()
    return answer.status
  }
  await until(async () => (await status()) === 200, 'the server behind is known')

  folder.write('ca.crt', `${old.cert}${fresh.cert}`)
  await until(() => server.log().includes('a changed file was read'), 'both authorities are trusted')
  t.equal(await status(), 200)
  serve(fresh)
  await until(() => behind.log().includes('a changed file was read'), 'the certificate is another')
  t.equal(await status(), 200)
  folder.write('ca.crt', fresh.cert)
  await until(() => server.log().split('a changed file was read').length > 2, 'the new one alone is trusted')
  t.equal(await status(), 200)
  folder.write('ca.crt', old.cert)
  await until(async () => (await status()) === 503, 'the old one alone does not open connections any longer')
})

void t.test('--authorization-policy-file: revoking a permission ends the watch that it allowed', async (t) => {
  const folder = new Folder(t)
  const policy = (verbs: readonly string[]): string =>
    JSON.stringify({ rules: [{ users: ['ann'], verbs, apiGroups: [''], resources: ['pods'] }] })
  const file = folder.write('policy.yaml', policy(['get', 'list', 'watch']))
  const server = await startServer(t, {
    flags: [
      `--token-auth-file=${folder.write('tokens.csv', 'secret,ann,1\n')}`,
      '--authorization-mode=Policy',
      `--authorization-policy-file=${file}`,
    ],
  })
  const headers = { authorization: 'Bearer secret' }
  const ask = async (query: string): Promise<Response> => await fetch(`${server.url}/api/v1/pods${query}`, { headers })
  const watch = await ask('?watch=1')
  t.equal(watch.status, 200)
  folder.write('policy.yaml', policy(['get']))
  t.match(await watch.text(), /"code":403/)
  t.equal((await ask('')).status, 403)
  folder.write('policy.yaml', policy(['list']))
  await until(async () => (await ask('')).status === 200, 'the right is given back')
})

const here = 'integration/credential-files.test.ts'
const all = 'integration/rotation.test.ts'

/** The test under `test/` in which each file is replaced under a running server. */
const REPLACED: Readonly<Partial<Record<OptionName, string>>> = {
  config: 'server/wiring/live-config.test.ts',
  tlsCertFile: all,
  tlsPrivateKeyFile: all,
  clientCaFile: all,
  requestheaderClientCaFile: all,
  tokenAuthFile: all,
  oidcCaFile: all,
  authenticationKubeconfig: all,
  authorizationKubeconfig: all,
  authorizationPolicyFile: here,
  etcdCafile: all,
  etcdCertfile: all,
  etcdKeyfile: all,
  etcdPasswordFile: all,
  natsPasswordFile: all,
  natsCafile: all,
  natsCertfile: all,
  natsKeyfile: all,
  natsCredsFile: here,
  natsNkeyFile: here,
  natsSigningKeyFile: here,
  kubeconfig: all,
  passthroughCafile: all,
  proxyClientCertFile: all,
  proxyClientKeyFile: all,
  encryptionProviderConfig: 'integration/encryption-at-rest.test.ts',
  ticketKeyFile: 'security/tickets.test.ts',
}
const READ_ONCE: Readonly<Partial<Record<OptionName, string>>> = {
  protoDescriptors: 'descriptors of kinds belong to a release, and hold no secret',
}

void t.test('every option that names a file is in such a test, or has a reason not to be', (t) => {
  const files = optionNames.filter((name) => options[name].kind === 'file')
  t.same(Object.keys({ ...REPLACED, ...READ_ONCE }).toSorted(), files.toSorted())
  const source = (path: string): string =>
    readFileSync(fileURLToPath(new URL(`../../../test/${path}`, import.meta.url)), 'utf8')
  for (const [name, path] of Object.entries(REPLACED)) t.match(source(path), options[name as OptionName].flag)
  t.end()
})
