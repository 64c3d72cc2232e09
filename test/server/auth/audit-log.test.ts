import { execFileSync } from 'node:child_process'
import { closeSync, constants, mkdirSync, openSync, readFileSync, readSync, renameSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { Writable } from 'node:stream'
import t from 'tap'

import { type AuditLog, type AuditRecord, openAuditLog } from '../../../src/server/auth/audit-log.js'
import { silentLogger } from '../../../src/support/log.js'
import { until } from '../../support/until.js'
import { VirtualClock } from '../../support/virtual-clock.js'
import { Folder } from './fixtures.js'

const RECORD: AuditRecord = {
  user: 'ann',
  groups: ['web'],
  sourceAddress: '1.2.3.4',
  userAgent: 'kubectl',
  transport: 'http1',
  verb: 'list',
  group: '',
  resource: 'pods',
  subresource: '',
  namespace: 'web',
  name: '',
  path: '/api/v1/namespaces/web/pods',
  code: 200,
  latencySeconds: 0.012,
  decision: 'allow',
  rule: 'Policy: web team',
}

const lines = (text: string): Record<string, unknown>[] =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Record<string, unknown>)

void t.test('each request appends one line to a file that only its owner can read', async (t) => {
  const file = path.join(new Folder(t).path, 'audit.log')
  const options = { path: file, clock: new VirtualClock(), logger: silentLogger, stdout: process.stdout }
  for (let i = 0; i < 2; i++) {
    const log = openAuditLog(options)
    log.write(RECORD)
    await log.close()
  }
  t.same(lines(readFileSync(file, 'utf8')), [
    { time: '2026-01-01T00:00:00.000Z', ...RECORD },
    { time: '2026-01-01T00:00:00.000Z', ...RECORD },
  ])
})

void t.test("the caller's text cannot break a line or make it endless, and no query is kept", async (t) => {
  const chunks: string[] = []
  const stdout = new Writable({
    write(chunk: Buffer, _encoding, done) {
      chunks.push(chunk.toString())
      done()
    },
  })
  const log = openAuditLog({ path: '-', clock: new VirtualClock(), logger: silentLogger, stdout })
  log.write({ ...RECORD, user: 'a\n{"user":"root"}', userAgent: 'x'.repeat(100_000), path: '/api?token=geheim#x' })
  const [line] = lines(chunks.join(''))
  t.equal(lines(chunks.join('')).length, 1)
  t.equal(line?.['user'], 'a\n{"user":"root"}')
  t.equal(String(line?.['userAgent']).length, 1_025)
  t.equal(line?.['path'], '/api')
})

void t.test('no line exceeds the size that a shared pipe writes atomically', async (t) => {
  const chunks: string[] = []
  const stdout = new Writable({
    write(chunk: Buffer, _encoding, done) {
      chunks.push(chunk.toString())
      done()
    },
  })
  const log = openAuditLog({ path: '-', clock: new VirtualClock(), logger: silentLogger, stdout })
  const groups = Array.from({ length: 500 }, (_, i) => `group ${i} \u{1f600}`)
  log.write({ ...RECORD, groups })
  for (const text of ['x', '\0', '\u{1f600}', '"']) {
    const long = text.repeat(5_000)
    const rest = { group: long, resource: long, subresource: long, namespace: long, name: long, path: long, rule: long }
    log.write({ ...RECORD, ...rest, user: long, userAgent: long, groups: [long, long, long, ...groups] })
  }
  t.equal(chunks.length, 5, 'each is written at once')
  for (const chunk of chunks) t.ok(Buffer.byteLength(chunk) <= 4_096, `${Buffer.byteLength(chunk)} bytes`)
  const [first] = lines(chunks.join(''))
  const { groups: kept = [], groupsLeftOut } = first as { groups?: string[]; groupsLeftOut?: number }
  t.equal(kept.length + Number(groupsLeftOut), 500, 'the line says how many groups it leaves out')
  t.equal(first?.['user'], 'ann')
})

