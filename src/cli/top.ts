/** `distributary top`: shows what a server is doing, from its `/metrics`, which cover all processes with --workers. */
import { activeClock } from '../client/reflector/active-clock.js'
import { sleep } from '../support/clock.js'
import { type CommandContext, defineCommand, type FlagValues, type Flags } from './command.js'
import { connect, type Connection, connectionFlags } from './connection.js'
import { CommandError, EXIT, type ExitCode } from './exit-code.js'
import { askBytes } from './request.js'
import { enterScreen } from './screen.js'
import { painter } from './style.js'
import { Scrape } from './top/metrics-text.js'
import { SORT_KEYS, viewOf, type ViewOptions } from './top/view.js'
import { errorMessage } from '../support/error-message.js'

const topFlags = {
  interval: {
    kind: 'duration',
    min: 100,
    max: 3_600_000,
    doc: 'Time between two samples. Default: 2s, and 1s for a single one.',
  },
  count: {
    kind: 'integer',
    min: 1,
    doc: 'Stop after this many samples. Default: never on a terminal, 1 in a pipe or file.',
  },
  sort: { kind: 'choice', choices: SORT_KEYS, doc: 'Default: watchers.' },
  all: { kind: 'boolean', doc: 'Include resources without objects and watchers.' },
  color: { kind: 'choice', choices: ['auto', 'always', 'never'], doc: 'Default: auto, on a terminal.' },
  ...connectionFlags,
} as const satisfies Flags

type Context = CommandContext<typeof topFlags>

export const topCommand = defineCommand<typeof topFlags>({
  name: 'top',
  summary: 'show a server’s resources, watchers, events per second, lag and memory',
  description:
    'On a terminal it refreshes until you press q; w e o l n sort by watchers, events, objects, lag and name. In a pipe it prints one sample and ends. Rates are measured between two samples.',
  positionals: '',
  flags: topFlags,
  examples: [
    { doc: 'the server on this machine', line: 'distributary top' },
    {
      doc: 'one sample of another server, busiest first',
      line: 'distributary top -s https://cache:8443 --sort events --count 1',
    },
    { doc: 'a line every ten seconds', line: 'distributary top --interval 10s --count 1000 | grep ^watchers' },
  ],
  async run(context) {
    const { flags, environment } = context
    const connection = await connect(flags as FlagValues<typeof connectionFlags>, environment)
    try {
      return context.out.isTerminal ? await show(context, connection) : await print(context, connection)
    } finally {
      connection.close()
    }
  },
})

async function scrape(connection: Connection, signal: AbortSignal): Promise<Scrape> {
  const at = performance.now()
  const text = await askBytes(connection, { path: '/metrics', accept: 'text/plain', signal })
  const scraped = Scrape.parse(text.toString('utf8'), at)
  if (scraped.samples('distributary_build_info').length === 0) {
    throw new CommandError(`${connection.server}/metrics does not come from a distributary`)
  }
  return scraped
}

async function print({ flags, out, signal }: Context, connection: Connection): Promise<ExitCode> {
  const count = flags.count ?? 1
  let before = await scrape(connection, signal)
  for (let look = 0; look < count; look++) {
    await sleep(activeClock, flags.interval ?? (count === 1 ? 1_000 : 2_000), signal)
    if (signal.aborted) break
    const after = await scrape(connection, signal)
    if (look > 0) await out.line()
    for (const line of viewOf(
      before,
      after,
      viewOptions(flags, connection, Infinity, Infinity, out.hasColour(flags.color)),
    )) {
      await out.line(line)
    }
    before = after
  }
  return EXIT.done
}

function viewOptions(
  flags: FlagValues<typeof topFlags>,
  { server }: Connection,
  columns: number,
  rows: number,
  hasColour: boolean,
): ViewOptions {
  return { server, columns, rows, sort: flags.sort ?? 'watchers', withIdle: flags.all, paint: painter(hasColour) }
}

const SORT_BY_KEY = new Map(SORT_KEYS.map((key) => [key === 'objects' ? 'o' : key[0]!, key]))

async function show({ flags, out, signal }: Context, connection: Connection): Promise<ExitCode> {
  const stop = new AbortController()
  const both = AbortSignal.any([signal, stop.signal])
  let sort = flags.sort ?? 'watchers'
  let redraw = (): void => undefined
  // The first scrape precedes the screen switch, so that a failure is reported on the normal screen.
  let before = await scrape(connection, both)
  let after = before
  const screen = await enterScreen(out, (key) => {
    if (key === 'q') return stop.abort()
    const chosen = SORT_BY_KEY.get(key)
    if (chosen === undefined) return
    sort = chosen
    redraw()
  })
  let trouble: string | null = null
  const draw = async (): Promise<void> => {
    const options = { ...viewOptions(flags, connection, out.columns, out.rows - 1, out.hasColour(flags.color)), sort }
    const lines = [...viewOf(before, after, options)]
    if (trouble !== null) lines.splice(4, 1, options.paint('red', trouble.slice(0, out.columns)))
    await screen.draw(lines)
  }
  redraw = () => void draw()
  process.stdout.on('resize', redraw)
  try {
    for (let look = 0; look < (flags.count ?? Infinity); look++) {
      await draw()
      await sleep(activeClock, flags.interval ?? 2_000, both)
      if (both.aborted) break
      try {
        const next = await scrape(connection, both)
        before = after
        after = next
        trouble = null
      } catch (error) {
        // Continue during a restart of the server, which the user may want to watch.
        trouble = errorMessage(error)
      }
    }
    if (!both.aborted) await draw()
  } finally {
    process.stdout.off('resize', redraw)
    await screen.leave()
  }
  return EXIT.done
}
