/** `distributary config check`: reports how a server with these flags would behave, and errors in the flags. */
import { type Command, defineCommand } from './command.js'
import { EXIT, type ExitCode, UsageError } from './exit-code.js'

/**
 * The check that the server implements in `server/wiring/check-config.ts`. It is passed in, because commands load none
 * of the server's code.
 */
export type ConfigCheck = (options: {
  readonly argv: readonly string[]
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly connects: boolean
  readonly explains?: string
}) => Promise<Checked>

interface Checked {
  readonly outcome: 'valid' | 'invalid' | 'unreachable'
  readonly lines: readonly string[]
  readonly problems: readonly string[]
}

export function createConfigCheckCommand(check: ConfigCheck): Command {
  return defineCommand({
    name: 'config check',
    summary: 'check the configuration of a server without starting one',
    description:
      'Takes the server’s flags, and reads its environment variables and --config file as the server does. Reports all problems at once, including unreadable files and bad certificates. Exits with 0 if a server could start, 2 if it could not, and 1 if --connect got no answer.',
    positionals: '[SERVER-FLAG...]',
    passesFlags: true,
    flags: {
      connect: {
        kind: 'boolean',
        doc: 'Also contact etcd, NATS or the upstream, with the server’s credentials, and count the keys under each prefix in etcd.',
      },
      explain: {
        kind: 'string',
        placeholder: 'QUESTION',
        doc: 'Instead, explain how the policy decides the request "USER VERB PATH [GROUP...]": the rule that allows it, or why each rule for that user does not.',
      },
      output: { kind: 'choice', short: 'o', choices: ['text', 'json'], doc: 'Format of the report. Default: text.' },
    },
    examples: [
      { doc: 'before a restart', line: 'distributary config check --config /etc/distributary/config.yaml' },
      {
        doc: 'also contact etcd, with its certificates',
        line: 'distributary config check --connect --etcd-servers https://127.0.0.1:2379 --etcd-cafile ca.crt',
      },
      {
        doc: 'why may ann not do this?',
        line: 'distributary config check --explain "ann list /api/v1/namespaces/web/pods team-web" --config /etc/distributary/config.yaml',
      },
    ],
    async run({ args, flags, out, err, environment }) {
      const { connect: connects, explain } = flags
      if (connects && explain !== null)
        throw new UsageError('--explain makes no connection, so it cannot be combined with --connect')
      const explains = explain === null ? {} : { explains: explain }
      const report = await check({ argv: args, environment, connects, ...explains })
      const { outcome, lines, problems } = report
      if (flags.output === 'json') {
        await out.line(JSON.stringify(report, null, 2))
        return exitCodeOf(outcome)
      }
      for (const line of lines) await out.line(out.painted(line, line.startsWith('warning: ') ? 'yellow' : undefined))
      for (const problem of problems) await err.line(err.painted(problem, 'red'))
      if (outcome === 'valid' && explain === null) await out.line(out.painted('the configuration is valid', 'green'))
      return exitCodeOf(outcome)
    },
  })
}

function exitCodeOf(outcome: Checked['outcome']): ExitCode {
  return outcome === 'valid' ? EXIT.done : outcome === 'invalid' ? EXIT.usage : EXIT.failed
}
