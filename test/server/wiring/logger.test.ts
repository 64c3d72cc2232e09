/** Tests the form of log lines: text on a terminal, JSON elsewhere. */
import { spawn, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { textLine } from '../../../src/server/wiring/text-line.js'
import { endsWithUs } from '../../support/ends-with-us.js'
import { programFile } from '../../support/program.js'
import { until } from '../../support/until.js'

const hasScript = spawnSync('script', ['--version']).status === 0
const needsScript = { skip: hasScript ? false : 'needs script, of Debian’s bsdutils' }

void t.test('the log is text on a terminal, and JSON where standard error goes elsewhere', needsScript, async (t) => {
  const file = join(t.testdir(), 'log')
  for (const [flags, expected] of [
    ['', /^\d{4}-\S+Z info  serving version=\S+ address=127\.0\.0\.1 port=\d+ /m],
    ['--log-format=json', /^\{"level":30,.*"msg":"serving"\}\r$/m],
    [`2>${file}`, /^distributary listens on/m],
  ] as const) {
    const line = `exec ${process.execPath} ${programFile('main')} --port=0 ${flags}`
    const env = { ...process.env, TERM: 'xterm', SHELL: '/bin/sh', NODE_OPTIONS: '' }
    const child = spawn('script', ['-qec', line, '/dev/null'], { env, stdio: ['pipe', 'pipe', 'inherit'] })
    endsWithUs(child)
    let printed = ''
    child.stdout.on('data', (chunk: Buffer) => (printed += chunk.toString()))
    await until(() => printed.includes('distributary listens on'), 'it serves')
    child.stdin.write('\u0003')
    await until(() => child.exitCode !== null, 'Ctrl-C ends it')
    t.match(printed, expected, flags)
  }
  const lines = readFileSync(file, 'utf8').trimEnd().split('\n')
  t.ok(lines.length > 2)
  for (const line of lines) t.match(JSON.parse(line), { level: Number }, line)
})

void t.test('a line of text holds no control characters, which a terminal would obey', (t) => {
  const line = textLine(
    JSON.stringify({ level: 40, time: 0, msg: 'a\nb', user: '\u001b[31mann\u009b1m', error: { at: 1 } }),
  )
  t.equal(line, '1970-01-01T00:00:00.000Z WARN  a\\u000ab user=\\u001b[31mann\\u009b1m error={"at":1}')
  t.end()
})
