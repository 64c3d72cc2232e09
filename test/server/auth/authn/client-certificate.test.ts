import { X509Certificate } from 'node:crypto'
import t from 'tap'

import { clientCertificate } from '../../../../src/server/auth/authn/client-certificate.js'
import { requestHeader } from '../../../../src/server/auth/authn/request-header.js'
import { parseCertificates, trustedUntil } from '../../../../src/server/auth/peer-certificate.js'
import { UnauthorizedError } from '../../../../src/kubernetes/model/status.js'
import { changeable, issue, NOW, peerOf, request } from '../fixtures.js'

const users = issue('user authority')
const proxies = issue('proxy authority')
const strangers = issue('user authority')

void t.test('the authority that signed a chain is found', async (t) => {
  const middle = issue('middle', users, { isAuthority: true })
  const fake = issue('middle', users)
  const bundle = (...issued: (typeof users)[]) => issued.map(({ cert }) => new X509Certificate(cert))
  const rows: readonly (readonly [string, readonly (typeof users)[], readonly X509Certificate[], boolean])[] = [
    ['directly', [issue('ann', users)], bundle(users), true],
    ['directly, the root sent along', [issue('ann', users), users], bundle(users), true],
    ['one of several', [issue('ann', users)], bundle(proxies, users), true],
    ['through an intermediate', [issue('ann', middle), middle], bundle(users), true],
    ['the intermediate not sent', [issue('ann', middle)], bundle(users), false],
    ['the intermediate is in the bundle', [issue('ann', middle)], bundle(middle), true],
    ['another authority', [issue('ann', users)], bundle(proxies), false],
    ['another authority of the same name', [issue('ann', strangers)], bundle(users), false],
    ['a leaf that plays authority', [issue('ann', fake), fake], bundle(users), false],
    ['an unrelated intermediate', [issue('ann', strangers), middle], bundle(users), false],
    ['an empty bundle', [issue('ann', users)], [], false],
  ]
  for (const [name, chain, authorities, expected] of rows)
    t.equal(trustedUntil(peerOf(chain), authorities) !== null, expected, name)
  const ending = issue('users', undefined, { notAfter: NOW + 60_000 })
  const until = trustedUntil(peerOf([issue('ann', ending)]), bundle(ending))
  t.equal(until, Math.floor((NOW + 60_000) / 1_000) * 1_000, 'no longer than its authority')
})

void t.test('a client certificate identifies its user', async (t) => {
  const { files, change } = changeable(parseCertificates, users.cert)
  const authenticator = clientCertificate(files)
  const ask = (peer: ReturnType<typeof peerOf> | null) => authenticator.authenticate(request([], peer))
  t.equal(await ask(null), null, 'no certificate')
  const ann = issue('ann', users, { organizations: ['web', 'ops'] })
  const user = await ask(peerOf([ann]))
  t.match(user, { name: 'ann', groups: ['web', 'ops'], uid: '' })
  t.equal(user?.expiresAt, Math.floor((NOW + 3_600_000) / 1_000) * 1_000, 'known until the certificate ends')
  t.equal(await ask(peerOf([issue('', users, { organizations: ['web'] })])), null, 'no common name is nobody')
  await t.rejects(ask(peerOf([issue('ann', strangers)])), UnauthorizedError, 'another authority')
  const middle = issue('middle', users, { isAuthority: true })
  await t.rejects(ask(peerOf([issue('ann', middle)])), { cause: /intermediate/ }, 'who signed is not known')
  await t.rejects(ask(peerOf([issue('proxy', proxies)])), UnauthorizedError, 'an authority for proxies makes no users')
  await t.rejects(ask(peerOf([ann], false)), UnauthorizedError, 'the TLS layer did not verify it')
  change(strangers.cert)
  await t.rejects(ask(peerOf([ann])), UnauthorizedError, 'the authority was taken out')
  authenticator.close()
})

void t.test('names in a subject are texts, whatever they contain', async (t) => {
  const authenticator = clientCertificate(changeable(parseCertificates, users.cert).files)
  for (const name of ['a\nO=system:masters', 'a,O=system:masters', '/CN=x', '__proto__', 'ü"\\', 'system:masters']) {
    const user = await authenticator.authenticate(request([], peerOf([issue(name, users, { organizations: [name] })])))
    t.equal(user?.name, name, JSON.stringify(name))
    t.same(user?.groups, [name])
  }
})

void t.test('a front proxy identifies the user', async (t) => {
  const options = {
    authorities: changeable(parseCertificates, proxies.cert).files,
    requestheaderAllowedNames: ['front'],
    requestheaderUsernameHeaders: ['X-Remote-User', 'X-Other-User'],
    requestheaderGroupHeaders: ['X-Remote-Group'],
    requestheaderExtraHeadersPrefix: ['X-Remote-Extra-'],
  }
  const authenticator = requestHeader(options)
  const front = peerOf([issue('front', proxies)])
  const named: readonly (readonly [string, string])[] = [
    ['x-remote-user', 'ann'],
    ['X-Remote-Group', 'a,b'],
    ['X-Remote-Group', 'c'],
    ['X-Remote-Extra-Scopes', 'one'],
    ['X-Remote-Extra-scopes', 'two'],
    ['X-Remote-Extra-example.org%2fkey', 'v'],
    ['X-Remote-Extra-__proto__', 'w'],
  ]
  const user = await authenticator.authenticate(request(named, front))
  t.match(user, { name: 'ann', groups: ['a,b', 'c'], extra: { scopes: ['one', 'two'], 'example.org/key': ['v'] } })
  t.ok(Object.hasOwn(user?.extra ?? {}, '__proto__') && Object.getPrototypeOf(user?.extra) === Object.prototype)
  t.match(await authenticator.authenticate(request([['X-Other-User', 'bob']], front)), { name: 'bob' })
  const jürgen = ['X-Remote-User', 'X-Remote-Group', 'X-Remote-Extra-Scopes'].map(
    (header) => [header, Buffer.from('jürgen').toString('latin1')] as const,
  )
  t.match(
    await authenticator.authenticate(request(jürgen, front)),
    { name: 'jürgen', groups: ['jürgen'], extra: { scopes: ['jürgen'] } },
    'values are UTF-8, as Node reads them',
  )
  t.equal(await authenticator.authenticate(request([['X-Remote-Group', 'a']], front)), null, 'no name is nobody')
  t.equal(await authenticator.authenticate(request(named)), null, 'no certificate: the headers mean nothing')
  t.equal(
    await authenticator.authenticate(request(named, peerOf([issue('front', users)]))),
    null,
    "a user's certificate with the proxy's name",
  )
  t.equal(
    await authenticator.authenticate(request(named, peerOf([issue('front', proxies)], false))),
    null,
    'not verified',
  )
  await t.rejects(authenticator.authenticate(request(named, peerOf([issue('other', proxies)]))), UnauthorizedError)
  const twice = [['X-Remote-User', 'of its client'], ...named] as const
  await t.rejects(authenticator.authenticate(request(twice, front)), UnauthorizedError, 'two names')
  const anyName = requestHeader({ ...options, requestheaderAllowedNames: [] })
  t.match(await anyName.authenticate(request(named, peerOf([issue('other', proxies)]))), { name: 'ann' })
})

void t.test('a file that is not a certificate bundle stops the start', async (t) => {
  for (const text of ['', 'text', '-----BEGIN CERTIFICATE-----\nxx\n-----END CERTIFICATE-----']) {
    t.throws(() => parseCertificates(text), Error, JSON.stringify(text.slice(0, 20)))
  }
  t.equal(parseCertificates(users.cert + proxies.cert).length, 2)
})
