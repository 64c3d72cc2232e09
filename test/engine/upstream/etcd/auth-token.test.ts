/** A real etcd with authentication: users, permissions on one prefix, tokens that expire, certificates. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { keyFromText, prefixEnd, type Key } from '../../../../src/engine/model/event.js'
import { nextRevision, type Revision } from '../../../../src/engine/model/revision.js'
import { connectEtcd, type EtcdUpstreamOptions } from '../../../../src/engine/upstream/etcd/etcd-upstream.js'
import type { EtcdTls } from '../../../../src/engine/upstream/etcd/grpc-connection.js'
import { hasAuthBypass } from '../../../../src/engine/upstream/etcd/member-versions.js'
import { encodeWatchCreate } from '../../../../src/engine/upstream/etcd/control-messages.js'
import { watchDecoding } from '../../../../src/engine/upstream/etcd/data-messages.js'
import type { RawStream, Upstream } from '../../../../src/engine/upstream/upstream.js'
import { createAuthority } from '../../../support/certificates.js'
import { startEtcd, type EtcdProcess } from '../../../support/etcd-process.js'
import { startFaultProxy } from '../../../support/fault-proxy.js'
import { pause, until } from '../../../support/until.js'
import { recordWatch } from '../watch-recorder.js'

const allowed = keyFromText('/allowed/')
const forbidden = keyFromText('/forbidden/')
const user = { name: 'reader', password: 'correct horse' }

void t.test('a user with permissions on one prefix only', async (t) => {
  const etcd = await startEtcd(t)
  const administrator = await enableAuth(etcd)
  const upstream = connect(t, { endpoints: [etcd.url], user })

  await t.test('that prefix is served, and the others are refused individually', async (t) => {
    const revision = await put(upstream, allowed, '1')
    t.equal((await upstream.read({ prefix: allowed })).count, 1)
    t.ok((await upstream.currentRevision()) >= revision, 'the revision is asked for where reading is allowed')
    t.equal((await upstream.status()).serverVersions.length, 1)
    const recorder = recordWatch(upstream, allowed, revision)
    await recorder.untilRevision(revision)

    await t.rejects(upstream.read({ prefix: forbidden }), { name: 'UpstreamError', code: 'permission-denied' })
    await t.rejects(put(upstream, forbidden, '1'), { code: 'permission-denied' })
    const refused = recordWatch(upstream, forbidden, revision)
    t.match(await refused.untilEnd(), { kind: 'failed', error: { code: 'permission-denied' } })
    t.equal(refused.isOpen, false)

    await recorder.untilRevision(await put(upstream, allowed, '2'))
    t.equal(recorder.end, null)
    recorder.watch.close()
  })

  await t.test('a token that etcd no longer accepts is replaced, for reads, writes and watches', async (t) => {
    // Setting a password, even the same one, invalidates the tokens issued for the old one.
    const forgetTokens = (): Promise<unknown> => etcd.call('auth/user/changepw', user, administrator)
    const running = recordWatch(upstream, allowed, nextRevision(await put(upstream, allowed, '3')))
    await running.until('open', (r) => r.isOpen)
    await forgetTokens()
    t.equal((await upstream.read({ prefix: allowed })).count, 1)
    await forgetTokens()
    const written = await put(upstream, allowed, '4')
    await forgetTokens()
    const recorder = recordWatch(upstream, allowed, written)
    await recorder.untilRevision(written)
    await forgetTokens()
    t.equal((await upstream.status()).serverVersions.length, 1)
    await forgetTokens()
    const before = (await etcd.metrics()).get(authentications) ?? 0
    const again = recordWatch(upstream, allowed, written)
    t.equal((await upstream.read({ prefix: allowed })).count, 1)
    await again.untilRevision(written)
    t.equal((await etcd.metrics()).get(authentications), before + 1, 'and only once for both')
    await forgetTokens()
    const many = await Promise.all(Array.from({ length: 20 }, () => upstream.currentRevision()))
    t.equal(many.length, 20)
    await running.untilRevision(await put(upstream, allowed, '5'))
    t.equal(running.end, null, 'a watch that runs is not touched')
    for (const { watch } of [running, recorder, again]) watch.close()
  })

  await t.test('a revoked permission is a refusal, and works again when it is restored', async (t) => {
    const permission = { key: base64('/allowed/'), range_end: base64('/allowed0') }
    await etcd.call('auth/role/revoke', { role: 'reader', ...permission }, administrator)
    await t.rejects(upstream.read({ prefix: allowed }), { code: 'permission-denied' })
    await etcd.call(
      'auth/role/grant',
      { name: 'reader', perm: { permType: 'READWRITE', ...permission } },
      administrator,
    )
    t.equal((await upstream.read({ prefix: allowed })).count, 1)
  })

  await t.test('a wrong password and a missing one are refused, each with its reason', async (t) => {
    for (const options of [{ user: { ...user, password: 'wrong' } }, { user: { name: 'nobody', password: '' } }, {}]) {
      const stranger = connect(t, { endpoints: [etcd.url], ...options })
      await t.rejects(stranger.read({ prefix: allowed }), { name: 'UpstreamError', code: 'unauthenticated' })
      const recorder = recordWatch(stranger, allowed, 1 as Revision)
      t.match(await recorder.untilEnd(), { kind: 'failed', error: { code: 'unauthenticated' } })
    }
  })

  await t.test('a changed password is reported, and the new one is not guessed', async (t) => {
    await etcd.call('auth/user/changepw', { ...user, password: 'other' }, administrator)
    await t.rejects(upstream.read({ prefix: allowed }), { code: 'unauthenticated' })
    await etcd.call('auth/user/changepw', user, administrator)
    t.equal((await upstream.read({ prefix: allowed })).count, 1)
  })
})

void t.test('an expired token is replaced', async (t) => {
  const etcd = await startEtcd(t, { flags: ['--auth-token-ttl=1'] })
  await enableAuth(etcd)
  const upstream = connect(t, { endpoints: [etcd.url], user })
  const revision = await put(upstream, allowed, '1')
  const before = (await etcd.metrics()).get(authentications) ?? 0
  await until(async () => {
    // etcd looks for expired tokens once a second, and every request prolongs its token.
    await pause(3_000)
    const recorder = recordWatch(upstream, allowed, revision)
    await recorder.untilRevision(revision)
    recorder.watch.close()
    t.equal((await upstream.read({ prefix: allowed })).count, 1)
    return ((await etcd.metrics()).get(authentications) ?? 0) > before
  }, 'the token has expired')
})

void t.test("a stream in etcd's own protocol reports an invalid token, and the next one works", async (t) => {
  const etcd = await startEtcd(t)
  const administrator = await enableAuth(etcd)
  const upstream = connect(t, { endpoints: [etcd.url], user })
  await put(upstream, allowed, '1')
  await etcd.call('auth/user/changepw', user, administrator)
  const create = encodeWatchCreate(allowed, prefixEnd(allowed), 1 as Revision, false)
  const first = async (): Promise<{ stream: RawStream; reason: string }> => {
    const messages: Buffer[] = []
    const handlers = { onMessage: (message: Buffer) => messages.push(message), onEnd: () => {} }
    const stream = await upstream.raw!.stream('/etcdserverpb.Watch/Watch', handlers)
    stream.send(create)
    await until(() => messages.length > 0, 'etcd answers')
    const { canceled, cancelReason } = watchDecoding(messages[0]!).whole()
    return { stream, reason: canceled ? cancelReason : '' }
  }
  const refused = await first()
  t.match(refused.reason, 'invalid auth token')
  t.notOk(refused.stream.refused('etcdserver: permission denied'))
  t.ok(refused.stream.refused(refused.reason))
  t.equal((await first()).reason, '')
})

void t.test('a request for a token is repeated when its connection is cut', async (t) => {
  // etcd takes a quarter of a second to check a password.
  const etcd = await startEtcd(t, { flags: ['--bcrypt-cost=12'] })
  await enableAuth(etcd)
  const proxy = await startFaultProxy({ targetPort: Number(new URL(etcd.url).port) })
  t.teardown(() => proxy.close())
  const upstream = connect(t, { endpoints: [`http://127.0.0.1:${proxy.port}`], user })
  const started = async (): Promise<number> => (await etcd.metrics()).get(beganAuthentications) ?? 0
  const before = await started()
  const writing = put(upstream, allowed, '1')
  await until(async () => (await started()) > before, 'etcd checks the password')
  proxy.cut()
  const revision = await writing
  t.equal((await upstream.readKey(`${allowed}k` as Key))?.modRevision, revision)
})

void t.test('a user works with an etcd without authentication, before and after that is enabled', async (t) => {
  const etcd = await startEtcd(t)
  const upstream = connect(t, { endpoints: [etcd.url], user })
  await put(upstream, allowed, '1')
  await enableAuth(etcd)
  t.equal((await upstream.read({ prefix: allowed })).count, 1)
})

void t.test('etcd is reached over TLS with client certificates', async (t) => {
  const [authority, stranger] = [createAuthority(t), createAuthority(t)]
  const server = authority.server()
  const etcd = await startEtcd(t, { tls: { ...server, clientCa: authority.ca } })
  const pem = (ca: string, pair?: { cert: string; key: string }): EtcdTls => ({
    ca: readFileSync(ca),
    ...(pair ? { cert: readFileSync(pair.cert), key: readFileSync(pair.key) } : {}),
  })
  const client = authority.client('distributary')

  for (const url of [etcd.url, etcd.url.replace('127.0.0.1', 'localhost')]) {
    const upstream = connect(t, { endpoints: [url], tls: pem(authority.ca, client) })
    const revision = await put(upstream, allowed, '1')
    const recorder = recordWatch(upstream, allowed, revision)
    await recorder.untilRevision(revision)
    t.equal((await upstream.read({ prefix: allowed })).count, 1, url)
    await upstream.close()
  }
  const mixed = connect(t, { endpoints: ['http://127.0.0.1:1', etcd.url], tls: pem(authority.ca, client) })
  t.equal((await mixed.read({ prefix: allowed })).count, 1, 'plain and TLS endpoints in one list')

  for (const [what, tls] of [
    ['no client certificate', pem(authority.ca)],
    ["a stranger's client certificate", pem(authority.ca, stranger.client('distributary'))],
    ['a server that the authority did not sign', pem(stranger.ca, client)],
    ['no authority at all', undefined],
  ] as const) {
    const upstream = connect(t, { endpoints: [etcd.url], ...(tls ? { tls } : {}), connectTimeoutMs: 1_000 })
    await t.rejects(upstream.read({ prefix: allowed }), { name: 'UpstreamError', code: 'unavailable' }, what)
  }
})

void t.test('an etcd with a certificate of another name is refused', async (t) => {
  const authority = createAuthority(t)
  const etcd = await startEtcd(t, { tls: authority.server('IP:127.0.0.2,DNS:etcd.example.org') })
  for (const url of [etcd.url, etcd.url.replace('127.0.0.1', 'localhost')]) {
    const upstream = connect(t, { endpoints: [url], tls: { ca: readFileSync(authority.ca) }, connectTimeoutMs: 1_000 })
    await t.rejects(upstream.read({ prefix: allowed }), { name: 'UpstreamError', code: 'unavailable' }, url)
  }
})

void t.test(
  'a permission that is taken away is a problem while its prefix is watched, and none afterwards',
  async (t) => {
    const etcd = await startEtcd(t)
    const administrator = await enableAuth(etcd)
    const extra = { permType: 'READ', key: base64('/extra/'), range_end: base64('/extra0') }
    await etcd.call('auth/role/grant', { name: 'reader', perm: extra }, administrator)
    const upstream = connect(t, { endpoints: [etcd.url], user })
    const watched = keyFromText('/extra/')
    const { currentRevision } = await upstream.read({ prefix: watched })
    const recorders = [allowed, watched].map((prefix) => recordWatch(upstream, prefix, nextRevision(currentRevision)))
    for (const recorder of recorders) await recorder.until('open', ({ isOpen }) => isOpen)
    const { key, range_end } = extra
    await etcd.call('auth/role/revoke', { role: 'reader', key, range_end }, administrator)
    await until(() => upstream.refusedReads?.startsWith('/extra/: ') === true, 'it is a problem')
    recorders[1]!.watch.close()
    t.equal(upstream.refusedReads, null)
  },
)

void t.test('roles that can be bypassed are a problem, however etcd knows its user', async (t) => {
  const withPasswords = await startEtcd(t)
  await enableAuth(withPasswords)
  const named = connect(t, { endpoints: [withPasswords.url], user })
  const { serverVersions } = await named.status()
  const isBypassed = serverVersions.some(hasAuthBypass)
  const saysSo = (upstream: Upstream): boolean =>
    (upstream.bypassedRoles?.includes('GHSA-xg4h-6gfc-h4m8') ?? false) === isBypassed
  await until(() => saysSo(named), 'by a password')

  const authority = createAuthority(t)
  const etcd = await startEtcd(t, { tls: { ...authority.server(), clientCa: authority.ca } })
  const [root, reader] = [authority.client('root'), authority.client('reader')]
  const control = (...words: readonly string[]): void =>
    void execFileSync('etcdctl', [
      `--endpoints=${etcd.url}`,
      `--cacert=${authority.ca}`,
      `--cert=${root.cert}`,
      `--key=${root.key}`,
      ...words,
    ])
  const tls = {
    ca: readFileSync(authority.ca),
    cert: readFileSync(reader.cert),
    key: readFileSync(reader.key),
  }
  const open = connect(t, { endpoints: [etcd.url], tls })
  await open.status()
  await open.currentRevision()
  t.equal(open.bypassedRoles, null, 'an etcd without roles')
  control('user', 'add', 'root:root')
  control('user', 'grant-role', 'root', 'root')
  control('user', 'add', 'reader:r')
  control('role', 'add', 'reader')
  control('role', 'grant-permission', 'reader', 'read', '--prefix', '/allowed/')
  control('user', 'grant-role', 'reader', 'reader')
  control('auth', 'enable')
  const certified = connect(t, { endpoints: [etcd.url], tls })
  await certified.status()
  await until(() => saysSo(certified), 'by a client certificate')
})

/** Successful calls of Authenticate, as etcd counts them. */
const authentications =
  'grpc_server_handled_total{grpc_code="OK",grpc_method="Authenticate",grpc_service="etcdserverpb.Auth",grpc_type="unary"}'

