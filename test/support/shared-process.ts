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

/** How long the timers, connections and programs of the last file may take to end. */
const GRACE_MS = Math.min(60, Number(TEST_SECONDS)) * 1_000

t.setTimeout(0)
for (const file of TEST_FILES.split(',')) {
  await t.test(file, { timeout: Number(TEST_SECONDS) * 1_000 }, async (subtest) => {
    const restore = handOn(subtest)
    try {
      await import(pathToFileURL(compiledPath(file)).href)
    } finally {
      restore()
    }
  })
}
// What a file has left running, or one that took too long, would keep the process and with it the whole run.
setTimeout(() => {
  process.stdout.write(`# still running after all files: ${process.getActiveResourcesInfo().join(', ')}\n`)
  process.exit(1)
}, GRACE_MS).unref()

/** Replaces the methods of tap's object that test files use with those of `subtest`; the result restores them. */
function handOn(subtest: Test): () => void {
  t.test = subtest.test.bind(subtest)
  t.teardown = subtest.teardown.bind(subtest)
  return () => void Object.assign(t, own)
}
