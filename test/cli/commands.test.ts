/**
 * Tests of what all commands share: their lookup, `--help`, mistakes and exit codes. Each command has its own test
 * beside this one.
 */
import { spawnSync } from 'node:child_process'
import t from 'tap'
import { createCommands } from '../../src/cli/commands.js'
import { EXIT_CODES } from '../../src/cli/exit-code.js'
import { commandHelp, flagUsage } from '../../src/cli/help-text.js'
import { program, runCli } from './support/run-cli.js'

const commands = createCommands(
  async () => ['--etcd-servers'],
  () => '1.2.3',
  async () => ({ outcome: 'valid', lines: [], problems: [] }),
)

void t.test('a wrong command line exits with 2 and lists all its mistakes at once', async (t) => {
  for (const [args, expected] of [
    [['hepl'], /unknown command "hepl"; did you mean help\?/],
    [['nothing-like-it'], /unknown command "nothing-like-it": there are .*completion/],
    [['completion'], /completion needs SHELL/],
    [['completion', 'bash', 'more'], /unexpected argument "more"/],
    [['completion', 'tcsh'], /SHELL is one of bash, zsh, fish, not "tcsh"/],
    [['help', 'get', 'more', '--halp'], /unknown flag "--halp"; did you mean --help\?[^]*unexpected argument "more"/],
  ] as const) {
    const { code, stdout, stderr } = await runCli(t, args)
    t.equal(code, 2, args.join(' '))
    t.match(stderr, expected)
    t.equal(stdout, '')
  }
})

void t.test('help of every command has examples, every flag and every exit code', async (t) => {
  for (const command of commands) {
    const help = commandHelp(command)
    t.match(help, `Usage: distributary ${command.name}`)
    t.ok(command.examples.length > 0, `${command.name} has an example`)
    for (const { line } of command.examples) t.ok(help.includes(line), line)
    for (const [name, flag] of Object.entries(command.flags)) t.ok(help.includes(flagUsage(name, flag)), name)
    for (const code of EXIT_CODES.keys()) t.match(help, new RegExp(`^  ${code} `, 'm'))
    for (const line of help.split('\n')) t.ok(line.length <= 110, line)
  }
})

void t.test('the help command and the help flag print the same to stdout', async (t) => {
  const byWord = await runCli(t, ['help', 'completion'])
  t.match(byWord, { code: 0, stderr: '', stdout: commandHelp(commands.find(({ name }) => name === 'completion')!) })
  t.same(await runCli(t, ['completion', '--help']), byWord)
  const overview = await runCli(t, ['help'])
  t.equal(overview.code, 0)
  const server = await runCli(t, ['--help'])
  for (const { name, summary } of commands) {
    t.match(overview.stdout, new RegExp(`^  ${name} +${summary}`, 'm'))
    t.match(server.stdout, new RegExp(`^  ${name} +${summary}`, 'm'), 'the server’s own help lists it')
  }
  t.equal((await runCli(t, ['help', 'nobody'])).code, 2)
})

/** Returns what bash offers for the last of these words. */
function complete(...words: string[]): string[] {
  const script = `source <(${process.execPath} ${program} completion bash)
    COMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${words.length - 1}
    _distributary; printf '%s\\n' "\${COMPREPLY[@]}"`
  const { status, stdout, stderr } = spawnSync('bash', ['-c', script], { encoding: 'utf8' })
  if (status !== 0 || stderr !== '') throw new Error(stderr)
  return stdout.split('\n').filter((word) => word !== '')
}

void t.test('bash completes commands, flags and choices', async (t) => {
  t.same(
    complete('distributary', ''),
    commands.map(({ name }) => name),
  )
  t.same(complete('distributary', 'compl'), ['completion'])
  t.same(complete('distributary', '--etcd-serv'), ['--etcd-servers'], 'the server’s own flags')
  t.same(complete('distributary', 'completion', 'z'), ['zsh'])
  t.same(complete('distributary', 'help', 'comp'), ['completion'])
  for (const { name, flags } of commands) {
    const offered = complete('distributary', name, '--')
    for (const flag of Object.keys(flags)) t.ok(offered.includes(`--${flag}`), `${name} --${flag}`)
  }
})

void t.test('zsh and fish complete every command and flag', async (t) => {
  for (const shell of ['zsh', 'fish'] as const) {
    const { code, stdout } = await runCli(t, ['completion', shell])
    t.equal(code, 0)
    for (const { name, flags } of commands) {
      t.ok(stdout.includes(name), name)
      for (const flag of Object.keys(flags)) {
        t.ok(stdout.includes(shell === 'zsh' ? `--${flag}[` : `-l ${flag} `), `${shell}: ${name} --${flag}`)
      }
    }
  }
})
