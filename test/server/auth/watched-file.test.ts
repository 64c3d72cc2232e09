/** Tests when a changed file is read. */
import { execFileSync } from 'node:child_process'
import { appendFileSync, readFileSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { WatchedFiles } from '../../../src/server/auth/watched-file.js'
import { silentLogger } from '../../../src/support/log.js'
import { VirtualClock } from '../../support/virtual-clock.js'

void t.test('a file that is being written is adopted when it stops changing, and never in part', async (t) => {
  const path = join(t.testdir(), 'policy')
  writeFileSync(path, 'dave\n')
  const clock = new VirtualClock()
  const taken: string[] = []
  const parse = (content: Buffer): string => content.toString()
  const files = new WatchedFiles({ paths: [path], clock, logger: silentLogger }, parse)
  files.onChange((content) => taken.push(content))
  clock.advance(1_990)
  // Editors, `cp` and shell redirection write a file like this: they truncate it, then fill it in parts.
  for (const part of ['', 'alice\n', 'bob\n', 'carol\n']) {
    if (part === '') writeFileSync(path, part)
    else appendFileSync(path, part)
    clock.advance(50)
  }
  t.same(taken, [])
  t.equal(files.value, 'dave\n')
  clock.advance(200)
  t.same(taken, ['alice\nbob\ncarol\n'])

  writeFileSync(path, '')
  clock.advance(1_950)
  writeFileSync(path, 'alice\nbob\ncarol\n')
  clock.advance(10_000)
  t.equal(taken.length, 1, 'one that is as it was has not changed')
  writeFileSync(path, '')
  clock.advance(2_100)
  t.same(taken.slice(1), [''], 'one that stays empty has')
  files.close()
  writeFileSync(path, 'dave\n')
  clock.advance(10_000)
  t.equal(taken.length, 2)
})

void t.test('a file that changes at every look is adopted once it stops', (t) => {
  const clock = new VirtualClock()
  let looks = 0
  let isChanging = true
  const readFile = (): Buffer => Buffer.from(String(isChanging ? looks++ : looks))
  const files = new WatchedFiles({ paths: ['memory'], clock, logger: silentLogger, readFile }, String)
  for (let i = 0; i < 50; i++) clock.advance(100)
  t.equal(files.value, '0')
  isChanging = false
  clock.advance(200)
  t.equal(files.value, String(looks))
  files.close()
  t.end()
})

void t.test('a named pipe or a device is refused at the start and later, without blocking', (t) => {
  const path = join(t.testdir(), 'policy')
  const clock = new VirtualClock()
  const states: (readonly [string, boolean])[] = []
  const metrics = {
    filesUsable: (files: string, isUsable: number) => states.push([files, isUsable === 1]),
  }
  const open = (of: string): WatchedFiles<string> =>
    new WatchedFiles({ paths: [of], clock, logger: silentLogger, metrics }, (content) => {
      if (content.length === 0) throw new Error('empty')
      return content.toString()
    })
  execFileSync('mkfifo', [path])
  t.throws(() => open(path), /not a regular file/)
  t.throws(() => open('/dev/zero'), /not a regular file/)
  unlinkSync(path)
  writeFileSync(path, 'ann\n')
  const files = open(path)
  t.same(states.splice(0), [[path, true]])
  unlinkSync(path)
  execFileSync('mkfifo', [path])
  clock.advance(10_000)
  t.equal(files.value, 'ann\n')
  t.same(states.splice(0), [[path, false]], 'it is told once')
  unlinkSync(path)
  writeFileSync(path, 'ann\n')
  clock.advance(2_000)
  t.same(states.splice(0), [[path, true]], 'a file that is as it was can be used at once')

  writeFileSync(path, '')
  clock.advance(2_100)
  unlinkSync(path)
  clock.advance(2_100)
  writeFileSync(path, '')
  clock.advance(10_000)
  t.same(
    states.splice(0).map(([, isUsable]) => isUsable),
    [false, false, false],
    'a file that can be read again, but is still invalid, cannot be used',
  )
  writeFileSync(path, 'ann\n')
  clock.advance(2_100)
  t.same(states.splice(0), [[path, true]], 'the content in force is a valid change too')
  files.close()
  t.end()
})

void t.test('content that could not be parsed is tried again, and reported once', (t) => {
  const folder = t.testdir()
  const [path, other] = [join(folder, 'kubeconfig'), join(folder, 'key')]
  writeFileSync(path, 'first')
  writeFileSync(other, '')
  const clock = new VirtualClock()
  const told: string[] = []
  const tell = (_fields: object, message: string): void => void told.push(message)
  const logger = { ...silentLogger, error: tell, info: tell }
  const files = new WatchedFiles(
    { paths: [path], clock, logger },
    (content) => `${content.toString()} ${readFileSync(other, 'utf8')}`,
  )
  writeFileSync(path, 'second')
  unlinkSync(other)
  clock.advance(10_000)
  t.equal(files.value, 'first ')
  t.same(told.splice(0), ['a changed file is invalid; its previous content stays in use'])
  writeFileSync(other, 'key')
  clock.advance(2_000)
  t.equal(files.value, 'second key')
  t.same(told.splice(0), ['a changed file was read'])
  clock.advance(10_000)
  t.same(told, [])
  files.close()
  t.end()
})
