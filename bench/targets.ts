/**
 * The product's aims, and whether the recorded rows meet them. Every aim is a ratio to a peer, or to a limit, that
 * was measured in the same run, so that it holds on any machine. Nothing is typed by hand except the aims.
 */
import { agentsSummaries, median, shapeOf } from './support/agent-rows.js'
import { SHAPE_TITLES, type Shape } from './support/agents.js'
import type { Row } from './support/record.js'

/** Returns the runs of a question, newest first; for the fan-out, only the rows of one load. */
export type RunsOf = (question: string, watchers?: number, rate?: number) => readonly (readonly Row[])[]

/** The questions of the first table, in its order. */
const QUESTIONS = {
  cost: 'What does an event cost me?',
  time: 'How long does it take?',
  memory: 'How much memory does it take?',
  storm: 'What happens in a storm?',
  relief: 'What does it take off my API server?',
} as const

interface Measured {
  readonly ours: number
  /** The figure of the peer or of the limit. */
  readonly beside: number
  /** The ratio, if it is not `ours / beside`: rounds are compared one by one. */
  readonly ratio?: number
}

interface Aim {
  readonly question: keyof typeof QUESTIONS
  readonly what: string
  readonly unit: string
  readonly peer: string
  /** The ratio may be at most this. */
  readonly atMost: number
  /** Why the ratio matters. */
  readonly matters: string
  /** One sentence that is printed if the aim is missed. */
  readonly missed: string
  /** Whether it is in the first table. */
  readonly isMain?: boolean
  /** undefined when no run has both figures. */
  readonly measured: (runsOf: RunsOf) => Measured | undefined
}

type Who = readonly [subject: string, wire: string]
type Match = (row: Row) => boolean

const OURS: Who = ['distributary', 'http1']
const OURS_TLS: Who = ['distributary', 'http1-tls']
const API_SERVER: Who = ['apiserver', 'http1-tls']
const LIMIT: Who = ['limit', 'http1']
const NODE_24 = 'distributary on Node 24.'
const BUN = 'distributary on Bun'

const MICROSECONDS_PER_SECOND = 1e6
/** How long an event waits for a request at the most, by `src/support/turns.ts`. */
const SLICE_MS = 5
/** A member of etcd counts as silent after this time at the latest. */
const SILENT_MS = 2_000

const ALONE_ON_ITS_CONNECTION =
  "each frame is alone on its connection, so each passes through Node's streams, OpenSSL and the kernel, as in the API server"
const ONE_AFTER_THE_OTHER =
  'an event goes to 300 connections one after the other, so the last agent waits for 300 times the CPU of a delivery'
const TLS = "Node's TLS and HTTP/2 take most of it, as the row of bare Node over TLS shows"
const WRITING = 'the kernel and Node spend nearly all of it on writing to sockets, as the row of bare Node shows'
const SLICES =
  'some parts of an answer are not sliced, and a delivery may meet several slices one after the other: the section on the event loop names the requests'

/** Compares a figure of two subjects in the newest run that has both. */
function compared(
  question: string,
  [own, other]: readonly [Who, Who],
  name: string | ((row: Row) => number),
  options: { readonly load?: readonly [watchers: number, rate: number]; readonly isMeant?: Match } = {},
): Aim['measured'] {
  const { load = [], isMeant = () => true } = options
  const figureOf = (row: Row): number => (typeof name === 'string' ? Number(row[name]) : name(row))
  return firstOf(question, load, (rows) => {
    const of = ([subject, wire]: Who): number | undefined => {
      const all = rows.filter((row) => row.subject === subject && row.wire === wire && isMeant(row)).map(figureOf)
      return all.length === 0 || all.some((each) => !Number.isFinite(each)) ? undefined : Math.max(...all)
    }
    return both(of(own), of(other))
  })
}

