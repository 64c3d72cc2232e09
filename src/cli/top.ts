/** `distributary top`: shows what a server is doing, from its `/metrics`. With --workers, they cover all processes. */
import { activeClock } from '../client/reflector/active-clock.js'
import { sleep } from '../support/clock.js'
import { type CommandContext, defineCommand, type Flags } from './command.js'
import { type Connection, connectionFlags, withConnection } from './server-connection.js'
import { CommandError, EXIT, type ExitCode } from './exit-code.js'
import { requestBytes } from './server-request.js'
import { Scrape } from './top/metrics-text.js'
import { linesOf, sampleOf, SORT_KEYS } from './top/view.js'
import { errorMessage } from '../support/error-message.js'

const topFlags = {
  interval: {
    kind: 'duration',
    min: 100,
    max: 3_600_000,
    doc: 'Time between two samples. Default: 2s, or 1s if only one sample is printed.',
  },
  count: {
    kind: 'integer',
    min: 1,
    doc: 'Stop after this many samples. Default: no limit on a terminal, 1 in a pipe or file, or with -o json.',
  },
  sort: { kind: 'choice', choices: SORT_KEYS, doc: 'Default: watchers.' },
  all: { kind: 'boolean', doc: 'Include resources that have neither objects nor watchers.' },
  output: {
    kind: 'choice',
    short: 'o',
    choices: ['text', 'json'],
    doc: 'json: one JSON object per sample, each on a line. Default: text.',
  },
  ...connectionFlags,
} as const satisfies Flags

type Context = CommandContext<typeof topFlags>

export const topCommand = defineCommand<typeof topFlags>({
  name: 'top',
  summary: 'show a server’s resources, watchers, events per second, lag and memory',
  description:
    'On a terminal it refreshes until you press Ctrl-C. In a pipe it prints one sample and exits. Rates are measured between two samples.',
  positionals: '',
  flags: topFlags,
  examples: [
    { doc: 'the server on this machine', line: 'distributary top' },
    {
      doc: 'one sample of another server, busiest first',
      line: 'distributary top -s https://cache:8443 --sort events --count 1',
    },
    { doc: 'a line every ten seconds', line: 'distributary top --interval 10s --count 1000 | grep ^watchers' },
    {
      doc: 'the resources that are behind',
      line: "distributary top -o json | jq -r '.resources[] | select(.lagging > 0).name'",
    },
  ],
  async run(context) {
    return await withConnection(context, async (connection) => await print(context, connection))
  },
})

async function scrape(connection: Connection, signal: AbortSignal): Promise<Scrape> {
  const at = performance.now()
  const text = await requestBytes(connection, { path: '/metrics', accept: 'text/plain', signal })
  const scraped = Scrape.parse(text.toString('utf8'), at)
  if (scraped.samples('distributary_build_info').length === 0) {
    throw new CommandError(`${connection.server}/metrics does not come from a distributary`)
  }
  return scraped
}

/** JSON has no Infinity; Prometheus writes it like this. */
const withInfinity = (_name: string, value: unknown): unknown => (value === Infinity ? '+Inf' : value)

/** Clears a terminal, so that each sample replaces the previous one. */
const CLEAR = '\u001b[H\u001b[J'

async function print({ flags, out, err, signal }: Context, connection: Connection): Promise<ExitCode> {
  const { server } = connection
  const isJson = flags.output === 'json'
  const isDrawn = out.isTerminal && !isJson
  const count = flags.count ?? (isDrawn ? Infinity : 1)
  let before = await scrape(connection, signal)
  for (let look = 0; look < count; look++) {
    await sleep(activeClock, flags.interval ?? (count === 1 ? 1_000 : 2_000), signal)
    if (signal.aborted) break
    let after: Scrape
    try {
      after = await scrape(connection, signal)
    } catch (error) {
      if (signal.aborted) break
      if (!isDrawn) throw error
      // On a terminal, continue: the user may be watching the server restart.
      await err.line(errorMessage(error))
      continue
    }
    const sample = sampleOf(before, after, { server, sort: flags.sort ?? 'watchers', withIdle: flags.all })
    const lines = linesOf(sample)
    if (isJson) await out.line(JSON.stringify(sample, withInfinity))
    else if (isDrawn) {
      const visible = lines.slice(0, out.rows - 1).map((line) => line.slice(0, out.columns))
      await out.write(`${CLEAR}${visible.join('\n')}\n`)
    } else await out.write(`${look > 0 ? '\n' : ''}${lines.join('\n')}\n`)
    before = after
  }
  return EXIT.done
}
