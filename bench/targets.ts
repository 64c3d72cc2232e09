/**
 * Compares the performance targets with the recorded rows. Whether a target is met is computed, never typed by hand.
 */
import { type AgentsSummary, agentsSummaries } from './support/agent-rows.js'
import type { Row } from './support/record.js'

/** Returns the rows of the latest run of a question; for the fan-out, only the rows of one load. */
export type RowsOf = (question: string, watchers?: number, rate?: number) => readonly Row[]

interface Target {
  readonly what: string
  readonly asked: string
  /** undefined when it was not measured. */
  readonly measured: (rowsOf: RowsOf) => number | undefined
  readonly isMet: (measured: number) => boolean
  /** The reason that is printed if the target is missed. */
  readonly why: string
}

type Who = readonly [subject: string, wire: string]

const OURS: Who = ['distributary', 'http1']

function value(rows: readonly Row[], [subject, wire]: Who, name: string): number | undefined {
  const row = rows.find((one) => one.subject === subject && one.wire === wire && one['failed'] === undefined)
  return typeof row?.[name] === 'number' ? row[name] : undefined
}

function ratio(rows: readonly Row[], own: Who, other: Who, name: string): number | undefined {
  const [a, b] = [value(rows, own, name), value(rows, other, name)]
  return a === undefined || b === undefined || b === 0 ? undefined : a / b
}

const PER_CPU = 'deliveriesPerCpuSecond'

const PEERS_ARE_FASTER = 'the target comes from a machine on which this peer needed more CPU per delivery'
const WRITING = 'the kernel and Node spend nearly all of it on writing to sockets: compare the row of bare Node'
const TLS = "Node's TLS and HTTP/2 take most of it: compare the row of bare Node over TLS"
const CONNECTION = 'Node itself uses about as much per connection: compare the memory of bare Node in the fan-out table'
const LONE_EVENT =
  'no single part stands out: collections, reading from etcd, metrics and the write to the socket (see the profiling notes in the README)'
const LONE_EVENT_LATE =
  'V8 marks its heap every 40 s in steps of 150 ms in total; only that frees the bytes of events that left the history'
const STORED = 'an object also has a key, a buffer and V8 objects, and one thread reads and decodes them all'
const AGENTS =
  "each frame is alone on its connection here, so each passes through Node's streams, OpenSSL and the kernel, as in the API server"
const LAST_AGENT =
  'an event of a node goes to 300 connections one after the other, so the last agent waits for 300 times the CPU of a delivery'
const STARTED =
  'Node and its modules use 113 MB before there is an object or an agent, 49 of which are pages of its program file'
const QUEUE =
  'the writer is 200 events ahead of the average watcher, so the last one of a fair pass is 400 behind; writing them in 250 ms takes 1,600 events/s'
const SHARED =
  'some parts of an answer are not sliced yet; the table below shows which requests, and how long each takes'

function atLeast(what: string, bound: number, unit: string, measured: Target['measured'], why = WRITING): Target {
  return { what, asked: `≥ ${bound.toLocaleString('en-US')}${unit}`, measured, isMet: (given) => given >= bound, why }
}

function atMost(what: string, bound: number, unit: string, measured: Target['measured'], why = WRITING): Target {
  return { what, asked: `≤ ${bound.toLocaleString('en-US')}${unit}`, measured, isMet: (given) => given <= bound, why }
}

const OURS_TLS: Who = ['distributary', 'http1-tls']

/** Returns the ratio of our deliveries per CPU second to the API server's, on the same wire. */
function beside(wire: string): Target['measured'] {
  return (of) => ratio(of('fanout', 1_000, 20), ['distributary', wire], ['apiserver', wire], PER_CPU)
}

const plain = '1,000 watchers × 20 events/s, HTTP/1.1'
const saturated = 'saturated, 1,000 watchers'

