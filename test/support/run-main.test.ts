import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import t from 'tap'

const runner = fileURLToPath(new URL('../etcd/run.js', import.meta.url))
const run = (argument: string) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [runner, argument], { encoding: 'utf8' })
  return { status, stdout, stderr }
}

void t.test('a runner of tests prints its usage', async (t) => {
  for (const argument of ['--help', '-h'])
    t.match(run(argument), { status: 0, stdout: /^npm run judge -- etcd \[--version[^`]*failed\.\n$/, stderr: /^$/ })
})

void t.test('an argument that a runner does not know is an error of one line', async (t) => {
  t.match(run('--wrong'), { status: 1, stdout: /^$/, stderr: /^Unknown option '--wrong'[^\n]*\n$/ })
})
