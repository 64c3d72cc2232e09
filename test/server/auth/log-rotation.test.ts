/** The access log is rotated as the API server's is (issue 22): by size, with a bound on the number and the age of old files. */
import { existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import t, { type Test } from 'tap'
import { type AuditLog, type AuditRecord, openAuditLog } from '../../../src/server/auth/audit-log.js'
import type { RotationLimits } from '../../../src/server/auth/log-rotation.js'
import type { Logger } from '../../../src/support/log.js'
import { silentLogger } from '../../../src/support/log.js'
import { until } from '../../support/until.js'
import { VirtualClock } from '../../support/virtual-clock.js'

const record = (n: number): AuditRecord => ({
  user: 'ann',
  groups: [],
  sourceAddress: '1.2.3.4',
  userAgent: 'test',
  transport: 'http1',
  verb: 'list',
  group: '',
  resource: 'pods',
  subresource: '',
  namespace: '',
  name: `n${n}`,
  path: '/api/v1/pods',
  code: 200,
  latencySeconds: 0,
  decision: 'allow',
  rule: null,
})

/** Each line has about 290 bytes, so three fit. */
const LIMITS: RotationLimits = { maxBytes: 1_000, maxAgeMs: 0, maxBackups: 0 }
const DAY_MS = 86_400_000

function scene(t: Test, limits: Partial<RotationLimits> = {}, logger: Logger = silentLogger) {
  const folder = t.testdir()
  const file = path.join(folder, 'audit.log')
  const clock = new VirtualClock()
  const open = (): AuditLog =>
    openAuditLog({ path: file, clock, logger, stdout: process.stdout, rotation: { ...LIMITS, ...limits } })
  const files = (): string[] => readdirSync(folder).toSorted()
  const names = (): string[] =>
    files().flatMap((one) =>
      readFileSync(path.join(folder, one), 'utf8')
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => (JSON.parse(line) as { name: string }).name),
    )
  return { folder, file, clock, open, files, names }
}

void t.test('the file is renamed with its time before it grows beyond the size, and no line is lost', async (t) => {
  const { folder, clock, open, files, names } = scene(t)
  const log = open()
  for (let n = 0; n < 10; n++) {
    log.write(record(n))
    // The file is opened a moment after the stream is made, so the first line is awaited.
    await until(() => names().length === n + 1, `line ${n} is there`)
    clock.advance(100)
  }
  await log.close()
  t.equal(files().length, 4)
  for (const file of files()) {
    t.match(file, /^audit(-2026-01-01T00-00-0\d\.\d00)?\.log$/)
    t.ok(readFileSync(path.join(folder, file)).length <= LIMITS.maxBytes, file)
  }
  t.same(names().toSorted(), Array.from({ length: 10 }, (_, n) => `n${n}`).toSorted())
})

void t.test('two files that are renamed at one time get different names', async (t) => {
  const { open, files, names } = scene(t, { maxBytes: 1 })
  const log = open()
  for (let n = 0; n < 4; n++) {
    log.write(record(n))
    await until(() => names().length === n + 1, `line ${n} is there`)
  }
  await log.close()
  t.equal(files().length, 4)
})

void t.test('old files are deleted by number, and by the time in their name', async (t) => {
  const { folder, file, clock, open, files } = scene(t, { maxBackups: 2, maxAgeMs: 7 * DAY_MS })
  for (const name of [
    'audit-2025-12-31T00-00-00.000.log',
    'audit-2025-12-30T00-00-00.000.log',
    'audit-2025-12-29T00-00-00.000.log',
    'audit-2024-01-01T00-00-00.000.log',
    'audit-of-another.log',
    'audit-2025-12-31T00-00-00.000.log.gz',
  ]) {
    writeFileSync(path.join(folder, name), '')
  }
  const log = open()
  const foreign = ['audit-2025-12-31T00-00-00.000.log.gz', 'audit-of-another.log']
  t.same(
    files().filter((file) => !foreign.includes(file) && file !== 'audit.log'),
    ['audit-2025-12-30T00-00-00.000.log', 'audit-2025-12-31T00-00-00.000.log'],
  )
  clock.advance(7 * DAY_MS)
  for (let n = 0; n < 4; n++) {
    log.write(record(n))
    await until(() => existsSync(file) && readFileSync(file, 'utf8').includes(`"n${n}"`), `line ${n} is there`)
  }
  await log.close()
  t.same(
    files().filter((file) => file.startsWith('audit-2025') && !foreign.includes(file)),
    [],
    'both are too old when the next is renamed',
  )
  for (const file of foreign) t.ok(files().includes(file), `${file} is left alone`)
})

void t.test('several processes append to one file, and each line lands once, there or in a renamed one', async (t) => {
  const { clock, open, files, names } = scene(t)
  const logs = [open(), open(), open()]
  let written = 0
  for (let round = 0; round < 12; round++) {
    for (const log of logs) log.write(record(written++))
    await until(() => names().length === written, `${written} lines are there`)
    clock.advance(1_000)
  }
  await Promise.all(logs.map((log) => log.close()))
  t.same(names().toSorted(), Array.from({ length: written }, (_, n) => `n${n}`).toSorted())
  t.ok(files().length > 4, `${files().length} files`)
})

void t.test('a file that the platform moves is found within a second, without a signal', async (t) => {
  const { folder, file, clock, open, names, files } = scene(t, { maxBytes: 100_000 })
  const log = open()
  log.write(record(0))
  await until(() => names().length === 1, 'the first line is there')
  renameSync(file, path.join(folder, 'moved'))
  clock.advance(1_000)
  log.write(record(1))
  await log.close()
  t.same(files(), ['audit.log', 'moved'])
  t.same(names(), ['n1', 'n0'])
})

void t.test('a file that cannot be renamed is written to all the same, and the log says so', async (t) => {
  const errors: unknown[] = []
  const logger = {
    ...silentLogger,
    error: (fields: object, message: string) => void errors.push({ ...fields, message }),
  }
  const { folder, clock } = scene(t)
  // The file system has room for this name, but not for one with a time in it.
  const file = path.join(folder, `${'a'.repeat(250)}.log`)
  const log = openAuditLog({ path: file, clock, logger, stdout: process.stdout, rotation: LIMITS })
  for (let n = 0; n < 8; n++) {
    log.write(record(n))
    await until(() => existsSync(file) && readFileSync(file, 'utf8').includes(`"n${n}"`), `line ${n} is there`)
  }
  await log.close()
  t.ok(errors.length > 0 && errors.length < 5, 'not at every line')
  t.match(errors[0], { message: 'the audit log cannot be rotated', reason: /ENAMETOOLONG/ })
})
