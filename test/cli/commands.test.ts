/** Tests what all commands share: lookup, `--help`, usage errors and exit codes. Each command also has its own test. */
import t from 'tap'
import { createCommands } from '../../src/cli/commands.js'
import { EXIT_CODES } from '../../src/cli/exit-code.js'
import { eachAtOnce, runCli } from './support/run-cli.js'

const commands = createCommands(
  () => '1.2.3',
  async () => ({ outcome: 'valid', lines: [], problems: [] }),
)

void t.test('a wrong command line exits with 2 and says what is wrong, with the nearest name', async (t) => {
  const cases: readonly (readonly [readonly string[], RegExp])[] = [
    [['hepl'], /^distributary: unknown command 'hepl'\n\(Did you mean help\?\)/],
    [['nothing-like-it'], /^distributary: unknown command 'nothing-like-it'\n/],
    [['config'], /check/],
    [['get'], /^distributary: missing required argument 'RESOURCE'\nSee distributary get --help.\n$/],
    [['top', 'more'], /^distributary: too many arguments/],
    [['get', 'pods', '--halp'], /^distributary: unknown option '--halp'\n\(Did you mean --help\?\)/],
    [['get', 'pods', '--namespace'], /argument missing/],
    [['get', 'pods', '-o', 'xml'], /argument 'xml' is invalid. Allowed choices are table, wide, json, yaml, name/],
    [['get', 'pods', '-o', 'jsonpath={.a}'], /argument 'jsonpath=\{\.a\}' is invalid/],
    [['top', '--count', '0'], /Must be at least 1/],
    [['top', '--count', 'x'], /Expected a whole number/],
    [['bench', 'pods', '--watchers', '10'], /distributary bench was removed: run npm run bench/],
    [['top', '--interval', 'x'], /Expected a duration/],
    [['help', 'nobody'], /./],
  ]
  await eachAtOnce(cases, async ([args, expected]) => {
    const { code, stdout, stderr } = await runCli(t, args)
    t.match({ code, stdout }, { code: 2, stdout: '' }, args.join(' '))
    t.match(stderr, expected, args.join(' '))
  })
})

void t.test(
  'the value that npm leaves over when a flag is given without -- goes to the server, which says why',
  async (t) => {
    const environment = { npm_config_etcd_servers: 'true' }
    const { code, stderr } = await runCli(t, ['http://127.0.0.1:2379'], { environment })
    t.equal(code, 2)
    t.match(stderr, 'unexpected argument "http://127.0.0.1:2379"')
    t.match(stderr, 'put -- before it, as in "npm start -- --etcd-servers"')
  },
)

void t.test('the help of every command has its examples, flags and exit codes', async (t) => {
  const version = await runCli(t, ['help', 'version'])
  t.same(await runCli(t, ['version', '--help']), version, 'the word and the flag print the same')
  await eachAtOnce(commands, async ({ name, summary, examples, flags }) => {
    const { code, stdout, stderr } = await runCli(t, [...name.split(' '), '--help'])
    t.match({ code, stderr }, { code: 0, stderr: '' })
    t.match(stdout, `Usage: distributary ${name} `)
    t.ok(stdout.includes(summary) && examples.length > 0, name)
    for (const { line } of examples) t.ok(stdout.includes(line), line)
    for (const flag of Object.keys(flags)) t.ok(stdout.includes(`--${flag}`), `${name} --${flag}`)
    for (const exitCode of EXIT_CODES.keys()) t.match(stdout, new RegExp(`^  ${exitCode} `, 'm'))
  })
})

void t.test('the overview and the server’s help list every command', async (t) => {
  const overview = await runCli(t, ['help'])
  t.equal(overview.code, 0)
  const server = await runCli(t, ['--help'])
  for (const { name, summary } of commands) {
    t.match(overview.stdout, new RegExp(`^  ${name.split(' ')[0]!} `, 'm'))
    t.match(server.stdout, new RegExp(`^  ${name} +${summary}`, 'm'))
  }
})