/** Returns what the newest run with both figures gives. Failed rows have none. */
function firstOf(
  question: string,
  load: readonly number[],
  measure: (rows: readonly Row[]) => Measured | undefined,
): Aim['measured'] {
  return (runsOf) => {
    for (const rows of runsOf(question, load[0], load[1])) {
      const measured = measure(rows.filter((row) => row['failed'] === undefined))
      if (measured !== undefined) return measured
    }
    return undefined
  }
}

function both(ours: number | undefined, beside: number | undefined): Measured | undefined {
  if (ours === undefined || beside === undefined || beside === 0) return undefined
  return Number.isFinite(ours) && Number.isFinite(beside) ? { ours, beside } : undefined
}

/** The CPU of a delivery, from its reciprocal. */
const microsPerDelivery = (row: Row): number => MICROSECONDS_PER_SECOND / Number(row['deliveriesPerCpuSecond'])

const paced = { load: [1_000, 20] } as const
const saturated = { load: [1_000, 0] } as const

/** Compares our agents with those of the API server in the same rounds. @param isOn which runtime of ours. */
function agents(
  figure: 'cpuMicrosPerDelivery' | 'p99Ms' | 'residentMb' | 'cpuMicrosPerEvent',
  ratio: 'ofCpu' | 'ofP99' | 'ofMemory' | 'ofAdded',
  { isOn, shape = 'mixed' }: { readonly isOn: (runtime: string) => boolean; readonly shape?: Shape },
): Aim['measured'] {
  return firstOf('agents', [], (rows) => {
    const all = agentsSummaries(rows).filter((one) => one.agents === 300 && one.shape === shape)
    const peer = all.find(({ subject }) => subject === 'apiserver')
    const [ours] = all
      .filter(({ subject, runtime }) => subject === 'distributary' && isOn(runtime))
      .toSorted((a, b) => (a[ratio]?.median ?? Infinity) - (b[ratio]?.median ?? Infinity))
    const ratios = ours?.[ratio]
    if (peer === undefined || ours === undefined || ratios === null || ratios === undefined) return undefined
    return {
      ours: ours[figure],
      beside: peer[ratio === 'ofAdded' ? 'addedMicrosPerEvent' : figure],
      ratio: ratios.median,
    }
  })
}

/** The Node version of the container. */
const isShipped = (runtime: string): boolean => runtime.startsWith('Node 24.')
const isAny = (): boolean => true

/** Compares the medians of a figure of the simulated cluster with those of the API server alone. */
function relieved(arrangement: string, phase: string, figureOf: string | ((row: Row) => number)): Aim['measured'] {
  return firstOf('relief', [], (rows) => {
    const of = (name: string): number | undefined => {
      const all = rows
        .filter((row) => row['arrangement'] === name && row['phase'] === phase)
        .map((row) => (typeof figureOf === 'string' ? Number(row[figureOf]) : figureOf(row)))
      return all.length === 0 ? undefined : median(all)
    }
    return both(of(arrangement), of('alone'))
  })
}

const coresOfAll = (row: Row): number =>
  ['apiServerCores', 'etcdCores', 'oursCores'].reduce((sum, name) => sum + (Number(row[name]) || 0), 0)

/** Compares a count of what must not happen, failed rows included, with the number of cases in which it could. */
function none(
  question: string,
  count: (row: Row) => number,
  of: (row: Row) => number,
  { load = [], isMeant = () => true }: { readonly load?: readonly number[]; readonly isMeant?: Match } = {},
): Aim['measured'] {
  return (runsOf) => {
    for (const rows of runsOf(question, load[0], load[1])) {
      const all = rows.filter((row) => row.subject === 'distributary' && isMeant(row))
      const sum = (value: (row: Row) => number): number => all.reduce((total, row) => total + (value(row) || 0), 0)
      if (all.length > 0) return both(sum(count), sum(of))
    }
    return undefined
  }
}

/** Compares the greatest figure of a question's rows with a limit. */
function most(
  question: string,
  figureOf: (row: Row) => number,
  limit: number,
  isMeant: Match = () => true,
): Aim['measured'] {
  return firstOf(question, [], (rows) => {
    const all = rows.filter(isMeant).map(figureOf).filter(Number.isFinite)
    return all.length === 0 ? undefined : { ours: Math.max(...all), beside: limit }
  })
}

