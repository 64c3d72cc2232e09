/**
 * Checks docs/limits.md: the options, constants, metrics and tests that it names exist, and no counted limit is
 * missing.
 */
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { optionNames, options } from '../../src/server/config/options.js'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const read = (path: string): string => readFileSync(`${root}${path}`, 'utf8')

const rows = read('docs/limits.md')
  .split('\n')
  .filter((line) => line.startsWith('| ') && !line.startsWith('| bound') && !line.startsWith('| ---'))
  .map((line) => line.split('|').map((cell) => cell.trim()))
  .map(([, bound = '', by = '', , metric = '', test = '']) => ({ bound, by, metric, test }))
const quoted = (text: string): string[] => [...text.matchAll(/`([^`]+)`/g)].map(([, inner]) => inner!)

const flags = new Set<string>(optionNames.map((name) => options[name].flag))
const metrics = read('docs/metrics.md')
const sources = readdirSync(`${root}src`, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'))
const code = sources.map((file) => read(`src/${file}`)).join('\n')
/**
 * The places that count rejections: `rejected('memory')`, `openSemaphore(basis, 'lists')`, `onRejected('requests')`,
 * and the table of broken connections.
 */
const counted = new Set(
  [...code.matchAll(/(?:rejected|openSemaphore|onRejected|#refuse)\((?:\s*basis,)?\s*'([a-z-]+)'/g)].map(
    ([, limit]) => limit!,
  ),
)
for (const [, one, other] of code.matchAll(/rejected\([^)]* \? '([a-z-]+)' : '([a-z-]+)'\)/g)) {
  counted.add(one!).add(other!)
}
for (const [, limit] of read('src/server/transports/server/reject-unreadable.ts').matchAll(
  /^ {2}[A-Z_]+: '([a-z-]+)'/gm,
))
  counted.add(limit!)

void t.test('each row names a file that exists', (t) => {
  t.ok(rows.length > 30, `${rows.length} rows`)
  for (const { bound, by, metric, test } of rows) {
    const file = quoted(by).find((text) => text.startsWith('src/'))
    for (const text of quoted(by)) {
      if (text.startsWith('--')) t.ok(flags.has(text), `${bound}: ${text} is an option`)
      else if (text === file) t.ok(existsSync(`${root}${text}`), `${bound}: ${text}`)
      else t.ok(file !== undefined && new RegExp(`\\b${text}\\b`).test(read(file)), `${bound}: ${text} in ${file}`)
    }
    const limit = /limit="([a-z-]+)"/.exec(metric)?.[1]
    if (limit !== undefined) t.ok(counted.has(limit), `${bound}: ${limit} is counted`)
    else if (!metric.includes('process_')) t.ok(metrics.includes(metric), `${bound}: ${metric} is a metric`)
    for (const path of quoted(test)) t.ok(existsSync(`${root}${path}`), `${bound}: ${path}`)
    t.ok(quoted(test).length > 0, `${bound} has a test`)
  }
  t.end()
})

void t.test('every counted limit has a row', (t) => {
  const told = new Set(rows.flatMap(({ metric }) => /limit="([a-z-]+)"/.exec(metric)?.[1] ?? []))
  t.same(
    [...counted].filter((limit) => !told.has(limit)),
    [],
  )
  t.end()
})
