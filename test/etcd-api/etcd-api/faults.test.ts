/**
 * Watchers in etcd's own dialect, with faults between everything: between them and us, between us and etcd, restarts of
 * both, and compactions. Whatever happens, each of them gets every event once, in order, whole revisions, with the right
 * previous values, and no progress before what it covers.
 */
import { createHash } from 'node:crypto'
import t from 'tap'
import { keyFromText, keyToText } from '../../../src/engine/model/event.js'
import { randomInteger, seededRandom } from '../../../src/support/random.js'
import { assertGuarantees } from '../../guarantees/validate.js'
import { recordEtcdHistory } from '../../support/etcd-history.js'
import { startEtcd } from '../../support/etcd-process.js'
import { EtcdWriter, type Written } from '../../support/etcd-writer.js'
import { startFaultProxy } from '../../support/fault-proxy.js'
import { freePort } from '../../support/free-port.js'
import { startServer } from '../../support/server-process.js'
import { testSeed } from '../../support/test-seeds.js'
import { pause, until } from '../../support/until.js'
import { EtcdWatcher, type WatchedRange } from '../support/etcd-watcher.js'

const range = (name: string, key: string, end: string, prevKv: boolean): WatchedRange => ({
  name,
  prefix: keyFromText(key),
  key,
  end,
  prevKv,
})

const RANGES: readonly WatchedRange[] = [
  range('all', '/flags/', '/flags0', false),
  range('all with previous', '/flags/', '/flags0', true),
  range('a part', '/flags/a/', '/flags/a0', true),
  range('another part', '/flags/b/', '/flags/b0', false),
  range('one key', '/flags/only', '', true),
]

const KEYS = [
  ...Array.from({ length: 6 }, (_, i) => `/flags/a/${i}`),
  ...Array.from({ length: 4 }, (_, i) => `/flags/b/${i}`),
  '/flags/only',
  '/other/x',
]

const fingerprint = (value: Buffer): string => createHash('sha256').update(value).digest('base64url').slice(0, 16)