const isFull: Match = (row) => row['rings'] === 'full'
const isOf50: Match = (row) => row['askers'] === 50
const fault =
  (name: RegExp): Match =>
  (row) =>
    name.test(String(row['fault']))

const aims: readonly Aim[] = [
  {
    question: 'cost',
    what: '300 node agents, CPU of a delivery on Node 24, as shipped',
    unit: 'µs',
    peer: 'API server',
    atMost: 0.65,
    isMain: true,
    matters: 'most watches of a cluster are those of its node agents, each on a connection of its own',
    missed: ALONE_ON_ITS_CONNECTION,
    measured: agents('cpuMicrosPerDelivery', 'ofCpu', { isOn: isShipped }),
  },
  {
    question: 'cost',
    what: '300 node agents, CPU of a delivery on the best runtime',
    unit: 'µs',
    peer: 'API server',
    atMost: 0.5,
    matters: 'operators choose the runtime',
    missed: ALONE_ON_ITS_CONNECTION,
    measured: agents('cpuMicrosPerDelivery', 'ofCpu', { isOn: isAny }),
  },
  {
    question: 'cost',
    what: '1,000 watchers of one resource, 20 events/s, HTTP/1.1: CPU of a delivery',
    unit: 'µs',
    peer: 'etcd, gRPC',
    atMost: 0.5,
    isMain: true,
    matters: 'at half of it, a core of ours replaces two of etcd, which has its writes to do',
    missed: WRITING,
    measured: compared('fanout', [OURS, ['etcd', 'grpc']], microsPerDelivery, paced),
  },
  {
    question: 'cost',
    what: '1,000 watchers of one resource, 20 events/s, HTTP/1.1: CPU of a delivery',
    unit: 'µs',
    peer: 'grpc-proxy',
    atMost: 0.5,
    matters: "it is etcd's own answer to many watchers",
    missed: WRITING,
    measured: compared('fanout', [OURS, ['grpc-proxy', 'grpc']], microsPerDelivery, paced),
  },
  {
    question: 'cost',
    what: '1,000 watchers of one resource, 20 events/s, HTTP/1.1: CPU of a delivery',
    unit: 'µs',
    peer: 'JSON gateway of etcd',
    atMost: 0.2,
    matters: 'it is the other way to watch etcd over HTTP',
    missed: WRITING,
    measured: compared('fanout', [OURS, ['etcd', 'json-gateway']], microsPerDelivery, paced),
  },
  {
    question: 'cost',
    what: '1,000 watchers of one resource, 20 events/s, HTTP/1.1: CPU of a delivery',
    unit: 'µs',
    peer: 'limit: a C program that only sends',
    atMost: 1.33,
    isMain: true,
    matters: 'only the cost above this limit is ours to save',
    missed: WRITING,
    measured: compared('fanout', [OURS, LIMIT], microsPerDelivery, paced),
  },
  {
    question: 'cost',
    what: '1,000 watchers of one resource, 20 events/s, HTTP/1.1 over TLS: CPU of a delivery',
    unit: 'µs',
    peer: 'API server',
    atMost: 0.45,
    matters: 'programs that list and watch one resource, as controllers do, connect like this',
    missed: TLS,
    measured: compared('fanout', [OURS_TLS, API_SERVER], microsPerDelivery, paced),
  },
  ...([20, 100] as const).map((streams): Aim => ({
    question: 'cost',
    what: `1,000 watchers of one resource, 20 events/s, HTTP/2 over TLS, ${streams} watches a connection: CPU of a delivery`,
    unit: 'µs',
    peer: 'API server',
    atMost: streams === 20 ? 0.29 : 0.22,
    matters: 'gateways, dashboards and programs with many informers share a connection',
    missed: TLS,
    measured: compared(
      'fanout',
      [
        ['distributary', `http2x${streams}-tls`],
        ['apiserver', `http2x${streams}-tls`],
      ],
      microsPerDelivery,
      paced,
    ),
  })),
  {
    question: 'cost',
    what: 'as many events as 1,000 watchers take: CPU of a delivery',
    unit: 'µs',
    peer: 'grpc-proxy',
    atMost: 0.33,
    matters: 'under overload, what is delivered for a CPU second decides how long it lasts',
    missed: WRITING,
    measured: compared('fanout', [OURS, ['grpc-proxy', 'grpc']], microsPerDelivery, saturated),
  },
  {
    question: 'cost',
    what: 'as many events as 1,000 watchers take: CPU of a delivery',
    unit: 'µs',
    peer: 'limit: a C program that only sends',
    atMost: 1.82,
    matters: 'the cost above it is ours',
    missed: WRITING,
    measured: compared('fanout', [OURS, LIMIT], microsPerDelivery, saturated),
  },
  {
    question: 'cost',
    what: 'an event of 3.5 KB to one of 100 watchers over TLS, 200,000 objects, full history: CPU',
    unit: 'µs',
    peer: 'API server',
    atMost: 0.5,
    isMain: true,
    matters: 'most events of a cluster are of one pod, for one node',
    missed:
      'at 300 events a second an idle core is woken for each, and no single part stands out (see the profiling notes in `bench/README.md`)',
    measured: compared('one-event', [OURS_TLS, API_SERVER], 'cpuMicrosPerEvent', { isMeant: isFull }),
  },
  ...(
    [
      ['Node 24, as shipped', NODE_24, 'grpc', 20, 0.5],
      ['over TLS, Node 24', NODE_24, 'grpc-tls', 20, 1],
      ['over TLS, Bun', BUN, 'grpc-tls', 20, 0.5],
      ['as many events as they take, Node 24', NODE_24, 'grpc', 0, 0.33],
    ] as const
  ).map(([load, runtime, wire, rate, atMost]): Aim => ({
    question: 'cost',
    what: `1,000 watchers of etcd's protocol, ${load}: CPU of a delivery`,
    unit: 'µs',
    peer: 'grpc-proxy',
    atMost,
    matters: 'etcd already ships a proxy, so a separate program must be cheaper',
    missed: "each watch is a stream of Node's HTTP/2 with a connection of its own",
    measured: firstOf('etcd-api', [1_000, rate], (rows) => {
      const of = (name: string): number | undefined => {
        const row = rows.find((one) => one.subject.startsWith(name) && one.wire === wire)
        return row === undefined ? undefined : microsPerDelivery(row)
      }
      return both(of(runtime), of('grpc-proxy'))
    }),
  })),
  {
    question: 'relief',
    what: "1,000 watchers of etcd's protocol: etcd's own CPU for them, Node 24",
    unit: 'of it',
    peer: 'as many watchers directly at etcd',
    atMost: 0.05,
    matters: 'whatever this saves, etcd has for its writes',
    missed: 'we have one watch on etcd, and ask it for progress',
    measured: firstOf('etcd-api', [1_000, 20], (rows) => {
      const ours = rows.find(({ subject, wire }) => subject.startsWith(NODE_24) && wire === 'grpc')
      return both(ours === undefined ? undefined : ofDirectEtcdCpu(ours, rows), 1)
    }),
  },
  {
    question: 'cost',
    what: 'an event for one of 10,000 selectors: CPU',
    unit: 'µs',
    peer: 'the same with 100',
    atMost: 1.5,
    matters: 'events must not cost more as a cluster grows',
    missed: 'more selectors take more of the caches of the processor',
    measured: firstOf('selectors', [], (rows) => {
      const of = (count: number): number | undefined => {
        const row = rows.find((one) => one.subject === 'distributary' && one['selectors'] === count)
        return row === undefined ? undefined : Number(row['cpuMicrosPerEventAboveIdle'])
      }
      return both(of(10_000), of(100))
    }),
  },
  {
    question: 'cost',
    what: '50 lists of 10,000 objects at once, over TLS: CPU of each',
    unit: 'ms',
    peer: 'API server',
    atMost: 0.1,
    matters: 'lists are what a restart of many clients costs',
    missed: 'most of it is encrypting 10 MB in Node',
    measured: compared('list', [OURS_TLS, API_SERVER], 'cpuMsEach', { isMeant: isOf50 }),
  },
  {
    question: 'cost',
    what: 'two workers: CPU of a delivery',
    unit: 'µs',
    peer: 'one worker',
    atMost: 1.1,
    matters: 'more cores must not cost more for each delivery',
    missed: 'each worker reads every event once',
    measured: firstOf('workers', [], (rows) => {
      const of = (count: number): number | undefined => {
        const row = rows.find((one) => one['workers'] === count)
        return row === undefined ? undefined : Number(row['cpuMicrosPerDelivery'])
      }
      return both(of(2), of(1))
    }),
  },
  {
    question: 'time',
    what: '300 node agents, from the put until an agent has it, p99 on Node 24',
    unit: 'ms',
    peer: 'API server',
    atMost: 0.45,
    isMain: true,
    matters: 'the last agent to learn of a change decides how long traffic goes to a pod that is gone',
    missed: ONE_AFTER_THE_OTHER,
    measured: agents('p99Ms', 'ofP99', { isOn: isShipped }),
  },
  {
    question: 'time',
    what: '1,000 watchers, 20 events/s, HTTP/1.1: p99',
    unit: 'ms',
    peer: 'etcd, gRPC',
    atMost: 0.25,
    isMain: true,
    matters: 'a hop must not be slower than what is behind it',
    missed: 'an event goes to 1,000 sockets one after the other, most of which time is the kernel’s',
    measured: compared('fanout', [OURS, ['etcd', 'grpc']], 'p99Ms', paced),
  },
  {
    question: 'time',
    what: '1,000 watchers, 20 events/s, HTTP/1.1 over TLS: p99',
    unit: 'ms',
    peer: 'API server',
    atMost: 1,
    matters: 'a move must not make anything late',
    missed: TLS,
    measured: compared('fanout', [OURS_TLS, API_SERVER], 'p99Ms', paced),
  },
  {
    question: 'time',
    what: '5,000 watchers, 5 events/s, HTTP/1.1: p99',
    unit: 'ms',
    peer: 'limit: a C program that only sends',
    atMost: 1.33,
    matters: 'only the cost above this limit is ours to save',
    missed: WRITING,
    measured: compared('fanout', [OURS, LIMIT], 'p99Ms', { load: [5_000, 5] }),
  },
  {
    question: 'time',
    what: 'an event of 3.5 KB to one of 100 watchers over TLS, 200,000 objects, full history: p99',
    unit: 'ms',
    peer: 'API server',
    atMost: 0.5,
    matters: 'a kubelet starts a pod when it has the event',
    missed: 'V8 marks its heap every 40 s, in steps of 150 ms in total; only that frees events that left the history',
    measured: compared('one-event', [OURS_TLS, API_SERVER], 'p99Ms', { isMeant: isFull }),
  },
  {
    question: 'time',
    what: 'p99 while one in a hundred reads nothing',
    unit: 'ms',
    peer: 'the same without it',
    atMost: 1.2,
    matters: 'a slow reader must harm nobody else',
    missed: 'a slow reader takes turns of the event loop',
    measured: firstOf('slow', [], (rows) => {
      const row = rows.find(({ subject }) => subject === 'distributary')
      return row === undefined ? undefined : both(Number(row['p99MsOfOthers']), Number(row['p99MsWithout']))
    }),
  },
  {
    question: 'time',
    what: 'longest block of the event loop by a known-bad request, CPU',
    unit: 'ms',
    peer: 'limit: a slice for requests',
    atMost: 4,
    matters: 'no request may hold up the watches of others',
    missed: SLICES,
    measured: most('loop', (row) => Number(row['blockCpuMs']), SLICE_MS),
  },
  {
    question: 'time',
    what: 'p99 that a known-bad request adds for 100 other watchers',
    unit: 'ms',
    peer: 'limit: a slice for requests',
    atMost: 4,
    matters: 'this is what others notice of it',
    missed: SLICES,
    measured: most('loop', (row) => Number(row['p99Ms']) - Number(row['p99MsWithout']), SLICE_MS),
  },
  {
    question: 'memory',
    what: '300 node agents, resident memory on Node 24',
    unit: 'MB',
    peer: 'API server',
    atMost: 0.25,
    isMain: true,
    matters: 'a sidecar shares the machine of the control plane',
    missed:
      'Node and its modules take 113 MB before there is an object or an agent, 49 of which are pages of its program file',
    measured: agents('residentMb', 'ofMemory', { isOn: isShipped }),
  },
  {
    question: 'memory',
    what: 'an object of 1 KiB among 200,000',
    unit: 'bytes',
    peer: 'API server',
    atMost: 0.25,
    isMain: true,
    matters: 'objects decide the size of the process in a large cluster',
    missed: 'an object also has a key, a buffer and V8 objects',
    measured: compared('objects', [OURS, API_SERVER], 'bytesPerObject'),
  },
  {
    question: 'memory',
    what: 'an idle watcher, HTTP/1.1',
    unit: 'KB',
    peer: 'etcd, gRPC',
    atMost: 0.25,
    isMain: true,
    matters: 'it decides how many browsers or sidecars fit on a machine',
    missed: 'Node itself takes about as much for a connection',
    measured: compared('memory', [OURS, ['etcd', 'grpc']], 'kbPerIdleWatcher'),
  },
  ...(['http1', 'http1-tls'] as const).map((wire): Aim => ({
    question: 'memory',
    what: `each of 1,000 watchers, ${wire === 'http1' ? 'HTTP/1.1' : 'HTTP/1.1 over TLS'}`,
    unit: 'KB',
    peer: 'bare Node',
    atMost: 1.25,
    matters: 'the cost above it is ours',
    missed:
      'the first thousand watchers also load code and buffers that bare Node lacks, and that cost is divided by only a thousand',
    measured: compared(
      'fanout',
      [
        ['distributary', wire],
        ['bare-node', wire],
      ],
      'kbPerWatcher',
      paced,
    ),
  })),
  {
    question: 'memory',
    what: '50 lists of 10,000 objects at once, over TLS: what they add',
    unit: 'MB',
    peer: 'API server',
    atMost: 0.05,
    matters: 'a burst of lists must not end the process',
    missed: 'each connection that reads slowly holds a buffer of its own',
    measured: compared('list', [OURS_TLS, API_SERVER], 'peakAboveMb', { isMeant: isOf50 }),
  },
  ...(['sidecar', 'upstream'] as const).map((arrangement): Aim => ({
    question: 'storm',
    what: `the API server restarts: until all watches of 200 nodes are live, ${named(arrangement)}`,
    unit: 'ms',
    peer: 'API server alone',
    atMost: 0.1,
    isMain: true,
    matters: 'until then nodes act on old data',
    missed: 'its own history has a gap then, so that everybody lists again',
    measured: relieved(arrangement, 'storm', 'liveMs'),
  })),
  ...(['sidecar', 'upstream'] as const).map((arrangement): Aim => ({
    question: 'storm',
    what: `the API server restarts: its CPU until all watches are live, ${named(arrangement)}`,
    unit: 's',
    peer: 'API server alone',
    atMost: 0.25,
    isMain: arrangement === 'sidecar',
    matters: 'a control plane that has just started has other work',
    missed: 'it lists each resource again for us, and for its controllers',
    measured: relieved(arrangement, 'storm', 'apiServerCpuSeconds'),
  })),
  ...(['sidecar', 'upstream'] as const).map((arrangement): Aim => ({
    question: 'storm',
    what: `the API server restarts: watches that had to list again, ${named(arrangement)}`,
    unit: '',
    peer: 'API server alone',
    atMost: 0,
    matters: 'lists are what makes a storm',
    missed: 'a watch was away for longer than the history reaches',
    measured: relieved(arrangement, 'storm', 'relisted'),
  })),
  {
    question: 'storm',
    what: '1,000 watchers come back at once while 200 clients list: those that had to list again',
    unit: '',
    peer: 'all of them',
    atMost: 0,
    matters: 'lists are what makes a storm',
    missed: 'a watch was away for longer than the history reaches',
    measured: none(
      'storm',
      (row) => Number(row['hadToRelist']),
      (row) => Number(row['watchers']),
    ),
  },
  {
    question: 'storm',
    what: '1,000 watchers come back at once over TLS while 200 clients list: until all have what they missed',
    unit: 'ms',
    peer: 'API server',
    atMost: 0.5,
    matters: 'until then they act on old data',
    missed: TLS,
    measured: compared('storm', [OURS_TLS, API_SERVER], 'caughtUpMs'),
  },
  {
    question: 'storm',
    what: '300 node agents: watches that were ended, on any runtime',
    unit: '',
    peer: 'all of them',
    atMost: 0,
    matters: 'a client whose watch is ended lists again',
    missed: 'a watch did not read for so long that it left the history',
    measured: none(
      'agents',
      (row) => Number(row['ended']),
      (row) => Number(row['watches']),
      {
        isMeant: (row) => row['agents'] === 300 && shapeOf(row) === 'mixed',
      },
    ),
  },
  {
    question: 'storm',
    what: 'as many events as 1,000 watchers take: runs in which one was ended, or missed an event',
    unit: '',
    peer: 'all runs',
    atMost: 0,
    matters: 'nothing may be dropped under overload',
    missed: 'this would be a bug',
    measured: none(
      'fanout',
      (row) => (row['failed'] === undefined ? 0 : 1),
      () => 1,
      saturated,
    ),
  },
  {
    question: 'storm',
    what: 'a member of etcd freezes: until every watcher has the next write, at the most',
    unit: 'ms',
    peer: 'limit: a member counts as silent',
    atMost: 1.5,
    matters: 'until then watchers act on old data',
    missed: 'a frozen leader has to be replaced first, which is etcd’s own time',
    measured: most('recovery', (row) => Number(row['toldMaxMs']), SILENT_MS, fault(/freezes/)),
  },
  {
    question: 'storm',
    what: 'etcd was away: until every watcher has the first write, at the most',
    unit: 'ms',
    peer: 'limit: a member counts as silent',
    atMost: 0.5,
    matters: 'until then watchers act on old data',
    missed: 'etcd is found again within 0.7 s, and then each resource compares its history',
    measured: most('recovery', (row) => Number(row['toldMaxMs']), SILENT_MS, fault(/away/)),
  },
  ...(['sidecar', 'upstream'] as const).map((arrangement): Aim => ({
    question: 'relief',
    what: `a cluster of 200 nodes, one agent each: CPU of the API server, ${named(arrangement)}`,
    unit: 'cores',
    peer: 'API server alone',
    atMost: 0.75,
    isMain: true,
    matters: 'whatever it saves is left for its writes',
    missed: 'the rest is for writes, controllers and the scheduler',
    measured: relieved(arrangement, 'steady', 'apiServerCores'),
  })),
  ...(['sidecar', 'upstream'] as const).map((arrangement): Aim => ({
    question: 'relief',
    what: `that cluster: CPU of API server, etcd and distributary together, ${named(arrangement)}`,
    unit: 'cores',
    peer: 'API server and etcd alone',
    atMost: 1,
    isMain: true,
    matters: 'above it, a move costs more than it frees',
    missed:
      'one agent per node is few: every event has a fixed cost for us, even without watchers, and behind an API server we also watch it ourselves',
    measured: relieved(arrangement, 'steady', coresOfAll),
  })),
  {
    question: 'relief',
    what: 'that cluster: p99 of requests to the API server, with a sidecar',
    unit: 'ms',
    peer: 'API server alone',
    atMost: 1,
    matters: 'users notice this',
    missed: 'writes and controllers decide it at this size',
    measured: relieved('sidecar', 'steady', 'apiServerP99Ms'),
  },
  {
    question: 'relief',
    what: 'that cluster: memory of the API server, with a sidecar',
    unit: 'MB',
    peer: 'API server alone',
    atMost: 1,
    matters: 'it decides the size of the control plane’s machine',
    missed: 'its watch cache holds every object, even if nobody watches',
    measured: relieved('sidecar', 'steady', 'apiServerPeakMb'),
  },
  ...(['mixed', 'even', 'pods'] as const).map((shape): Aim => ({
    question: 'relief',
    what: `300 node agents, ${SHAPE_TITLES[shape]}: all CPU of ours for an event, Node 24`,
    unit: 'µs',
    peer: 'what the agents add to the API server',
    atMost: 0.75,
    isMain: shape === 'pods',
    matters: 'at 1, moving the agents frees no core',
    missed: 'an event for few watchers costs us most before anybody watches',
    measured: agents('cpuMicrosPerEvent', 'ofAdded', { isOn: isShipped, shape }),
  })),
]

