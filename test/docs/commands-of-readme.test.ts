import t from 'tap'
import { runCommandsOf } from './command-runner.js'

void t.test('what README shows does what it says', async (t) => await runCommandsOf(t, (page) => page === 'README.md'))
