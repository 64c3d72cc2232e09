/** `distributary watch`: prints one line per event, or waits until a condition is met. */
import { parseJsonTree } from '../kubernetes/codec/json-tree.js'
import { type BytesObject, bytesCodec } from '../client/reflector/bytes-codec.js'
import { activeClock } from '../client/reflector/active-clock.js'
import type { ChangeType } from '../client/reflector/object-codec.js'
import { type CommandContext, defineCommand, type FlagValues, type Flags } from './command.js'
import { connect, type Connection, connectionFlags } from './connection.js'
import { CommandError, EXIT, type ExitCode, UsageError } from './exit-code.js'
import { follow } from './follow.js'
import { choose, selectionFlags, watchSelection } from './selection.js'
import { type Colour, painter } from './style.js'
import { type Goal, parseGoal } from './watch/goal.js'
import { KnownObjects, type Told } from './watch/known-objects.js'

const watchFlags = {
  'resource-version': {
    kind: 'string',
    placeholder: 'RESOURCEVERSION',
    doc: 'Print only what happened after this resourceVersion, without the existing objects. Fails if the server no longer has that history.',
  },
  since: {
    kind: 'duration',
    min: 1,
    doc: 'Of the existing objects, print only those created, changed or deleted within this time, by their own metadata; then all changes.',
  },
  'only-changes': { kind: 'boolean', doc: 'Do not print the existing objects.' },
  for: {
    kind: 'string',
    placeholder: 'GOAL',
    doc: 'Exit with 0 when every chosen object has reached it: condition=Ready (or condition=Ready=False), create, delete.',
  },
  timeout: {
    kind: 'duration',
    min: 1,
    doc: 'Stop after this time, with exit code 124 if --for is given, else 0.',
  },
  output: {
    kind: 'choice',
    short: 'o',
    choices: ['line', 'json'],
    doc: 'line (the default), or json: one {"type":…,"object":…} per line, as the server sends it.',
  },
  color: { kind: 'choice', choices: ['auto', 'always', 'never'], doc: 'Default: auto, on a terminal.' },
  ...selectionFlags,
  ...connectionFlags,
} as const satisfies Flags

type Context = CommandContext<typeof watchFlags>

export const watchCommand = defineCommand<typeof watchFlags>({
  name: 'watch',
  summary: 'print a line for each change, or wait for a condition',
  description:
    'Each line has the time, the event type, the object’s resourceVersion, and its namespace and name. A broken watch resumes where it was; if the server no longer has that history, the command lists again and prints the difference. Both are reported on stderr.',
  positionals: '<RESOURCE> [NAME]',
  flags: watchFlags,
  examples: [
    { doc: 'all changes of pods', line: 'distributary watch pods -A' },
    { doc: 'changes of the last ten minutes, and then all further ones', line: 'distributary watch pods --since 10m' },
    { doc: 'everything after a resourceVersion', line: 'distributary watch pods -n shop --resource-version 4711' },
    {
      doc: 'wait for a deployment',
      line: 'distributary watch deploy/cart -n shop --for condition=Available --timeout 2m',
    },
    { doc: 'wait until it is gone', line: 'distributary watch pod/web-0 --for delete' },
  ],
  async run(context) {
    const { flags, environment } = context
    const goal = flags.for === null ? null : parseGoal(flags.for)
    const { 'resource-version': after, since } = flags
    if (after !== null && !/^[1-9]\d*$/.test(after)) {
      throw new UsageError(`--resource-version must come from a list or an event, not "${after}"`)
    }
    if (goal !== null && after !== null) {
      throw new UsageError('--for needs the existing objects, so it cannot be combined with --resource-version')
    }
    if (since !== null && after !== null) throw new UsageError('--since and --resource-version cannot be combined')
    const connection = await connect(flags as FlagValues<typeof connectionFlags>, environment)
    try {
      return await run(context, connection, goal)
    } finally {
      connection.close()
    }
  },
})

async function run(context: Context, connection: Connection, goal: Goal | null): Promise<ExitCode> {
  const { flags, args, signal, err } = context
  const { 'resource-version': after } = flags
  const stop = new AbortController()
  const both = AbortSignal.any([signal, stop.signal])
  let isTimeOut = false
  const timer =
    flags.timeout === null
      ? null
      : activeClock.setTimer(flags.timeout, () => {
          isTimeOut = true
          stop.abort()
        })
  const note = (text: string): void => void err.line(painter(err.hasColour(flags.color))('dim', `# ${text}`))
  const print = printerOf(context)
  const known = new KnownObjects<BytesObject>(goal, ({ bytes }) => parseJsonTree(Buffer.from(bytes)).value)
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
      onTrouble: note,
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
        const differ = known.replace(new Map(item.items.map((object) => [bytesCodec.keyOf(object), object])))
        // With --resource-version, objects unchanged since then are not reported, unless the server's history is
        // another one: a restored etcd goes back.
        const told =
          after === null || isAfter(position, item.resourceVersion)
            ? differ
            : differ.filter(({ type, object }) => type !== 'ADDED' || isAfter(object.resourceVersion, position))
        if (hasState) note(`relisted at resourceVersion ${item.resourceVersion}: ${told.length} differ`)
        const isShown = (one: Told<BytesObject>): boolean =>
          hasState || oldest === null || newestTime(one.object) >= oldest
        if (hasState || !flags['only-changes']) for (const one of told) if (isShown(one)) await print(one)
      } else {
        if (item.type === 'DELETED') known.delete(item.key)
        else known.set(item.key, item.object)
        await print(item)
      }
      position = item.resourceVersion
      hasState = true
      if (known.isGoalMet) return EXIT.done
    }
  } catch (error) {
    if (!isTimeOut) throw error
  } finally {
    timer?.cancel()
  }
  if (goal === null || !isTimeOut) return EXIT.done
  throw new CommandError(`timed out after ${flags.timeout! / 1_000} s waiting for ${flags.for!}`, EXIT.timedOut)
}

/**
 * resourceVersions of one resource may be compared as numbers. Source: Kubernetes API concepts, "resource versions".
 */
function isAfter(resourceVersion: string, position: string): boolean {
  const isNumber = /^\d+$/
  if (!isNumber.test(resourceVersion) || !isNumber.test(position)) return true
  return BigInt(resourceVersion) > BigInt(position)
}

/** Returns when the object was last changed, according to its own metadata; otherwise -Infinity. */
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

const COLOURS: Readonly<Record<ChangeType, Colour>> = { ADDED: 'green', MODIFIED: 'yellow', DELETED: 'red' }

function printerOf({ out, flags }: Context): (told: Told<BytesObject>) => Promise<void> {
  const paint = painter(out.hasColour(flags.color))
  return async ({ type, key, object }) => {
    const { bytes, resourceVersion } = object
    if (flags.output === 'json') {
      return await out.write(Buffer.concat([Buffer.from(`{"type":"${type}","object":`), bytes, Buffer.from('}\n')]))
    }
    const time = paint('dim', new Date().toISOString().slice(11, 23))
    await out.line(`${time}  ${paint(COLOURS[type], type.padEnd(8))}  ${resourceVersion.padEnd(8)}  ${key}`)
  }
}