/**
 * Returns what the watchers of a row cost etcd, as a fraction of what as many cost it directly. The writes themselves
 * are subtracted. undefined for etcd's own rows, and where it was not measured.
 */
export function ofDirectEtcdCpu(row: Row, rows: readonly Row[]): number | undefined {
  const same = (one: Row): boolean => one['watchers'] === row['watchers'] && one['rate'] === row['rate']
  const direct = rows.find((one) => one.subject === 'etcd' && one.wire === 'grpc' && same(one))
  const [own, most, alone] = [
    row['etcdCpuMicrosPerEvent'],
    direct?.['etcdCpuMicrosPerEvent'],
    direct?.['etcdCpuMicrosPerEventAlone'],
  ]
  if (row.subject === 'etcd' || typeof own !== 'number' || typeof most !== 'number' || typeof alone !== 'number')
    return undefined
  return most > alone ? Math.max(0, own - alone) / (most - alone) : undefined
}

function named(arrangement: 'sidecar' | 'upstream'): string {
  return arrangement === 'sidecar' ? 'with a sidecar' : 'with `--upstream`'
}

/** Returns the table that answers the questions. @param figure formats a number. */
export function answersTable(runsOf: RunsOf, figure: (value: number) => string): string {
  return Object.entries(QUESTIONS)
    .map(([question, title]) => {
      const lines = aims
        .filter((aim) => aim.question === question && aim.isMain === true)
        .map((aim) => `| ${cells(aim, runsOf, figure).join(' | ')} |`)
      return [`| **${title}** | | | | | | |`, ...lines].join('\n')
    })
    .join('\n')
    .replace(/^/, `${HEAD.join('\n')}\n`)
}

/** Returns the table of the other aims. @param figure formats a number. */
export function aimsTable(runsOf: RunsOf, figure: (value: number) => string): string {
  const others = aims.filter(({ isMain }) => isMain !== true)
  return [...HEAD, ...others.map((aim) => `| ${cells(aim, runsOf, figure).join(' | ')} |`)].join('\n')
}

const HEAD = [
  '| | ours | beside | | ratio | aim | why it matters; if missed, why |',
  '| --- | ---: | ---: | --- | ---: | ---: | --- |',
]

function cells(aim: Aim, runsOf: RunsOf, figure: (value: number) => string): string[] {
  const measured = aim.measured(runsOf)
  const withUnit = (value: number): string => [figure(value), aim.unit].filter((word) => word !== '').join(' ')
  const asked = `≤ ${figure(aim.atMost)} ×`
  if (measured === undefined) return [aim.what, '–', '–', aim.peer, 'not measured', asked, aim.matters]
  const { ours, beside, ratio = ours / beside } = measured
  const verdict = ratio <= aim.atMost ? aim.matters : `${aim.matters}. **Missed**: ${aim.missed}`
  return [aim.what, withUnit(ours), withUnit(beside), aim.peer, `${figure(ratio)} ×`, asked, verdict]
}
