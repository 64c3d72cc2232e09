/** `distributary config check`: says what a server with these flags would do, and what is wrong with them. */
import { type Command, defineCommand } from './command.js'
import { EXIT } from './exit-code.js'

/** As the server reports it: see `server/wiring/check-config.ts`. A command loads no code of the server, so it is handed in. */
export type ConfigCheck = (options: {
  readonly argv: readonly string[]
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly connects: boolean
}) => Promise<{
  readonly outcome: 'valid' | 'invalid' | 'unreachable'
  readonly lines: readonly string[]
  readonly problems: readonly string[]
}>

export function createConfigCheckCommand(check: ConfigCheck): Command {
  return defineCommand({
    name: 'config check',
    summary: 'check the configuration of a server without starting one',
    description:
      'Takes the flags of the server; its environment variables and the file of --config are read as the server reads them. Reports all problems at once, including unreadable files and bad certificates. The command exits with 0 if a server could start, with 2 if it could not, and with 1 if --connect found nobody.',
    positionals: '[SERVER-FLAG...]',
    passesFlags: true,
    flags: {
      connect: {
        kind: 'boolean',
        doc: 'Ask etcd, NATS or the upstream as well, with the credentials that the server would show.',
      },
    },
    examples: [
      { doc: 'before a restart', line: 'distributary config check --config /etc/distributary/config.yaml' },
      {
        doc: 'etcd too, with its certificates',
        line: 'distributary config check --connect --etcd-servers https://127.0.0.1:2379 --etcd-cafile ca.crt',
      },
    ],
    async run({ args, flags, out, err, environment }) {
      const { outcome, lines, problems } = await check({ argv: args, environment, connects: flags.connect })
      for (const line of lines) await out.line(line)
      for (const problem of problems) await err.line(problem)
      if (outcome === 'valid') await out.line('the configuration is valid')
      return outcome === 'valid' ? EXIT.done : outcome === 'invalid' ? EXIT.usage : EXIT.failed
    },
  })
}
