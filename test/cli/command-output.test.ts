/** Tests colour: for a person at a terminal, and for nobody else. */
import t from 'tap'
import { hasTerminal, runCli, runOnTerminal } from './support/run-cli.js'

const ESC = '\u001b'
const terminalTest = { skip: hasTerminal ? false : 'needs script, of Debian’s bsdutils' }

void t.test('outcomes have a colour on a terminal, unless NO_COLOR or TERM=dumb is set', terminalTest, async (t) => {
  const valid = ['config', 'check']
  const invalid = ['config', 'check', '--max-watchers=x']
  t.match(await runOnTerminal(t, valid), `${ESC}[32mthe configuration is valid${ESC}[0m`)
  t.match(await runOnTerminal(t, invalid), new RegExp(`${ESC}\\[31m--max-watchers: .*${ESC}\\[0m`))
  t.match(await runOnTerminal(t, valid, { DISTRIBUTARY_PROT: '1' }), new RegExp(`${ESC}\\[33mwarning: .*${ESC}\\[0m`))
  for (const environment of [{ NO_COLOR: '1' }, { TERM: 'dumb' }])
    t.notMatch(await runOnTerminal(t, invalid, environment), ESC, JSON.stringify(environment))
  t.match(await runOnTerminal(t, valid, { NO_COLOR: '' }), `${ESC}[32m`, 'an empty NO_COLOR is none')
})

void t.test('pipes get no colour', async (t) => {
  for (const args of [[], ['--max-watchers=x']]) {
    const { stdout, stderr } = await runCli(t, ['config', 'check', ...args], { environment: { TERM: 'xterm' } })
    t.notMatch(stdout + stderr, ESC)
    t.not(stdout + stderr, '')
  }
})
