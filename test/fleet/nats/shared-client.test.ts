/**
 * Tests connecting to a real nats-server: every kind of credentials, TLS on both sides, and what is logged when the
 * server rejects them.
 */
import { execFileSync } from 'node:child_process'
import { closeSync, constants, existsSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { load } from '../../../src/server/config/load.js'
import { SharedClient } from '../../../src/fleet/nats/shared-client.js'
import { connectionOf } from '../../../src/server/wiring/nats-fleet.js'
import { systemClock } from '../../../src/support/clock.js'
import type { Logger } from '../../../src/support/log.js'
import { seededRandom } from '../../../src/support/random.js'
import { until } from '../../support/until.js'
import { createAuthority } from '../../support/certificates.js'
import { issue } from '../../server/auth/fixtures.js'
import { createJwtUser, createNkeyUser } from '../../support/nats-admin.js'
import { startNats } from '../../support/nats-process.js'

const authority = createAuthority(t)
const server = authority.server()
const client = authority.client('replica')
const stranger = createAuthority(t)
const directory = mkdtempSync(join(tmpdir(), 'distributary-nats-'))
t.teardown(() => rmSync(directory, { recursive: true, force: true }))

let files = 0
function file(content: string): string {
  const path = join(directory, `secret-${files++}`)
  writeFileSync(path, content)
  return path
}

interface Opened {
  readonly shared: SharedClient
  readonly lines: string[]
  readonly told: string[]
  /** null: not connected yet. */
  readonly connected: Promise<boolean>
  isConnected: boolean
}

/** Parses the options from flags, as the server does. */
function open(t: Test, flags: readonly string[], users = 1): Opened {
  const loaded = load(['--etcd-servers', 'http://127.0.0.1:1', ...flags], {}, () => '')
  if (loaded.kind !== 'run') throw new Error('the flags must run')
  const lines: string[] = []
  const log =
    (level: string) =>
    (fields: object, message: string): void =>
      void lines.push(`${level} ${message} ${JSON.stringify(fields)}`)
  const logger: Logger = { debug: log('debug'), info: log('info'), warn: log('warn'), error: log('error') }
  const random = seededRandom(1)
  const shared = new SharedClient({
    connection: connectionOf(loaded.config),
    clock: systemClock,
    random,
    logger,
  })
  const told: string[] = []
  const listeners = Array.from({ length: users }, () => (reason: string) => void told.push(reason))
  const [first] = listeners.map((listener) => shared.use(listener))
  t.teardown(() => listeners.forEach((listener) => shared.release(listener)))
  const opened: Opened = { shared, lines, told, isConnected: false, connected: first!.then((found) => found !== null) }
  void first!.then(async (found) => {
    if (found === null) return
    // JetStream answers, too.
    await found.ensureStream('S', 's', { replicas: 1, maxBytes: 1e6, maxAgeMs: 60_000 })
    opened.isConnected = true
  })
  return opened
}

const tls = (more = ''): string =>
  `tls { cert_file: "${server.cert}", key_file: "${server.key}", ca_file: "${authority.ca}"\n ${more} }`
const middle = issue('middle', issue('root'), { isAuthority: true })
const viaMiddle = issue('nats', middle, { altNames: ['localhost', '127.0.0.1'] })
const nkey = createNkeyUser()
const jwt = createJwtUser()

for (const { name, config, flags } of [
  { name: 'nothing at all', config: '', flags: [] },
  {
    name: 'a user and a password, with a newline at its end',
    config: 'authorization { user: fleet, password: "s3cret" }',
    flags: ['--nats-username', 'fleet', '--nats-password-file', file('s3cret\n')],
  },
  {
    name: 'an nkey',
    config: `authorization { users: [{ nkey: ${nkey.publicKey} }] }`,
    flags: ['--nats-nkey-file', file(`${nkey.seed}\n`)],
  },
  { name: 'a credentials file', config: jwt.config, flags: ['--nats-creds-file', file(jwt.credentials)] },
  { name: 'TLS, by its authority', config: tls(), flags: ['--nats-cafile', authority.ca] },
  {
    name: 'TLS, by an intermediate alone',
    config: `tls { cert_file: "${file(viaMiddle.cert)}", key_file: "${file(viaMiddle.key)}" }`,
    flags: ['--nats-cafile', file(middle.cert)],
  },
  {
    name: 'TLS, with a certificate of our own as who we are',
    config: tls('verify: true'),
    flags: ['--nats-cafile', authority.ca, '--nats-certfile', client.cert, '--nats-keyfile', client.key],
  },
  {
    name: 'TLS and a password',
    config: `${tls()}\n authorization { user: fleet, password: "s3cret" }`,
    flags: ['--nats-cafile', authority.ca, '--nats-username', 'fleet', '--nats-password-file', file('s3cret')],
  },
] as const) {
  void t.test(`the second of two servers accepts ${name}`, async (t) => {
    const nats = await startNats(t, { config })
    const scheme = name.includes('TLS') ? 'tls' : 'nats'
    const servers = `${scheme}://127.0.0.1:1,${scheme}://127.0.0.1:${nats.port}`
    const opened = open(t, ['--nats-servers', servers, ...flags])
    await until(
      () => opened.isConnected,
      () => `it is let in: ${opened.lines.join()}`,
    )
    t.same(
      opened.lines.filter((line) => line.startsWith('error')),
      [],
    )
  })
}

for (const { name, config, flags, says, scheme = 'nats', attempts = 3 } of [
  {
    name: 'a wrong password',
    config: 'authorization { user: fleet, password: "s3cret" }',
    flags: ['--nats-username', 'fleet', '--nats-password-file', file('wrong')],
    says: /authorization violation/i,
  },
  {
    name: 'no credentials where some are needed',
    config: 'authorization { user: fleet, password: "s3cret" }',
    flags: [],
    says: /authorization violation/i,
  },
  {
    name: 'the nkey of somebody else',
    config: `authorization { users: [{ nkey: ${nkey.publicKey} }] }`,
    flags: ['--nats-nkey-file', file(createNkeyUser().seed)],
    says: /authorization violation/i,
  },
  {
    name: 'a malformed credentials file',
    config: jwt.config,
    flags: ['--nats-creds-file', file('hello')],
    says: /credentials/i,
  },
  {
    name: 'a server whose certificate another authority has signed',
    config: tls(),
    flags: ['--nats-cafile', stranger.ca],
    says: /certificate|self-signed/i,
    scheme: 'tls',
  },
  {
    name: 'no certificate where one is asked for',
    config: tls('verify: true'),
    flags: ['--nats-cafile', authority.ca],
    // With TLS 1.3 the client believes that it is connected, and sees only that the connection ends.
    says: /./,
    scheme: 'tls',
    attempts: 1,
  },
  {
    name: 'TLS with a server that has none',
    config: '',
    flags: ['--nats-cafile', authority.ca],
    says: /TLS is required here/,
  },
] as const) {
  void t.test(`${name}: the refusal is logged once for fifty resources, and retried`, async (t) => {
    const nats = await startNats(t, { config })
    const opened = open(t, ['--nats-servers', `${scheme}://127.0.0.1:${nats.port}`, ...flags], 50)
    await until(() => opened.told.length >= 50 * attempts, 'every attempt is reported to every user')
    t.equal(opened.isConnected, false)
    t.equal(opened.lines.length, 1, opened.lines.join('\n'))
    t.match(opened.lines[0], says)
    t.match(opened.lines[0], /^(error NATS refuses the connection|warn NATS cannot be reached)/)
  })
}

void t.test('a changed password is refused, retried, and accepted with the file’s new content', async (t) => {
  const nats = await startNats(t, { config: 'authorization { user: fleet, password: one }' })
  const path = file('one')
  const flags = ['--nats-username', 'fleet', '--nats-password-file', path]
  const opened = open(t, ['--nats-servers', nats.url, ...flags])
  await until(() => opened.isConnected, 'let in')
  const listener = (): void => {}
  const found = await opened.shared.use(listener)
  t.teardown(() => opened.shared.release(listener))
  await nats.restart('authorization { user: fleet, password: two }')
  await until(() => opened.lines.length > 0, 'it is refused')
  writeFileSync(path, 'two')
  await until(() => found?.isConnected === true, 'let in again')
  t.equal(opened.lines.filter((line) => line.startsWith('error')).length, 1)
  t.match(opened.lines[0], /the server rejected the credentials/)
  t.ok(await found!.streamState('S'))
})

for (const [name, spoil] of [
  ['gone', (path: string): void => rmSync(path)],
  ['half written', (path: string): void => writeFileSync(path, readFileSync(path).subarray(0, 100))],
  [
    'named pipes that nobody writes to',
    (path: string): void => {
      rmSync(path)
      execFileSync('mkfifo', [path])
    },
  ],
] as const) {
  void t.test(`TLS files that are ${name}: new connections use their last content, and the log says so`, async (t) => {
    const nats = await startNats(t, { config: tls('verify: true') })
    const paths = [authority.ca, client.cert, client.key].map((path) => file(readFileSync(path, 'utf8')))
    const flags = ['cafile', 'certfile', 'keyfile'].map((option, i) => `--nats-${option}=${paths[i]}`)
    const opened = open(t, ['--nats-servers', `tls://127.0.0.1:${nats.port}`, ...flags])
    await until(() => opened.isConnected, 'let in')
    const listener = (): void => {}
    const found = await opened.shared.use(listener)
    t.teardown(() => opened.shared.release(listener))
    for (const path of paths) {
      spoil(path)
      // Ends what waits for a pipe.
      t.teardown(() => existsSync(path) && closeSync(openSync(path, constants.O_RDWR | constants.O_NONBLOCK)))
    }
    await nats.restart(tls('verify: true'))
    await until(() => opened.lines.some((line) => line.includes('the credentials cannot be used')), 'it is noticed')
    await until(() => found?.isConnected === true, 'let in again')
    t.ok(await found!.streamState('S'))
    t.equal((await readFile(client.cert)).length, readFileSync(client.cert).length, 'files can be read')
  })
}
