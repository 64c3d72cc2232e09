/** `distributary watch`: prints one line per event. */
import { type BytesObject, bytesCodec } from '../client/reflector/bytes-codec.js'
import { activeClock } from '../client/reflector/active-clock.js'
import { type CommandContext, defineCommand, type Flags } from './command.js'
import { type Connection, connectionFlags, withConnection } from './connection.js'
import { type Difference, differences } from './differences.js'
import { CommandError, EXIT, type ExitCode, UsageError } from './exit-code.js'
import { follow } from './follow.js'
import { choose, selectionFlags, watchSelection } from './selection.js'

const watchFlags = {
  'resource-version': {
    kind: 'string',
    placeholder: 'RESOURCEVERSION',
    doc: 'Print only what happened after this resourceVersion, without the existing objects. Fails if the server no longer has that history.',
  },
  since: {
    kind: 'duration',
    min: 1,
    doc: 'Of the existing objects, print only those that were created, changed or deleted within this time, according to their own metadata. Then print all changes.',
  },
  'only-changes': { kind: 'boolean', doc: 'Do not print the existing objects.' },
  timeout: {
    kind: 'duration',
    min: 1,
    doc: 'Stop after this time.',
  },
  output: {
    kind: 'choice',
    short: 'o',
    choices: ['line', 'json'],
    doc: 'line (the default), or json: one {"type":…,"object":…} per line, as the server sends it.',
  },
  ...selectionFlags,
  ...connectionFlags,
} as const satisfies Flags

type Context = CommandContext<typeof watchFlags>

export const watchCommand = defineCommand<typeof watchFlags>({
  name: 'watch',
  summary: 'print a line for each change',
  description:
    'Each line has the time, the event type, the object’s resourceVersion, and its namespace and name. A broken watch resumes where it was; if the server no longer has that history, the command lists again and prints the difference. Both are reported on stderr.',
  positionals: '<RESOURCE> [NAME]',
  flags: watchFlags,
  examples: [
    { doc: 'all changes to pods', line: 'distributary watch pods -A' },
    { doc: 'changes of the last ten minutes, and then all further ones', line: 'distributary watch pods --since 10m' },
    { doc: 'everything after a resourceVersion', line: 'distributary watch pods -n shop --resource-version 4711' },
  ],
  async run(context) {
    const { flags } = context
    const { 'resource-version': after, since } = flags
    if (after !== null && !/^[1-9]\d*$/.test(after)) {
      throw new UsageError(`--resource-version must come from a list or an event, not "${after}"`)
    }
    if (since !== null && after !== null) throw new UsageError('--since and --resource-version cannot be combined')
    return await withConnection(context, async (connection) => await run(context, connection))
  },
})

async function run(context: Context, connection: Connection): Promise<ExitCode> {
  const { flags, args, signal, err } = context
  const { 'resource-version': after } = flags
  const stop = new AbortController()
  const both = AbortSignal.any([signal, stop.signal])
  const timer = flags.timeout === null ? null : activeClock.setTimer(flags.timeout, () => stop.abort())
  const note = (text: string): void => void err.line(`# ${text}`)
  const print = printerOf(context)
  let known = new Map<string, BytesObject>()
  try {
    const selection = watchSelection(await choose(connection, args, flags, both))
    const since = after === null ? {} : { afterResourceVersion: after }
    const oldest = flags.since === null ? null : Date.now() - flags.since
    let hasState = false
    let position = after ?? ''
    for await (const item of follow({
      connection,
      selection,
      codec: bytesCodec,
      signal: both,
      onNotice: note,
      ...since,
    })) {
      if (item.type === 'BOOKMARK') {
        position = item.resourceVersion
        continue
      }
      if (item.type === 'STATE') {
        if (after !== null && !hasState) {
          throw new CommandError(`the server no longer has the history after resourceVersion ${after} (410 Expired)`)
        }
        const now = new Map(item.items.map((object) => [bytesCodec.keyOf(object), object]))
        const differ = differences(known, now)
        known = now
        // With --resource-version, objects unchanged since that version are not reported, unless the server has a
        // different history, as after etcd was restored from a backup.
        const reported =
          after === null || isAfter(position, item.resourceVersion)
            ? differ
            : differ.filter(({ type, object }) => type !== 'ADDED' || isAfter(object.resourceVersion, position))
        if (hasState) note(`relisted at resourceVersion ${item.resourceVersion}: ${reported.length} changes`)
        const isShown = (one: Difference): boolean => hasState || oldest === null || newestTime(one.object) >= oldest
        if (hasState || !flags['only-changes']) for (const one of reported) if (isShown(one)) await print(one)
      } else {
        if (item.type === 'DELETED') known.delete(item.key)
        else known.set(item.key, item.object)
        await print(item)
      }
      position = item.resourceVersion
      hasState = true
    }
  } catch (error) {
    if (!stop.signal.aborted) throw error
  } finally {
    timer?.cancel()
  }
  return EXIT.done
}

/**
 * Compares two resourceVersions of one resource, which may be compared as numbers. Source: Kubernetes API concepts,
 * "resource versions".
 */
function isAfter(resourceVersion: string, position: string): boolean {
  const isNumber = /^\d+$/
  if (!isNumber.test(resourceVersion) || !isNumber.test(position)) return true
  return BigInt(resourceVersion) > BigInt(position)
}

/** Returns the time of the object's last change according to its own metadata; -Infinity if that is unknown. */
function newestTime({ bytes }: BytesObject): number {
  const { metadata } = JSON.parse(Buffer.from(bytes).toString('utf8')) as {
    metadata?: {
      creationTimestamp?: string | null
      deletionTimestamp?: string | null
      managedFields?: readonly { time?: string }[] | null
    }
  }
  const { creationTimestamp, deletionTimestamp, managedFields } = metadata ?? {}
  const times = [creationTimestamp, deletionTimestamp, ...(managedFields ?? []).map(({ time }) => time)]
  return Math.max(...times.map((time) => Date.parse(time ?? '')).filter((time) => !Number.isNaN(time)))
}

function printerOf({ out, flags }: Context): (difference: Difference) => Promise<void> {
  return async ({ type, key, object }) => {
    const { bytes, resourceVersion } = object
    if (flags.output === 'json') {
      return await out.write(Buffer.concat([Buffer.from(`{"type":"${type}","object":`), bytes, Buffer.from('}\n')]))
    }
    const time = new Date().toISOString().slice(11, 23)
    await out.line(`${time}  ${type.padEnd(8)}  ${resourceVersion.padEnd(8)}  ${key}`)
  }
}
