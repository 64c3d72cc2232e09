/** `distributary bench`: opens many watches on the user's own server, and measures delivery. */
import { activeClock } from '../client/reflector/active-clock.js'
import { selectionQuery } from '../client/reflector/requests.js'
import { sleep } from '../support/clock.js'
import { Load, type LoadReport, type Quantiles } from './bench/load-generator.js'
import { type CommandContext, defineCommand, type Flags } from './command.js'
import { type Connection, connectionFlags, withConnection } from './server-connection.js'
import { CommandError, EXIT, type ExitCode } from './exit-code.js'
import { requestJson } from './server-request.js'
import { choose, selectionFlags, watchSelection } from './selection.js'
import { bytes } from './top/view.js'

const benchFlags = {
  watchers: {
    kind: 'integer',
    min: 1,
    max: 100_000,
    doc: 'Watches to open. Default: 100. Check `ulimit -n` on both sides.',
  },
  duration: { kind: 'duration', min: 100, max: 86_400_000, doc: 'How long to measure. Default: 10s.' },
  http: {
    kind: 'choice',
    choices: ['1', '2'],
    doc: 'HTTP version. Default: 1, with one connection per watch. Over http://, 2 means prior knowledge.',
  },
  'streams-per-connection': {
    kind: 'integer',
    min: 1,
    max: 10_000,
    doc: 'Watches per HTTP/2 connection. Default: 100.',
  },
  burst: { kind: 'integer', min: 1, max: 10_000, doc: 'Watches to open at a time. Default: 100.' },
  initial: { kind: 'boolean', doc: 'Also request the existing objects, and count them.' },
  output: { kind: 'choice', short: 'o', choices: ['text', 'json'], doc: 'Default: text.' },
  ...selectionFlags,
  ...connectionFlags,
} as const satisfies Flags

type Context = CommandContext<typeof benchFlags>

export const benchCommand = defineCommand<typeof benchFlags>({
  name: 'bench',
  summary: 'open many watches on a server and measure delivery',
  description:
    'Works with any Kubernetes-style watch endpoint. It writes nothing, and counts the events that arrive while it runs. If an object has the annotation distributary.io/sent-at (seconds since 1970, fractions allowed, from a clock in sync with this machine’s), it measures the latency since then. For all objects it shows the spread between the first watcher and the rest.\n\nOne process generates the load, on one core. If its CPU usage nears 100%, you are measuring the load generator: run several at once.',
  positionals: '<RESOURCE>',
  flags: benchFlags,
  examples: [
    {
      doc: 'a thousand watches on all pods for half a minute',
      line: 'distributary bench pods -A --watchers 1000 --duration 30s',
    },
    {
      doc: 'an API server, a hundred watches per connection',
      line: 'distributary bench pods -A --context prod --http 2 --watchers 2000',
    },
    { doc: 'any path; the result as JSON', line: 'distributary bench /apis/distributary.io/v1/flags -o json' },
  ],
  async run(context) {
    return await withConnection(context, async (connection) => await run(context, connection))
  },
})

async function run(context: Context, connection: Connection): Promise<ExitCode> {
  const { flags, args, out, err, signal } = context
  const watchers = flags.watchers ?? 100
  const durationMs = flags.duration ?? 10_000
  const path = await watchPath(context, connection, durationMs)
  const { credentials, ...target } = connection.options
  const { authorization, ...certificate } = (await credentials?.current()) ?? {}
  const load = new Load({
    target: {
      ...target,
      ...certificate,
      ...(authorization === undefined ? {} : { authorization: () => authorization }),
    },
    path,
    watchers,
    isHttp2: flags.http === '2',
    streamsPerConnection: flags['streams-per-connection'] ?? 100,
    burst: flags.burst ?? 100,
    now: () => performance.timeOrigin + performance.now(),
  })
  await err.line(`opening ${watchers} watches`)
  const cpuBefore = process.cpuUsage()
  let report: LoadReport
  let cpuShare = 0
  try {
    // If the initial state is requested, it is part of the measurement, which then begins before the first watch opens.
    if (flags.initial) load.mark()
    await load.open(signal)
    if (load.accepted === 0 && !signal.aborted) {
      throw new CommandError(`no watch could be opened: ${Object.keys(load.report().failures).join(', ')}`)
    }
    if (!flags.initial) load.mark()
    const countingAt = performance.now()
    const cpuAtMark = process.cpuUsage(cpuBefore)
    await err.line(`counting for ${durationMs / 1_000} s`)
    await sleep(activeClock, durationMs, signal)
    report = load.report()
    const cpu = process.cpuUsage(cpuBefore)
    const cpuMs = (cpu.user + cpu.system - cpuAtMark.user - cpuAtMark.system) / 1_000
    cpuShare = cpuMs / Math.max(1, performance.now() - countingAt)
  } finally {
    load.close()
  }
  if (flags.output === 'json') await out.line(JSON.stringify({ resource: args[0], ...report, cpuShare }))
  else for (const line of reportLines(report, cpuShare)) await out.line(line)
  // The exit code reports watches that could not be opened, so that a script notices that they were not measured.
  return report.failed > 0 ? EXIT.failed : EXIT.done
}

/**
 * Returns the path of the watches. They start at the current state, unless the initial state is requested, and have a
 * timeout long enough that the server does not end them.
 */
async function watchPath(
  { flags, args, signal }: Context,
  connection: Connection,
  durationMs: number,
): Promise<string> {
  const selection = watchSelection(await choose(connection, args, flags, signal))
  const { path } = selection
  const query: Record<string, string> = { ...selectionQuery(selection) }
  if (!flags.initial) {
    const list = (await requestJson(connection, { path, query: { ...query, limit: '1' }, signal })) as {
      metadata?: { resourceVersion?: string }
    }
    query['resourceVersion'] = list.metadata?.resourceVersion ?? '0'
  } else query['resourceVersion'] = '0'
  query['watch'] = '1'
  query['timeoutSeconds'] = String(Math.ceil(durationMs / 1_000) + 600)
  return `${path}?${new URLSearchParams(query).toString()}`
}

function reportLines(report: LoadReport, cpuShare: number): string[] {
  const { watchers, connections, openedMs, seconds, deliveries, failures, endedEarly } = report
  const [least, most] = report.eventsPerWatcher
  const count = (value: number): string => Math.round(value).toLocaleString('en-US')
  return [
    `watchers      ${count(watchers)} on ${count(connections)} connections, opened in ${count(openedMs)} ms`,
    `deliveries    ${count(deliveries)} in ${seconds.toFixed(1)} s: ${count(report.deliveriesPerSecond)}/s, ${bytes(report.bytes / seconds)}/s`,
    `per watcher   ${count(least)} to ${count(most)} events`,
    `spread        ${quantilesText(report.spreadMs, 'no event reached two observed watchers')}`,
    `latency       ${quantilesText(report.latencyMs, 'unknown: no object has the annotation distributary.io/sent-at')}`,
    ...(endedEarly === 0 ? [] : [`ended early   ${count(endedEarly)}`]),
    ...Object.entries(failures).map(([reason, times]) => `failed        ${count(times)} × ${reason}`),
    `generator CPU ${(cpuShare * 100).toFixed(0)} % of a core${cpuShare > 0.8 ? ': it may be the bottleneck, not the server' : ''}`,
  ]
}

function quantilesText(quantiles: Quantiles | null, none: string): string {
  if (quantiles === null) return none
  const { p50, p99, max, count } = quantiles
  return `p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms, max ${max.toFixed(1)} ms (of ${count.toLocaleString('en-US')})`
}
