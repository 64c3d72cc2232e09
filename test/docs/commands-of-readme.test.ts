import t from 'tap'
import { runCommandsOf } from './command-runner.js'

void t.test(
  'the commands in README work as documented',
  async (t) => await runCommandsOf(t, (page) => page === 'README.md'),
)
