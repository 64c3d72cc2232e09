import { appendFileSync, copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type Config, load } from '../../../src/server/config/load.js'
import { keyFromText } from '../../../src/engine/model/event.js'
import type { Revision } from '../../../src/engine/model/revision.js'
import { watchEtcdCredentials } from '../../../src/server/wiring/etcd-credentials.js'
import type { Logger } from '../../../src/support/log.js'
import { connectEtcd } from '../../../src/engine/upstream/etcd/etcd-upstream.js'
import { type CertificatePair, createAuthority } from '../../support/certificates.js'
import { startEtcd } from '../../support/etcd-process.js'
import { until } from '../../support/until.js'
import { VirtualClock } from '../../support/virtual-clock.js'

const LOOK_MS = 2_100

/** A folder with the files of the options, mounted like a Secret. */
function folderOf(t: Test): (name: string) => string {
  const folder = mkdtempSync(join(tmpdir(), 'distributary-credentials-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return (name) => join(folder, name)
}

function configOf(flags: readonly string[]): Config {
  const loaded = load(flags, {}, (path) => readFileSync(path, 'utf8'))
  if (loaded.kind !== 'run') throw new Error('no configuration')
  return loaded.config
}

function recordingLogger(): { logger: Logger; lines: string[] } {
  const lines: string[] = []
  const add = (_fields: object, message: string): void => void lines.push(message)
  return { logger: { debug: () => {}, info: add, warn: add, error: add }, lines }
}

/** An upstream that takes the client certificate that `put` has written, once the clock has advanced by `LOOK_MS`. */
function rotatingUpstream(t: Test, url: string, ca: string, first: CertificatePair) {
  const path = folderOf(t)
  const put = (pair: CertificatePair): void => {
    copyFileSync(pair.cert, path('cert'))
    copyFileSync(pair.key, path('key'))
  }
  put(first)
  const files = ['--etcd-cafile', ca, '--etcd-certfile', path('cert'), '--etcd-keyfile', path('key')]
  const clock = new VirtualClock()
  const { logger, lines } = recordingLogger()
  const credentials = watchEtcdCredentials(configOf(['--etcd-servers', url, ...files]), clock, logger)
  t.teardown(() => credentials.close())
  const followCredentials = credentials.onChange.bind(credentials)
  const upstream = connectEtcd({ endpoints: [url], ...credentials.value, followCredentials, logger })
  t.teardown(() => upstream.close())
  return { upstream, put, clock, lines }
}

void t.test('a renewed certificate is presented at the next connection, and watches continue', async (t) => {
  const [before, after] = [createAuthority(t), createAuthority(t)]
  const trusted = folderOf(t)('trusted.pem')
  copyFileSync(before.ca, trusted)
  appendFileSync(trusted, readFileSync(after.ca))
  const etcd = await startEtcd(t, { tls: { ...after.server(), clientCa: trusted } })
  const { upstream, put, clock, lines } = rotatingUpstream(t, etcd.url, after.ca, before.client('distributary'))
  const seen: number[] = []
  const ends: string[] = []
  let isOpen = false
  const prefix = keyFromText('/registry/pods/')
  const key = keyFromText('/registry/pods/a')
  upstream.watch(
    { prefix, startRevision: 1 as Revision },
    {
      onOpen: () => (isOpen = true),
      onBatches: (batches) => seen.push(...batches.map(({ revision }) => revision)),
      onProgress: () => {},
      onEnd: (end) => ends.push(end.kind),
    },
  )
  await until(() => isOpen, 'the watch is open')

  put(after.client('distributary'))
  clock.advance(LOOK_MS)
  t.same(lines, ['a changed file was read'])
  const written = await upstream.write([], [{ type: 'put', key, value: Buffer.from('1') }])
  await until(() => seen.includes(written.revision), 'the watch that was already open sends the event')
  t.same(ends, [])

  // From here on the first certificate would be rejected.
  copyFileSync(after.ca, trusted)
  await etcd.restart()
  await until(async () => (await upstream.readKey(key).catch(() => null))?.value.toString() === '1', 'it is let in')
})

void t.test('a certificate that etcd does not accept leaves the connection with the previous one in use', async (t) => {
  const [ours, stranger] = [createAuthority(t), createAuthority(t)]
  const etcd = await startEtcd(t, { tls: { ...ours.server(), clientCa: ours.ca } })
  const { upstream, put, clock, lines } = rotatingUpstream(t, etcd.url, ours.ca, ours.client('distributary'))
  const before = await upstream.currentRevision()

  put(stranger.client('distributary'))
  clock.advance(LOOK_MS)
  const refused = 'etcd refused the changed certificates; connections to it keep using the previous ones'
  await until(() => lines.includes(refused), 'the log says so')
  for (let i = 0; i < 5; i++) t.equal(await upstream.currentRevision(), before)
  t.same(lines, ['a changed file was read', refused])

  put(ours.client('renewed'))
  clock.advance(LOOK_MS)
  await etcd.restart()
  await until(async () => (await upstream.currentRevision().catch(() => 0)) === before, 'the next one is used')
})

void t.test('new files that are unusable leave the previous ones in force, with one line', async (t) => {
  const path = folderOf(t)
  const authority = createAuthority(t)
  const [first, second] = [authority.client('a'), authority.client('b')]
  copyFileSync(first.cert, path('cert'))
  copyFileSync(first.key, path('key'))
  writeFileSync(path('password'), 'one\n')
  const flags = [
    '--etcd-servers',
    'https://127.0.0.1:1',
    '--etcd-certfile',
    path('cert'),
    '--etcd-keyfile',
    path('key'),
  ]
  const user = ['--etcd-username', 'u', '--etcd-password-file', path('password')]
  const clock = new VirtualClock()
  const { logger, lines } = recordingLogger()
  const credentials = watchEtcdCredentials(configOf([...flags, ...user]), clock, logger)
  t.teardown(() => credentials.close())
  t.same(credentials.value.user, { name: 'u', password: 'one' })

  const own = credentials.value
  copyFileSync(second.cert, path('cert'))
  clock.advance(LOOK_MS * 5)
  t.equal(credentials.value, own, 'a certificate without its key')
  t.same(lines, ['a changed file is invalid; its previous content stays in use'])
  rmSync(path('key'))
  clock.advance(LOOK_MS * 5)
  t.equal(credentials.value, own, 'a key that is not there')
  t.equal(lines.length, 2)

  copyFileSync(second.key, path('key'))
  writeFileSync(path('password'), 'two\n')
  clock.advance(LOOK_MS)
  t.equal(credentials.value.tls?.cert?.toString(), readFileSync(second.cert, 'utf8'))
  t.same(credentials.value.user, { name: 'u', password: 'two' })
})

void t.test('files that are unusable from the start are named', async (t) => {
  const path = folderOf(t)
  const authority = createAuthority(t)
  const { cert } = authority.client('a')
  const { key } = authority.client('b')
  const flags = ['--etcd-servers', 'https://127.0.0.1:1', '--etcd-certfile', cert, '--etcd-keyfile', key]
  const { logger } = recordingLogger()
  t.throws(() => watchEtcdCredentials(configOf(flags), new VirtualClock(), logger), { message: /--etcd-keyfile/ })
  writeFileSync(path('ca'), 'nothing')
  const withCa = ['--etcd-servers', 'https://127.0.0.1:1', '--etcd-cafile', path('ca')]
  t.throws(() => watchEtcdCredentials(configOf(withCa), new VirtualClock(), logger), { message: /--etcd-cafile/ })
})