const targets: readonly Target[] = [
  atMost('300 agents: CPU of a delivery on Node 24, as shipped, × API server', 0.65, ' ×', shipped('ofCpu'), AGENTS),
  atMost('the same on the best runtime', 0.5, ' ×', best('ofCpu'), AGENTS),
  atMost('the same: p99 on Node 24, × API server', 0.5, ' ×', shipped('ofP99'), LAST_AGENT),
  atMost('the same: memory on Node 24, × API server', 0.25, ' ×', shipped('ofMemory'), STARTED),
  atMost('the same: watches that were ended, on any runtime', 0, '', (of) => {
    const all = oursAmong(of)
    return all.length === 0 ? undefined : all.reduce((sum, { ended, failed }) => sum + ended + failed, 0)
  }),
  atLeast('one stream over TLS, HTTP/1.1, on the best runtime: × API server', 2, ' ×', bestBeside('http1-tls'), AGENTS),
  atLeast('one stream over TLS, HTTP/2, on the best runtime: × API server', 2, ' ×', bestBeside('http2-tls'), AGENTS),
  atLeast(
    `${plain}: × etcd`,
    3.4,
    ' ×',
    (of) => ratio(of('fanout', 1_000, 20), OURS, ['etcd', 'grpc'], PER_CPU),
    PEERS_ARE_FASTER,
  ),
  atLeast(
    `${plain}: × grpc-proxy`,
    4,
    ' ×',
    (of) => ratio(of('fanout', 1_000, 20), OURS, ['grpc-proxy', 'grpc'], PER_CPU),
    PEERS_ARE_FASTER,
  ),
  atLeast(
    `${plain}: × JSON gateway`,
    8.5,
    ' ×',
    (of) => ratio(of('fanout', 1_000, 20), OURS, ['etcd', 'json-gateway'], PER_CPU),
    PEERS_ARE_FASTER,
  ),
  atLeast(`${plain}: of the C limit at the same pace`, 0.75, ' ×', (of) =>
    ratio(of('fanout', 1_000, 20), OURS, ['limit', 'http1'], PER_CPU),
  ),
  atMost(`${plain}: p99`, 10, ' ms', (of) => value(of('fanout', 1_000, 20), OURS, 'p99Ms')),
  atMost(
    `${plain}: p99, of etcd's own`,
    0.25,
    ' ×',
    (of) => ratio(of('fanout', 1_000, 20), OURS, ['etcd', 'grpc'], 'p99Ms'),
    PEERS_ARE_FASTER,
  ),
  atLeast('the same over TLS, HTTP/1.1: × API server', 2.2, ' ×', beside('http1-tls'), TLS),
  atLeast(
    'the same over TLS, HTTP/2 with 20 streams a connection: × API server',
    3.5,
    ' ×',
    beside('http2x20-tls'),
    TLS,
  ),
  atLeast(
    'the same over TLS, HTTP/2 with 100 streams a connection: × API server',
    4.5,
    ' ×',
    beside('http2x100-tls'),
    TLS,
  ),
  atLeast('the same over TLS, HTTP/1.1: deliveries per CPU-second', 35_000, '', (of) =>
    value(of('fanout', 1_000, 20), ['distributary', 'http1-tls'], PER_CPU),
  ),
  atLeast('the same over TLS, HTTP/2 with 100 streams a connection', 150_000, '', (of) =>
    value(of('fanout', 1_000, 20), ['distributary', 'http2x100-tls'], PER_CPU),
  ),
  atLeast(
    `${saturated}: × grpc-proxy`,
    9,
    ' ×',
    (of) => ratio(of('fanout', 1_000, 0), OURS, ['grpc-proxy', 'grpc'], PER_CPU),
    PEERS_ARE_FASTER,
  ),
  atLeast(`${saturated}: of the C limit`, 0.55, ' ×', (of) =>
    ratio(of('fanout', 1_000, 0), OURS, ['limit', 'http1'], PER_CPU),
  ),
  atMost(`${saturated}: rows in which a watcher was dropped or missed an event`, 0, '', (of) => {
    const ours = of('fanout', 1_000, 0).filter(({ subject }) => subject === 'distributary')
    return ours.length === 0 ? undefined : ours.filter((row) => row['failed'] !== undefined).length
  }),
  atMost(`${saturated}: p99`, 250, ' ms', (of) => value(of('fanout', 1_000, 0), OURS, 'p99Ms'), QUEUE),
  atMost(`${saturated}, TLS: p99`, 500, ' ms', (of) => value(of('fanout', 1_000, 0), OURS_TLS, 'p99Ms'), QUEUE),
  atMost('5,000 watchers × 5 events/s: p99', 35, ' ms', (of) => value(of('fanout', 5_000, 5), OURS, 'p99Ms')),
  atMost(
    '5,000 watchers × 5 events/s, TLS: p99',
    70,
    ' ms',
    (of) => value(of('fanout', 5_000, 5), OURS_TLS, 'p99Ms'),
    TLS,
  ),
  atMost('10,000 watchers × 5 events/s: p99', 200, ' ms', (of) => value(of('fanout', 10_000, 5), OURS, 'p99Ms')),
  atMost('10,000 watchers × 5 events/s: event loop delay p99', 20, ' ms', (of) =>
    value(of('fanout', 10_000, 5), OURS, 'eventLoopP99Ms'),
  ),
  atMost('50 lists of 10,000 objects at once: CPU each', 12, ' ms', (of) => value(listsOf(of, 50), OURS, 'cpuMsEach')),
  atMost(
    '50 lists of 10,000 objects at once over TLS: CPU each',
    8,
    ' ms',
    (of) => value(listsOf(of, 50), OURS_TLS, 'cpuMsEach'),
    'what it takes beyond the list without TLS is for encrypting 10 MB in Node',
  ),
  atMost('50 lists of 10,000 objects at once: memory', 100, ' MB more', (of) =>
    value(listsOf(of, 50), OURS, 'peakAboveMb'),
  ),
  atMost('selectors: CPU of an event, 10,000 of them against 100', 1.5, ' ×', (of) => {
    const rows = of('selectors')
    const cost = (count: number): number | undefined =>
      value(
        rows.filter((row) => row['selectors'] === count),
        OURS,
        'cpuMicrosPerEventAboveIdle',
      )
    const [few, many] = [cost(100), cost(10_000)]
    return few === undefined || many === undefined ? undefined : many / few
  }),
  atMost('storm: watchers that had to relist', 0, '', (of) => value(of('storm'), OURS, 'hadToRelist')),
  atMost(
    'a member of three freezes: until every watcher has the next write',
    3_000,
    ' ms',
    (of) => longest(of('recovery'), /freezes/),
    'a member counts as silent after 1.3 to 2 s, since one that is merely busy is not left; the watches go on at another one at once after that, but a frozen leader has to be replaced first',
  ),
  atMost(
    'etcd was away: until every watcher has the first write',
    1_000,
    ' ms',
    (of) => longest(of('recovery'), /away/),
    'this is the slowest round: etcd is found again within 0.7 s, and then each resource compares its history before it goes on',
  ),
  atMost('slow readers: p99 of the others, against without them', 1.2, ' ×', (of) =>
    value(of('slow'), OURS, 'p99Ratio'),
  ),
  atMost('two workers against one: CPU of a delivery', 1.1, ' ×', (of) =>
    value(
      of('workers').filter((row) => row['workers'] === 2),
      OURS,
      'ofOneWorker',
    ),
  ),
  atMost(
    'longest block of the event loop by a known-bad request, CPU',
    20,
    ' ms',
    (of) => {
      const blocks = of('loop').flatMap((row) => (typeof row['blockCpuMs'] === 'number' ? [row['blockCpuMs']] : []))
      return blocks.length === 0 ? undefined : Math.max(...blocks)
    },
    SHARED,
  ),
  atMost(
    'p99 of other watchers, added by a known-bad request, at most',
    20,
    ' ms',
    (of) => {
      const added = of('loop').flatMap((row) =>
        typeof row['p99Ms'] === 'number' ? [row['p99Ms'] - Number(row['p99MsWithout'])] : [],
      )
      return added.length === 0 ? undefined : Math.max(...added)
    },
    'an answer is made in several slices, which a delivery may meet one after the other; the table below shows which requests',
  ),
  atMost(
    'one event of 3.5 KB to one watcher, TLS, full history: CPU',
    120,
    ' µs',
    loneEvent('cpuMicrosPerEvent'),
    LONE_EVENT,
  ),
  atMost('one event of 3.5 KB to one watcher, TLS, full history: p99', 5, ' ms', loneEvent('p99Ms'), LONE_EVENT_LATE),
  atMost(
    'object of 1 KiB in memory, 200,000 of them',
    1.35,
    ' KB',
    (of) => {
      const bytes = value(of('objects'), OURS, 'bytesPerObject')
      return bytes === undefined ? undefined : bytes / 1024
    },
    STORED,
  ),
  atMost('200,000 objects of 1 KiB: ready', 4_000, ' ms', (of) => value(of('objects'), OURS, 'startedMs'), STORED),
  atMost(
    'idle watcher, HTTP/1.1: resident',
    8,
    ' KB',
    (of) => value(of('memory'), OURS, 'kbPerIdleWatcher'),
    CONNECTION,
  ),
  atMost(
    'idle watcher, TLS: resident',
    30,
    ' KB',
    (of) => value(of('memory'), OURS_TLS, 'kbPerIdleWatcher'),
    CONNECTION,
  ),
  atMost(
    '100,000 watches on 10,000 connections, HTTP/2: resident',
    1_200,
    ' MB',
    (of) => value(of('watches'), ['distributary', 'http2x10'], 'residentMb'),
    "most of it is Node's HTTP/2: a session for each connection, a stream for each watch",
  ),
  atMost('an event to 10,000 of them: p99', 250, ' ms', (of) =>
    value(of('watches'), ['distributary', 'http2x10'], 'p99Ms'),
  ),
]

