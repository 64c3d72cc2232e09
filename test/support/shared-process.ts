/**
 * A TAP program that runs several files in one process: each is a subtest, named after its source. They are given as
 * `TEST_FILES=FILE,FILE…`, since tap names folders after the arguments of a process; `TEST_SECONDS` is the time limit
 * of each.
 *
 * A test file adds its tests to the one object that `tap` exports. While a file is loaded, that object forwards them to
 * the subtest of the file, which ends when all of them have.
 */
import { pathToFileURL } from 'node:url'
import t, { type Test } from 'tap'
import { compiledPath } from './compiled-path.js'

const { TEST_FILES = '', TEST_SECONDS } = process.env
// Do not pass this on to programs that a test starts.
delete process.env['TEST_FILES']
delete process.env['TEST_SECONDS']

const own = { test: t.test.bind(t), teardown: t.teardown.bind(t) }

t.setTimeout(0)
let isLate = false
for (const file of TEST_FILES.split(',')) {
  const began = performance.now()
  await t.test(file, { timeout: Number(TEST_SECONDS) * 1_000 }, async (subtest) => {
    const restore = handOn(subtest)
    try {
      await import(pathToFileURL(compiledPath(file)).href)
    } finally {
      restore()
    }
  })
  isLate ||= performance.now() - began > Number(TEST_SECONDS) * 1_000
}
// What such a file has left running would keep the process.
if (isLate) process.exit(1)

/** Replaces the methods of tap's object that test files use with those of `subtest`; the result restores them. */
function handOn(subtest: Test): () => void {
  t.test = subtest.test.bind(subtest)
  t.teardown = subtest.teardown.bind(subtest)
  return () => void Object.assign(t, own)
}
