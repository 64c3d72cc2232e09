/** Which tests share a process, and what a process does that several share. */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { ALONE, groupFiles } from './shared-processes.js'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const program = fileURLToPath(new URL('shared-process.js', import.meta.url))
const file = (name: string): string => join('.build', 'test', `${name}.test.js`)

void t.test('files share processes, so many each, and those that measure or change theirs are alone', (t) => {
  const [a, b, c, d] = ['dialect/accept', 'fault/bounds', 'cache/store', 'codec/ingest'].map(file) as [
    string,
    string,
    string,
    string,
  ]
  t.same(groupFiles([a, b, c, d], 2), [[a, c], [b], [d]])
  t.same(groupFiles([a, c, d]), [[a, c, d]])
  t.same(groupFiles([file('support/go-program'), c], 2), [[file('support/go-program')], [c]])
  t.same(groupFiles([]), [])
  t.end()
})

void t.test('every place of a group exists', (t) => {
  for (const source of ALONE) t.ok(existsSync(join(root, source)), source)
  t.end()
})

void t.test('each file of a shared process is a subtest, whatever became of the one before', (t) => {
  // Where tap is found.
  const folder = mkdtempSync(join(root, '.build', 'shared-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const write = (name: string, body: string): string => {
    const path = join(folder, name)
    writeFileSync(path, `import t from 'tap'\n${body}`)
    return path
  }
  const files = [
    write('throws.test.js', `throw new Error('cannot be loaded')`),
    write('fails.test.js', `t.test('one', async (t) => t.ok(false))\nt.test('two', async (t) => t.ok(true))`),
    write('holds.test.js', `t.teardown(() => console.log('# undone'))\nt.test('three', async (t) => t.ok(true))`),
    write('last.test.js', `t.test('four', async (t) => t.ok(true))`),
  ]
  const environment = { ...process.env, TAP: '1', NODE_OPTIONS: '', TEST_FILES: files.join(','), TEST_SECONDS: '30' }
  const { stdout, status } = spawnSync(process.execPath, [program], {
    encoding: 'utf8',
    env: environment,
  })
  t.not(status, 0)
  const ends = [...stdout.matchAll(/^(ok|not ok) (\d) - .*\/(\w+)\.test\.js/gm)].map(
    ([, how, n, name]) => `${how} ${n} ${name}`,
  )
  t.same(ends, ['not ok 1 throws', 'not ok 2 fails', 'ok 3 holds', 'ok 4 last'])
  t.match(stdout, /cannot be loaded/)
  t.ok(stdout.indexOf('# undone') < stdout.indexOf('four'), 'a file is undone before the next begins')
  t.end()
})
