import t from 'tap'
import { runCommandsOf } from './command-runner.js'

void t.test('what the other pages show does what they say', async (t) => {
  await runCommandsOf(t, (page) => page !== 'README.md')
})