void t.test('every event comes once and in order, whatever breaks', async (t) => {
  const random = seededRandom(testSeed(1))
  const etcd = await startEtcd(t)
  const behind = await startFaultProxy({ targetPort: Number(new URL(etcd.url).port) })
  const port = await freePort()
  const front = await startFaultProxy({ targetPort: port })
  t.teardown(() => Promise.all([behind.close(), front.close()]))
  const recorder = await recordEtcdHistory(t, etcd)
  const writer = new EtcdWriter([etcd])
  const flags = [
    `--port=${port}`,
    `--etcd-servers=http://127.0.0.1:${behind.port}`,
    '--resource=flags=/flags/',
    '--etcd-api=flags',
    // So little that watchers often resume below it.
    '--default-watch-cache-size=64',
    '--shutdown-watch-termination-grace-period=200ms',
  ]
  let server = await startServer(t, { flags })
  const watchers = [...RANGES, ...RANGES].map(
    (each, i) => new EtcdWatcher(`http://127.0.0.1:${front.port}`, { ...each, name: `${each.name} ${i}` }, fingerprint),
  )
  t.teardown(() => Promise.all(watchers.map((watcher) => watcher.stop())))
  const areOpen = (): boolean => watchers.every(({ isWatching }) => isWatching)
  await until(areOpen, 'all watches are open')

  let compacted = 0
  const write = async (count: number): Promise<void> => {
    for (let i = 0; i < count; i++) {
      const values: Record<string, Written> = {}
      for (let keys = randomInteger(random, 1, 3); keys > 0; keys--) {
        const value = Buffer.alloc(randomInteger(random, 0, 2_000), `${i} `)
        values[KEYS[randomInteger(random, 0, KEYS.length - 1)]!] = randomInteger(random, 0, 4) === 0 ? null : value
      }
      await writer.tryCommit(values)
    }
  }
  const compact = async (): Promise<void> => {
    compacted = await writer.put('/other/compact', 'now')
    await etcd.compact(compacted)
  }
  const restart = async (signal: 'SIGTERM' | 'SIGKILL', meanwhile = 5): Promise<void> => {
    await server.kill(signal)
    await write(meanwhile)
    server = await startServer(t, { flags })
  }
  const faults: readonly (readonly [name: string, fault: () => Promise<void>])[] = [
    ['connections of clients are cut', async () => front.cut('rst')],
    ['connections of clients are cut inside a message', async () => front.cutAfter(randomInteger(random, 1, 9_000))],
    ['the connection to etcd is cut', async () => behind.cut('rst')],
    ['the connection to etcd is cut inside a message', async () => behind.cutAfter(randomInteger(random, 1, 9_000))],
    ['etcd is killed', () => etcd.restart()],
    ['the server is stopped', () => restart('SIGTERM')],
    ['the server is killed, and misses more than its history', () => restart('SIGKILL', 100)],
    ['etcd compacts', compact],
    [
      'etcd compacts what clients have not seen',
      async () => {
        await server.kill('SIGKILL')
        await write(30)
        await compact()
        server = await startServer(t, { flags })
      },
    ],
    [
      'clients do not read',
      async () => {
        front.stall('to-client')
        await write(100)
        front.release()
      },
    ],
    [
      'etcd is silent',
      async () => {
        behind.stall()
        await write(20)
        behind.release()
      },
    ],
    [
      'clients come back while etcd is away',
      async () => {
        await etcd.kill()
        front.cut('fin')
        await pause(200)
        await etcd.restart()
      },
    ],
  ]
  for (const round of [1, 2]) {
    for (const [name, fault] of faults) {
      t.comment(`round ${round}: ${name}`)
      const writing = write(20)
      for (const watcher of watchers) watcher.askForProgress()
      await fault()
      await writing
      await until(areOpen, `all watches are open again after: ${name}`)
    }
  }

  const last = await writer.put('/flags/a/0', 'last')
  await until(
    () => {
      for (const watcher of watchers) if (watcher.position < last) watcher.askForProgress()
      return watchers.every(({ position }) => position >= last)
    },
    () => `every watch has reached ${last}: ${watchers.map(({ position }) => position).join()}`,
  )
  const reference = await recorder.finish(writer.commits, (_, value) => ({
    object: {},
    fingerprint: fingerprint(value),
  }))
  const history = {
    watches: watchers.flatMap(({ watches }) => watches),
    lists: watchers.flatMap(({ lists }) => lists),
    writes: writer.writes,
  }
  assertGuarantees(t, history, reference, { settledRevision: last })
  t.same(
    watchers.flatMap((watcher) => watcher.faults),
    [],
  )
  const items = history.watches.reduce((sum, watch) => sum + watch.items.length, 0)
  t.ok(items > 1_000, `${items} events and progress reports were judged`)
  const ends = (kind: string): number => history.watches.filter(({ end }) => end === kind).length
  t.ok(ends('cut') > 0 && ends('eof') > 0, `${ends('cut')} streams were cut, ${ends('eof')} ended by the server`)
  t.ok(
    watchers.some(({ compactions }) => compactions > 0),
    'some had to read again',
  )

  const before = new Map(
    reference.batches.flatMap(({ revision, changes }) =>
      changes.map(({ key, previous, previousRevision }) => [
        `${revision} ${keyToText(key)}`,
        previous === null ? null : { value: fingerprint(previous), revision: Number(previousRevision) },
      ]),
    ),
  )
  const wrong = watchers
    .flatMap(({ previous }) => previous)
    // etcd has no previous value left at or below a compaction.
    .filter(({ previous, revision }) => previous !== null || revision > compacted)
    .filter(({ key, revision, previous }) => {
      const given = previous === null ? null : { value: fingerprint(previous.value), revision: previous.revision }
      return JSON.stringify(before.get(`${revision} ${key}`)) !== JSON.stringify(given)
    })
  t.same(wrong.slice(0, 5), [], `every previous value is right: ${wrong.length} are not`)
})