function oursAmong(of: RowsOf): AgentsSummary[] {
  return agentsSummaries(of('agents')).filter(({ agents, subject }) => agents === 300 && subject === 'distributary')
}

/** Returns a figure measured on the Node version of the container. */
function shipped(name: 'ofCpu' | 'ofP99' | 'ofMemory'): Target['measured'] {
  return (of) => oursAmong(of).find(({ runtime }) => runtime.startsWith('Node 24.'))?.[name]?.median
}

function best(name: 'ofCpu'): Target['measured'] {
  return (of) => {
    const ratios = oursAmong(of).flatMap((one) => (one[name] === null ? [] : [one[name].median]))
    return ratios.length === 0 ? undefined : Math.min(...ratios)
  }
}

function bestBeside(wire: string): Target['measured'] {
  return (of) => {
    const rows = of('fanout', 1_000, 20)
    const names = new Set(rows.map(({ subject }) => subject).filter((name) => name.startsWith('distributary')))
    const ratios = [...names].flatMap((name) => ratio(rows, [name, wire], ['apiserver', wire], PER_CPU) ?? [])
    return ratios.length === 0 ? undefined : Math.max(...ratios)
  }
}

/** Returns the worst figure of the states in which the history is full. */
function loneEvent(name: string): Target['measured'] {
  return (of) => {
    const rows = of('one-event').filter((row) => row['rings'] === 'full' && row.wire === 'http1-tls')
    const figures = rows.flatMap((row) =>
      row.subject === 'distributary' && typeof row[name] === 'number' ? [row[name]] : [],
    )
    return figures.length === 0 ? undefined : Math.max(...figures)
  }
}

function listsOf(of: RowsOf, askers: number): readonly Row[] {
  return of('list').filter((row) => row['askers'] === askers)
}

/** Returns the longest time over the matching faults; undefined if a run failed. */
function longest(rows: readonly Row[], fault: RegExp): number | undefined {
  if (rows.some((row) => row['failed'] !== undefined)) return undefined
  const times = rows.flatMap((row) => (fault.test(String(row['fault'])) ? [Number(row['toldMaxMs'])] : []))
  return times.length === 0 ? undefined : Math.max(...times)
}

/** Returns a Markdown table. @param figure formats a number. */
export function targetsTable(rowsOf: RowsOf, figure: (value: number) => string): string {
  const lines = targets.map(({ what, asked, measured, isMet, why }) => {
    const given = measured(rowsOf)
    const verdict = given === undefined ? 'not measured' : isMet(given) ? 'met' : `**missed**: ${why}`
    return `| ${what} | ${asked} | ${given === undefined ? '–' : figure(given)} | ${verdict} |`
  })
  return ['| what | target | measured | |', '| --- | ---: | ---: | --- |', ...lines].join('\n')
}
