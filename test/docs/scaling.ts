/**
 * The figures of deploy/SCALING.md: the measured costs of one process (`bench/results.jsonl`), multiplied for very many
 * watchers. Nothing is typed by hand, and missing measurements are marked as such.
 */
import { figure, lastRun, newest, NOT_YET, parseRows, type Row, WIRES, withMade } from './recorded.js'

const EDGE_BEGIN = '<!-- Generated from the rows of `bench edge` in bench/results.jsonl by `npm run generate`. -->'

/** Events of 1 KiB that every watcher receives a second. */
const EVENTS_PER_SECOND = 20
/** The planned utilization of a core. */
const BUSY = 0.6
/** The number of workers on an edge. */
const WORKERS = 8
/** The planned bandwidth of a network card of 25 Gbit/s. */
const CARD_BYTES_PER_SECOND = (25e9 / 8) * BUSY
/** The wires in the plan: one watcher per connection, and connections shared as by client-go. */
const PLANNED = ['http1-tls', 'http2x20-tls', 'http2x100-tls'] as const
const SIZES = [100_000, 1_000_000]
/** Clients in the row of `bench edge` that the plan for browsers multiplies. With more, the one process that polls is full. */
const EDGE_CLIENTS = 1_000
const EDGE_SUBJECTS = { nginx: 'pollers behind nginx', varnish: 'pollers behind Varnish', sse: 'Server-Sent Events' }

/** deploy/SCALING.md with its current figures. @throws Error when their place is gone. */
export function withScaling(page: string, recorded: string): string {
  const rows = parseRows(recorded)
  const watchers = [measured(rows), ...SIZES.map((watchers) => planned(rows, watchers))].join('\n\n')
  return withMade(withMade(page, watchers), browsers(lastRun(recorded, 'edge')), EDGE_BEGIN)
}

/** Clients behind HTTP caches: what was measured, and the caches that a million need. */
function browsers(rows: readonly Row[]): string {
  const cells = Object.entries(EDGE_SUBJECTS).flatMap(([subject, name]) => {
    const row = rows.find((one) => one.subject === subject && one['watchers'] === EDGE_CLIENTS && !one.failed)
    if (row === undefined) return []
    const cores = row['cacheCores'] === null ? null : (Number(row['cacheCores']) * 1_000_000) / EDGE_CLIENTS / BUSY
    const machines = cores === null ? '–' : figure(Math.ceil(cores / WORKERS))
    const figures = ['originCores', 'usPerEvent', 'cacheCores', 'meanMs', 'p50Ms', 'p99Ms'].map((key) =>
      figure(row[key]),
    )
    return `| ${name} | ${figures.join(' | ')} | ${machines} |`
  })
  return [
    `${figure(EDGE_CLIENTS)} clients, ${figure(rows[0]?.['rate'])} writes/s of 30 bytes, without TLS (\`npm run bench -- edge\`). The cache and the program that polls share a core. The last column is for a million clients, with cores 60% busy.`,
    '',
    '| | cores of the server | its CPU µs per write | cores of the cache | mean ms | p50 ms | p99 ms | caches of eight cores |',
    '| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |',
    ...cells,
    '',
    recordedOn([rows[0]]),
  ].join('\n')
}

interface Costs {
  readonly row: Row
  readonly deliveriesPerCpuSecond: number
  readonly bytesPerDelivery: number
  readonly kbPerWatcher: number
}

function costsOf(rows: readonly Row[], wire: string): Costs | null {
  const row = newest(
    rows.filter(
      (one) =>
        one.question === 'fanout' &&
        one.wire === wire &&
        one['watchers'] === 1_000 &&
        one['rate'] === EVENTS_PER_SECOND,
    ),
  )
  if (row === undefined) return null
  const memory = newest(rows.filter((one) => one.question === 'memory' && one.wire === wire))
  return {
    row,
    deliveriesPerCpuSecond: Number(row['deliveriesPerCpuSecond']),
    bytesPerDelivery: Number(row['bytesPerDelivery']),
    kbPerWatcher: Number(memory?.['kbPerWatcherAfterEvents'] ?? row['kbPerWatcher']),
  }
}

