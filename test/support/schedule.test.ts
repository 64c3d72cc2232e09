import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { ALONE, LONG, schedule, WAITING } from './schedule.js'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const program = fileURLToPath(new URL('shared-process.js', import.meta.url))

const file = (name: string): string => `test/${name}.test.ts`
const age = file('fault/age')
const etcd = file('engine/feed/feed/etcd')
const state = file('engine/feed/feed-state')
const store = file('engine/cache/store')
const nats = file('fleet/nats')
const feeds = file('fleet/nats-feeds')
const bounds = file('fault/bounds')

void t.test('tests that mostly wait have a separate lane, and long ones begin first', (t) => {
  t.strictSame(schedule([age, store, state, etcd, nats, feeds], 2), [
    { groups: [[feeds, store, state]], jobs: 3 },
    { groups: [[age, etcd, nats]], jobs: 3 },
  ])
  t.strictSame(schedule([store], 4), [{ groups: [[store]], jobs: 5 }], 'a lane without files is left out')
  t.strictSame(schedule([age], 1), [{ groups: [[age]], jobs: 2 }])
  t.strictSame(schedule([], 1), [])
  t.end()
})

void t.test('files share a process, up to a number; those that measure or change their process run alone', (t) => {
  const busy = Array.from({ length: 9 }, (_, i) => file(`cache/${i}`))
  t.strictSame(schedule([...busy, bounds], 1)[0]!.groups, [[bounds], busy.slice(0, 8), busy.slice(8)])
  const waiting = Array.from({ length: 5 }, (_, i) => file(`engine/feed/feed/${i}`))
  t.strictSame(schedule(waiting, 1)[0]!.groups, [waiting.slice(0, 4), waiting.slice(4)])
  t.end()
})

void t.test('every listed path exists', (t) => {
  for (const source of [...LONG, ...WAITING, ...ALONE]) t.ok(existsSync(join(root, source)), source)
  t.end()
})

type Write = (name: string, body: string) => string

/** Test files to run in one process, written into a folder of their own. */
function testFiles(t: Test): Write {
  const folder = mkdtempSync(join(root, '.build', 'shared-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  return (name, body) => {
    writeFileSync(join(folder, `${name}.test.js`), `import t from 'tap'\n${body}`)
    return `${basename(folder)}/${name}.test.ts`
  }
}

function runTogether(files: readonly string[], seconds: number) {
  const environment = {
    ...process.env,
    TAP: '1',
    NODE_OPTIONS: '',
    TEST_FILES: files.join(','),
    TEST_SECONDS: `${seconds}`,
  }
  const ended = spawnSync(process.execPath, [program], { encoding: 'utf8', env: environment, timeout: 60_000 })
  const ends = [...ended.stdout.matchAll(/^(ok|not ok) (\d) - .*\/(\w+)\.test\.ts/gm)].map(
    ([, how, n, name]) => `${how} ${n} ${name}`,
  )
  return { ...ended, ends }
}

void t.test('each file of a shared process is a subtest, whatever became of the previous one', (t) => {
  const write = testFiles(t)
  const { stdout, status, ends } = runTogether(
    [
      write('throws', `throw new Error('cannot be loaded')`),
      write('fails', `t.test('one', async (t) => t.ok(false))\nt.test('two', async (t) => t.ok(true))`),
      write('holds', `t.teardown(() => console.log('# undone'))\nt.test('three', async (t) => t.ok(true))`),
      write('last', `t.test('four', async (t) => t.ok(true))`),
    ],
    30,
  )
  t.not(status, 0)
  t.same(ends, ['not ok 1 throws', 'not ok 2 fails', 'ok 3 holds', 'ok 4 last'])
  t.match(stdout, /cannot be loaded/)
  t.ok(stdout.indexOf('# undone') < stdout.indexOf('four'), 'a file is undone before the next begins')
  t.end()
})

void t.test(
  'a file that does not end is named after its time, and what it leaves running does not hold the run',
  (t) => {
    const write = testFiles(t)
    const { stdout, status, ends } = runTogether(
      [
        write('waits', `setInterval(() => {}, 100)\nt.test('forever', () => new Promise(() => {}))`),
        write('last', `t.test('one', async (t) => t.ok(true))`),
      ],
      1,
    )
    t.equal(status, 1)
    t.same(ends, ['not ok 1 waits', 'ok 2 last'])
    t.match(stdout, /^1\.\.2$/m, 'the run is whole')
    t.match(stdout, /^# still running after all files: .*Timeout/m)
    t.end()
  },
)