const beganAuthentications =
  'grpc_server_started_total{grpc_method="Authenticate",grpc_service="etcdserverpb.Auth",grpc_type="unary"}'

/** Enables root, and `user` with all permissions under `allowed`; returns a token of root's. */
async function enableAuth(etcd: EtcdProcess): Promise<string> {
  const root = { name: 'root', password: 'root' }
  const permission = { permType: 'READWRITE', key: base64('/allowed/'), range_end: base64('/allowed0') }
  await etcd.call('auth/user/add', root)
  await etcd.call('auth/role/add', { name: 'root' })
  await etcd.call('auth/user/grant', { user: 'root', role: 'root' })
  await etcd.call('auth/user/add', user)
  await etcd.call('auth/role/add', { name: 'reader' })
  await etcd.call('auth/role/grant', { name: 'reader', perm: permission })
  await etcd.call('auth/user/grant', { user: user.name, role: 'reader' })
  await etcd.call('auth/enable', {})
  return String((await etcd.call('auth/authenticate', root))['token'])
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64')
}

function connect(t: Test, options: EtcdUpstreamOptions): Upstream {
  const upstream = connectEtcd(options)
  t.teardown(() => upstream.close())
  return upstream
}

async function put(upstream: Upstream, prefix: Key, value: string): Promise<Revision> {
  return (await upstream.write([], [{ type: 'put', key: `${prefix}k` as Key, value: Buffer.from(value) }])).revision
}
