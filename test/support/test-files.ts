/**
 * A TAP program whose subtests are files, named after their sources: `node test-files.js JOBS SECONDS FILE[,FILE…]…`.
 * Files separated by a comma share a process (`shared-process.ts`); each of the others has its own.
 *
 * This uses tap's `t.spawn`. tap's command line would load more into every test process (a TypeScript loader, module
 * mocks, and a record of all loaded modules, which every server that a test starts would inherit): useless for tests
 * that are compiled without coverage, and slower than most of these tests.
 */
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { compiledPath } from './compiled-path.js'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const sharedProcess = fileURLToPath(new URL('shared-process.js', import.meta.url))
const nodeFlags = ['--enable-source-maps', `--import=${new URL('no-async-hooks.js', import.meta.url).href}`]
const [jobs, seconds, ...groups] = process.argv.slice(2)

t.jobs = Number(jobs)
t.setTimeout(0)
for (const group of groups) {
  const files = group.split(',')
  const isAlone = files.length === 1
  // Removes what tap adds to NODE_OPTIONS.
  const environment = [`NODE_OPTIONS=${process.env['NODE_OPTIONS'] ?? ''}`, `TAP_TIMEOUT=${seconds}`]
  const shared = isAlone ? [] : [`TEST_FILES=${group}`, `TEST_SECONDS=${seconds}`]
  const program = isAlone ? compiledPath(group) : sharedProcess
  void t.spawn('env', [...environment, ...shared, process.execPath, ...nodeFlags, program], {
    name: isAlone ? group : `${files.length} files from ${files[0]} on`,
    // A failure is shown at its place in the file, not here.
    at: null,
    stack: '',
    cwd: root,
    buffered: t.jobs > 1,
    // Files end by their own limit; this ends a process that is too busy to notice it.
    timeout: Number(seconds) * 1_000 * Math.min(files.length, 3),
  })
}