function measured(rows: readonly Row[]): string {
  const wires = PLANNED.map((wire) => {
    const costs = costsOf(rows, wire)
    const cells = [costs?.deliveriesPerCpuSecond, costs?.kbPerWatcher, costs?.bytesPerDelivery].map(figure)
    return `| ${WIRES[wire]} | ${cells.join(' | ')} |`
  })
  const hops = [1, 3].map((servers) => {
    const row = hopOf(rows, servers)
    const names = [
      'directP99Ms',
      'p99Ms',
      'publisherMicrosPerEvent',
      'natsMicrosPerEvent',
      'edgeMicrosPerEvent',
      'publisherIdleCores',
      'natsIdleCores',
      'edgeIdleCores',
      'natsBytesPerEventAndEdge',
      'carriedPerSecond',
    ]
    return `| ${servers} | ${names.map((name) => figure(row?.[name])).join(' | ')} |`
  })
  const objects = newest(rows.filter(({ question }) => question === 'objects'))
  const edge = hopOf(rows, 1)
  return [
    `One process, 1,000 watchers, ${EVENTS_PER_SECOND} events of about 1 KiB per second (\`npm run bench -- fanout\`, \`memory\`):`,
    '',
    '| transport | deliveries per CPU-second | KB per watcher | bytes per delivery |',
    '| --- | ---: | ---: | ---: |',
    ...wires,
    '',
    `The hop over NATS (\`npm run bench -- nats\`): one publisher and ${figure(edge?.['edges'])} edges, each a separate process, at ` +
      `${figure(edge?.['rate'])} events/s. CPU is in µs per event, above the load at rest; for NATS it is the sum of all servers.`,
    '',
    '| NATS servers | p99 ms: publisher | edge | µs: publisher | NATS | edge | cores at rest: publisher | NATS | edge | bytes from NATS per event and edge | maximum events/s |',
    '| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |',
    ...hops,
    '',
    `An object of 1 KiB takes ${figure(objects?.['bytesPerObject'])} bytes of memory in each replica. A new edge with ` +
      `${figure(edge?.['objects'])} objects was ready after ${figure(edge?.['edgeReadyMs'])} ms and used ${figure(edge?.['edgeResidentMb'])} MB.`,
    '',
    recordedOn([costsOf(rows, 'http1-tls')?.row, edge, objects]),
  ].join('\n')
}

function hopOf(rows: readonly Row[], servers: number): Row | undefined {
  return newest(rows.filter((row) => row.question === 'nats' && row['servers'] === servers))
}

function recordedOn(rows: readonly (Row | undefined)[]): string {
  const machines = rows.flatMap((row) =>
    row === undefined
      ? []
      : `${String(row['cpu'])}, ${String(row['cores'])} cores, Node ${String(row['node'])}, etcd ${String(row['etcd'])}, commit ${String(row['commit'])}`,
  )
  return `Recorded on: ${[...new Set(machines)].join('; ')}.`
}

function planned(rows: readonly Row[], watchers: number): string {
  const deliveries = watchers * EVENTS_PER_SECOND
  const table = PLANNED.map((wire) => {
    const costs = costsOf(rows, wire)
    if (costs === null) return `| ${WIRES[wire]} | ${Array.from({ length: 6 }, () => NOT_YET).join(' | ')} |`
    const cores = deliveries / costs.deliveriesPerCpuSecond / BUSY
    const bytes = deliveries * costs.bytesPerDelivery
    const cards = bytes / CARD_BYTES_PER_SECOND
    const byCores = Math.ceil(cores / WORKERS)
    const byCards = Math.ceil(cards)
    const edges = Math.max(byCores, byCards)
    const first = byCores >= byCards ? 'cores' : 'the network card'
    const memoryGb = (watchers / edges) * costs.kbPerWatcher * 1_000 * 1e-9
    const cells = [cores, edges, memoryGb, (bytes * 8) / 1e9].map((one, i) => figure(i === 1 ? one : rounded(one)))
    return `| ${WIRES[wire]} | ${cells.join(' | ')} | ${first} | ${natsOf(rows, edges)} |`
  })
  return [
    `### ${figure(watchers)} watchers, ${EVENTS_PER_SECOND} events/s to each, over TLS`,
    '',
    '| transport | cores in total | edges | GB for the watchers of an edge | Gbit/s in total | bottleneck | cores of NATS |',
    '| --- | ---: | ---: | ---: | ---: | --- | ---: |',
    ...table,
  ].join('\n')
}

/** The total cost of three NATS servers with this many edges: their work per event and at rest grows with the edges. */
function natsOf(rows: readonly Row[], edges: number): string {
  const hop = hopOf(rows, 3)
  if (hop === undefined) return NOT_YET
  const share = edges / Number(hop['edges'])
  const busy = (EVENTS_PER_SECOND * Number(hop['natsMicrosPerEvent'])) / 1e6
  return figure(rounded((busy + Number(hop['natsIdleCores'])) * share))
}

/** To three digits. */
function rounded(value: number): number {
  return Number(value.toPrecision(3))
}
