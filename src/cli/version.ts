/** `distributary version`: prints the versions of this program and of the server. */
import { jsonToYaml } from '../kubernetes/codec/json-to-yaml.js'
import { type Command, defineCommand } from './command.js'
import { connectionFlags, withConnection } from './server-connection.js'
import { EXIT } from './exit-code.js'
import { requestJson } from './server-request.js'

export function createVersionCommand(clientVersion: () => string): Command {
  return defineCommand({
    name: 'version',
    summary: 'print the versions of this program and of the server',
    positionals: '',
    flags: {
      client: { kind: 'boolean', doc: 'Only this program’s version, without contacting a server.' },
      output: { kind: 'choice', short: 'o', choices: ['text', 'json', 'yaml'], doc: 'Default: text.' },
      ...connectionFlags,
    },
    examples: [
      { doc: 'both', line: 'distributary version' },
      { doc: 'for a script', line: 'distributary version --client -o json' },
    ],
    async run(context) {
      const { flags, out, signal } = context
      const version = clientVersion()
      const server = flags.client
        ? undefined
        : await withConnection(
            context,
            async (connection) => await requestJson(connection, { path: '/version', signal }),
          )
      if (flags.output === 'json' || flags.output === 'yaml') {
        const versions = { clientVersion: version, ...(server === undefined ? {} : { serverVersion: server }) }
        await out.write(
          flags.output === 'json'
            ? `${JSON.stringify(versions, null, 2)}\n`
            : jsonToYaml(Buffer.from(JSON.stringify(versions))),
        )
        return EXIT.done
      }
      await out.line(`client: ${version}`)
      const { gitVersion = 'unknown' } = (server ?? {}) as { gitVersion?: string }
      if (!flags.client) await out.line(`server: ${gitVersion}`)
      return EXIT.done
    },
  })
}