void t.test('after the file has been moved away, a new one is started', async (t) => {
  const file = path.join(new Folder(t).path, 'audit.log')
  const log = openAuditLog({ path: file, clock: new VirtualClock(), logger: silentLogger, stdout: process.stdout })
  log.write({ ...RECORD, name: 'before' })
  await new Promise((resolve) => setImmediate(resolve))
  while (true) {
    try {
      renameSync(file, `${file}.1`)
      break
    } catch {
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
  log.reopen()
  log.write({ ...RECORD, name: 'after' })
  await log.close()
  t.match(lines(readFileSync(file, 'utf8')), [{ name: 'after' }])
  t.match(lines(readFileSync(`${file}.1`, 'utf8')), [{ name: 'before' }])
})

void t.test('a disk that does not keep up costs lines, which are counted and logged, but no memory', async (t) => {
  const written: string[] = []
  let release: (() => void) | null = null
  const stdout = new Writable({
    write(chunk: Buffer, _encoding, done) {
      written.push(chunk.toString())
      if (release === null) release = done
      else done()
    },
  })
  const log = openAuditLog({ path: '-', clock: new VirtualClock(), logger: silentLogger, stdout })
  for (let i = 0; i < 50_000; i++) log.write(RECORD)
  t.ok(log.dropped > 0 && stdout.writableLength < 5 * 2 ** 20, `${log.dropped} dropped`)
  const { dropped } = log
  ;(release as (() => void) | null)?.()
  await new Promise((resolve) => setImmediate(resolve))
  while (stdout.writableLength > 0) await new Promise((resolve) => setImmediate(resolve))
  log.write(RECORD)
  const all = lines(written.join(''))
  t.match(all.at(-2), { dropped })
  t.equal(all.length, 50_000 - dropped + 2)
})

void t.test('a file that could not be written gets lines again once it can be, without a signal', async (t) => {
  const folder = path.join(new Folder(t).path, 'logs')
  const file = path.join(folder, 'audit.log')
  const clock = new VirtualClock()
  const said: string[] = []
  const say = (_fields: object, message: string): void => void said.push(message)
  const logger = { debug: say, info: say, warn: say, error: say }
  const log = openAuditLog({ path: file, clock, logger, stdout: process.stdout })
  t.teardown(() => log.close())
  log.write(RECORD)
  await until(() => log.dropped === 1, 'the line is counted as dropped')
  for (let i = 0; i < 3; i++) {
    clock.advance(5_000)
    log.write(RECORD)
    await until(() => log.dropped === i + 2, 'so is each later one')
  }
  t.same(said, ['the audit log cannot be written'], 'the log says it once')
  mkdirSync(folder)
  clock.advance(1_000)
  log.write(RECORD)
  t.equal(log.dropped, 5, 'the file is not opened for every line')
  clock.advance(5_000)
  log.write({ ...RECORD, name: 'after' })
  await until(() => said.length > 1, 'the log says that it is written again')
  await log.close()
  t.match(lines(readFileSync(file, 'utf8')), [{ dropped: 5 }, { name: 'after' }])
  t.same(said.slice(1), ['the audit log can be written again'])
})

void t.test('a named pipe without a reader loses lines, but blocks no thread', async (t) => {
  const file = path.join(new Folder(t).path, 'audit.pipe')
  execFileSync('mkfifo', [file])
  const clock = new VirtualClock()
  const said: object[] = []
  const say = (fields: object): void => void said.push(fields)
  const logger = { debug: say, info: say, warn: say, error: say }
  const logs = Array.from({ length: 8 }, () => openAuditLog({ path: file, clock, logger, stdout: process.stdout }))
  t.teardown(() => Promise.all(logs.map((log) => log.close())))
  for (const log of logs) log.write(RECORD)
  await until(() => logs.every((log) => log.dropped === 1), 'the lines are counted as dropped')
  t.same(said, Array(8).fill({ path: file, reason: 'nothing reads from the pipe' }))
  t.ok((await readFile(import.meta.filename)).length > 0, 'other files can be read')

  // Writing does not block here either.
  const reader = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK)
  t.teardown(() => closeSync(reader))
  const [log] = logs as [AuditLog]
  clock.advance(5_000)
  for (let i = 0; i < 2_000; i++) log.write({ ...RECORD, latencySeconds: i })
  let text = ''
  const chunk = Buffer.alloc(10_000)
  await until(() => {
    clock.advance(20)
    try {
      text += chunk.toString('utf8', 0, readSync(reader, chunk))
    } catch {
      // The pipe is empty now.
    }
    return text.split('\n').length > 2_001
  }, 'a slow reader gets every line')
  t.same(
    lines(text).map(({ dropped, latencySeconds }) => dropped ?? latencySeconds),
    [1, ...Array(2_000).keys()],
  )

  for (let i = 0; i < 2_000; i++) log.write(RECORD)
  await until(() => {
    clock.advance(20)
    return log.dropped > 1 && 'reason' in said.at(-1)!
  }, 'one that stops reading loses lines, and the log says so')
})
