/**
 * A TAP program whose subtests are files, named by their sources: `node test-files.js JOBS SECONDS FILE[,FILE…]…`. Files
 * with a comma between them share a process (`shared-process.ts`), each of the others has its own.
 *
 * This is tap's own `t.spawn`. The command line of tap would load four more things into every process of a test, which
 * are of no use to tests that are compiled and measure no coverage and take longer than most of these tests: a TypeScript loader,
 * module mocks, and a record of all modules loaded, which every server that a test starts would inherit, too.
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
  // What tap adds to NODE_OPTIONS is taken away again.
  const environment = [`NODE_OPTIONS=${process.env['NODE_OPTIONS'] ?? ''}`, `TAP_TIMEOUT=${seconds}`]
  const shared = isAlone ? [] : [`TEST_FILES=${group}`, `TEST_SECONDS=${seconds}`]
  const program = isAlone ? compiledPath(group) : sharedProcess
  void t.spawn('env', [...environment, ...shared, process.execPath, ...nodeFlags, program], {
    name: isAlone ? group : `${files.length} files from ${files[0]} on`,
    // A failure is shown where it is in the file, not here.
    at: null,
    stack: '',
    cwd: root,
    buffered: t.jobs > 1,
    timeout: Number(seconds) * 1_000 * files.length,
  })
}
