/** The aims of `bench/RESULTS.md`: their ratios are of one run, and every missed aim says why. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { aimsTable, answersTable, type RunsOf } from '../../bench/targets.js'

const root = fileURLToPath(new URL('../../../', import.meta.url))

const list = (subject: string, cpuMsEach: number) => ({
  question: 'list',
  subject,
  wire: 'http1-tls',
  askers: 50,
  cpuMsEach,
})
const runs =
  (...of: (readonly ReturnType<typeof list>[])[]): RunsOf =>
  (question) =>
    question === 'list' ? of : []
const lineOf = (runsOf: RunsOf): string =>
  aimsTable(runsOf, String)
    .split('\n')
    .find((line) => line.includes('lists of 10,000 objects at once, over TLS: CPU'))!

void t.test('a ratio is of the newest run that measured both, never of two runs', (t) => {
  const ours = [list('distributary', 1)]
  const both = [list('distributary', 6), list('apiserver', 100)]
  t.match(lineOf(runs(ours, both)), '| 6 ms | 100 ms | API server | 0.06 × | ≤ 0.1 × |')
  t.match(lineOf(runs(ours, [list('apiserver', 100)])), '| – | – | API server | not measured |')
  const failed = { ...list('apiserver', 100), failed: 'it ended' }
  t.match(lineOf(runs([list('distributary', 6), failed])), 'not measured')
  t.end()
})

void t.test('a missed aim says why in one sentence, and one that is met does not', (t) => {
  const of = (cpu: number): string => lineOf(runs([list('distributary', cpu), list('apiserver', 100)]))
  t.match(of(11), '. **Missed**: most of it is encrypting 10 MB in Node |')
  t.notMatch(of(10), 'Missed')
  t.end()
})

void t.test('the first table answers five questions, each with figures', (t) => {
  const page = readFileSync(`${root}bench/RESULTS.md`, 'utf8')
  const first = page.slice(page.indexOf('\n| '), page.indexOf('\n### '))
  const questions = answersTable(() => [], String).match(/\*\*.*\?\*\*/g)!
  t.equal(questions.length, 5)
  for (const question of questions) {
    const rows = first.slice(first.indexOf(question)).split('\n').slice(1)
    const end = rows.findIndex((row) => row.startsWith('| **') || row === '')
    t.ok(
      rows.slice(0, end).some((row) => / × \| ≤ /.test(row)),
      question,
    )
  }
  t.end()
})
