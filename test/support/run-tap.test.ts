/** The output of a test run. */
import t from 'tap'
import { TapReport } from './run-tap.js'

function report(lines: readonly string[]): { readonly shown: readonly string[]; readonly counts: object } {
  const shown: string[] = []
  const report = new TapReport((line) => shown.push(line))
  for (const line of lines) report.add(line)
  return { shown, counts: report.outcome() }
}

void t.test('for a file that passed, skipped tests are shown with the reason', (t) => {
  const { shown, counts } = report([
    'TAP version 14',
    '# Subtest: a.test.ts',
    '    # Subtest: with a network of its own',
    '        ok 1 - a break of the network # SKIP no namespaces here: Operation not permitted',
    '        # a comment',
    '        1..1',
    '    ok 1 - with a network of its own # time=2ms',
    '    ok 2 - with helm # SKIP no helm here',
    '    1..2',
    'ok 1 - a.test.ts # time=1234.5ms',
    '1..1',
    '# { total: 3, pass: 1, skip: 2 }',
  ])
  t.same(shown, [
    '        ok 1 - a break of the network # SKIP no namespaces here: Operation not permitted',
    '    ok 2 - with helm # SKIP no helm here',
    'ok a.test.ts (1.2 s)',
  ])
  t.same(counts, { passed: 1, failed: 0 })
  t.end()
})

void t.test('for a file that failed, its failures are shown with their details, and its comments', (t) => {
  const { shown, counts } = report([
    '# Subtest: a.test.ts',
    '    ok 1 - this holds',
    '    # seed 7',
    '    not ok 2 - this does not',
    '      ---',
    '      found: 1',
    '      ...',
    'not ok 1 - a.test.ts # time=500ms',
    '# { total: 2, pass: 1, fail: 1 }',
  ])
  t.same(shown, [
    '    # seed 7',
    '    not ok 2 - this does not',
    '      ---',
    '      found: 1',
    '      ...',
    'not ok a.test.ts (0.5 s)',
  ])
  t.same(counts, { passed: 1, failed: 1 })
  t.end()
})

void t.test('each of several files in one process has its line, preceded by its failures', (t) => {
  const { shown, counts } = report([
    '# Subtest: 2 files from a.test.ts on',
    '    # Subtest: a.test.ts',
    '        ok 1 - this holds',
    '        not ok 2 - this does not',
    '          ---',
    '          found: 1',
    '          ...',
    '    not ok 1 - a.test.ts # time=500ms',
    '    # Subtest: b.test.ts',
    '        # a comment',
    '        ok 1 - this holds',
    '    ok 2 - b.test.ts # time=200ms',
    'not ok 1 - 2 files from a.test.ts on # time=900ms',
    '# { total: 3, pass: 2, fail: 1 }',
  ])
  t.same(shown, [
    '        not ok 2 - this does not',
    '          ---',
    '          found: 1',
    '          ...',
    'not ok a.test.ts (0.5 s)',
    'ok b.test.ts (0.2 s)',
    'not ok 1 - 2 files from a.test.ts on # time=900ms',
  ])
  t.same(counts, { passed: 2, failed: 1 })
  t.end()
})

void t.test('a run that ends without a summary has failed', (t) => {
  t.same(report(['TAP version 14', '# Subtest: a.test.ts']).counts, { passed: 0, failed: 1 })
  t.end()
})
