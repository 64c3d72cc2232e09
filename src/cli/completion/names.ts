/**
 * Completes the names of objects, for the scripts of the shells. The typed line is read as the command itself would
 * read it, so server, credentials and namespace are those of the line. When the line or the server is faulty, there are
 * no names, and never a message in the middle of the user's line.
 */
import { parseJsonTree, textMember } from '../../codec/json-tree.js'
import type { Command, CommandContext, FlagValues } from '../command.js'
import { connect, connectionFlags } from '../connection.js'
import { parseCommand } from '../parse-command.js'
import { askBytes } from '../request.js'
import { choose, selectionFlags } from '../selection.js'

/** The user is waiting after pressing a key. */
const TIMEOUT_MS = 3_000
/** Nobody reads more. */
const MAX_NAMES = 1_000
const ACCEPT = 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json'

/** @param words the command and the words after it, without the word that is being typed. */
export async function completeNames(
  commands: readonly Command[],
  [word = '', ...words]: readonly string[],
  { environment, signal }: Pick<CommandContext, 'environment' | 'signal'>,
): Promise<readonly string[]> {
  const command = commands.find(({ name }) => name === word)
  if (command === undefined || !('all-namespaces' in command.flags)) return []
  try {
    const parsed = parseCommand(command, words)
    const [resource = ''] = parsed.kind === 'run' ? parsed.args : []
    if (parsed.kind !== 'run' || resource === '' || /[/,]/.test(resource)) return []
    const connection = await connect(parsed.flags as FlagValues<typeof connectionFlags>, environment)
    try {
      const stop = AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)])
      const flags = parsed.flags as FlagValues<typeof selectionFlags>
      const { selection } = await choose(
        connection,
        [resource],
        { ...flags, selector: null, 'all-namespaces': false },
        stop,
      )
      const query = { limit: String(MAX_NAMES) }
      const body = await askBytes(connection, { path: selection.path, query, accept: ACCEPT, signal: stop })
      const { items } = parseJsonTree(body).value as { items?: unknown }
      const names = (Array.isArray(items) ? items : []).map((item) => textMember(item, 'metadata', 'name'))
      const taken = new Set(parsed.args.slice(1))
      return names.filter((name) => /^[\w.:-]+$/.test(name) && !taken.has(name))
    } finally {
      connection.close()
    }
  } catch {
    return []
  }
}
