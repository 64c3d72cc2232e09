import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { schedule, type Traits, traitsOf } from './schedule.js'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const program = fileURLToPath(new URL('shared-process.js', import.meta.url))

const traits =
  (known: Record<string, Partial<Traits>>) =>
  (file: string): Traits => ({ sources: 1, waits: false, isAlone: false, ...known[file] })

void t.test('tests that mostly wait have a separate lane, and those with most sources begin first', (t) => {
  const known = traits({ age: { waits: true }, etcd: { waits: true, sources: 9 }, feeds: { sources: 5 } })
  t.strictSame(schedule(['age', 'store', 'state', 'etcd', 'feeds'], 2, known), [
    { groups: [['feeds', 'store', 'state']], jobs: 3 },
    { groups: [['etcd', 'age']], jobs: 3 },
  ])
  t.strictSame(schedule(['store'], 4, known), [{ groups: [['store']], jobs: 5 }], 'a lane without files is left out')
  t.strictSame(schedule(['age'], 1, known), [{ groups: [['age']], jobs: 2 }])
  t.strictSame(schedule([], 1, known), [])
  t.end()
})

void t.test('files share a process, up to a number; those that measure or change their process run alone', (t) => {
  const busy = Array.from({ length: 9 }, (_, i) => `busy ${i}`)
  const known = traits({
    bounds: { isAlone: true, sources: 2 },
    ...Object.fromEntries(['a', 'b', 'c', 'd', 'e'].map((name) => [name, { waits: true }])),
  })
  t.strictSame(schedule([...busy, 'bounds'], 1, known)[0]!.groups, [['bounds'], busy.slice(0, 8), busy.slice(8)])
  t.strictSame(schedule(['a', 'b', 'c', 'd', 'e'], 1, known)[0]!.groups, [['a', 'b', 'c', 'd'], ['e']])
  t.end()
})

void t.test("a file's traits are those of what it starts", (t) => {
  const rows: readonly (readonly [name: string, waits: boolean, isAlone: boolean])[] = [
    ['engine/cache/store', false, false],
    ['engine/feed/feed/etcd', true, false],
    ['fleet/nats', true, false],
    ['fault/bounds', true, true],
    ['kubernetes/codec/object-views', false, true],
    ['support/go-program', false, true],
    ['integration/nats-servers', true, true],
  ]
  for (const [name, waits, isAlone] of rows) t.match(traitsOf(`test/${name}.test.ts`), { waits, isAlone }, name)
  const sourcesOf = (name: string): number => traitsOf(`test/${name}.test.ts`).sources
  t.ok(sourcesOf('integration/rotation') > sourcesOf('engine/cache/store'))
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
