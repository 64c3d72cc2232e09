import t from 'tap'
import { runCommandsOf } from './command-runner.js'

void t.test(
  'the commands in README do what it says',
  async (t) => await runCommandsOf(t, (page) => page === 'README.md'),
)
